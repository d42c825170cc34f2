package server

import (
	"log/slog"
	"time"
)

// Config is one server's settings. Zero values take the defaults.
type Config struct {
	Name    string // stable; default: the host's name
	DataDir string // default ./axd-data
	HTTP    string // host:port of the API; default 127.0.0.1:7480
	RPC     string // host:port of Raft and RPC; default 127.0.0.1:7481
	Gossip  string // host:port of membership, TCP and UDP; default 127.0.0.1:7482

	Join            []string // gossip addresses of other servers
	BootstrapExpect int      // servers that form a new cluster together; default 1 without Join, else 0: wait to be added
	Insecure        bool     // allow listeners that are not loopback although there is neither TLS nor tokens

	RaftMultiplier int           // stretches Raft's time-outs: 1 to 10; default 1
	Retention      time.Duration // of ended tasks; default 7 days
	LeaseTTL       time.Duration // of workers; default 10s
	Version        string        // of this build
	Logger         *slog.Logger  // default: slog.Default()
}
