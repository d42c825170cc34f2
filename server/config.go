package server

import (
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// Config is one server's settings. Zero values take the defaults.
type Config struct {
	Name    string // stable; default: the host's name
	DataDir string // default ./axd-data
	HTTP    string // host:port of the API; default 127.0.0.1:7480
	RPC     string // host:port of Raft and RPC; default 127.0.0.1:7481
	Gossip  string // host:port of membership, TCP and UDP; default 127.0.0.1:7482

	AllowedHosts    []string // names that a request's Host header may carry beside loopback and the listeners' own
	Join            []string // gossip addresses of other servers
	BootstrapExpect int      // servers that form a new cluster together; default 1 without Join, else 0: wait to be added
	Alone           bool     // a cluster of one for good: it need not wait for rivals before it leads
	Insecure        bool     // allow listeners that are not loopback although there is neither TLS nor tokens

	RaftMultiplier int            // stretches Raft's time-outs: 1 to 10; default 1
	Retention      time.Duration  // of ended tasks; default 7 days
	MaxClockSkew   time.Duration  // between servers; beyond it one does not lead; default 500ms
	LeaseTTL       time.Duration  // of workers; default 10s, longer where RaftMultiplier is above 2
	Version        string         // of this build
	Logger         *slog.Logger   // default: slog.Default()
	Exit           func(code int) // ends the process when it must; default os.Exit
	Host           Host           // default: the operating system
	SnapshotBytes  int64          // of Raft's log between snapshots; default 64 MiB
	TrailingBytes  int64          // of it kept behind a snapshot; default 16 MiB
}

const (
	maxMultiplier   = 10
	maxBootstrap    = 9
	leastClockSkew  = 10 * time.Millisecond // below it lies what asking over a network can't tell
	mostClockSkew   = 30 * time.Second      // well below fsm.MaxForward
	leasePerTimeout = 4                     // a lease must outlive this many election time-outs
)

// complete fills in the defaults and refuses what can't be.
func (c *Config) complete() error {
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil {
			return job.Invalid("name", "must be given, since the host has none", "")
		}
		c.Name = host
	}
	def := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	def(&c.DataDir, "axd-data")
	def(&c.HTTP, "127.0.0.1:7480")
	def(&c.RPC, "127.0.0.1:7481")
	def(&c.Gossip, "127.0.0.1:7482")
	if c.BootstrapExpect == 0 && len(c.Join) == 0 {
		c.BootstrapExpect = 1
	}
	if c.RaftMultiplier == 0 {
		c.RaftMultiplier = 1
	}
	if c.Retention == 0 {
		c.Retention = 7 * 24 * time.Hour
	}
	if c.MaxClockSkew == 0 {
		c.MaxClockSkew = 500 * time.Millisecond
	}
	if c.LeaseTTL == 0 {
		c.LeaseTTL = 10 * time.Second * time.Duration(max(1, (c.RaftMultiplier+1)/2))
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Exit == nil {
		c.Exit = os.Exit
	}
	c.Host.complete()
	return c.validate()
}

func (c *Config) validate() error {
	if err := job.ValidateName("name", c.Name); err != nil {
		return err
	}
	if c.BootstrapExpect < 0 || c.BootstrapExpect > maxBootstrap {
		return job.Invalid("bootstrap-expect", "must be 0 to 9; 1, 3 or 5 make sense", strconv.Itoa(c.BootstrapExpect))
	}
	if c.BootstrapExpect > 1 && len(c.Join) == 0 {
		return job.Invalid("join", "must name the gossip address of at least one server when --bootstrap-expect is above 1",
			"")
	}
	if c.Alone && (c.BootstrapExpect != 1 || len(c.Join) > 0) {
		return job.Invalid("alone", "excludes other servers", "")
	}
	if c.RaftMultiplier < 1 || c.RaftMultiplier > maxMultiplier {
		return job.Invalid("raft-multiplier", "must be 1 to 10", strconv.Itoa(c.RaftMultiplier))
	}
	if least := leasePerTimeout * time.Duration(c.RaftMultiplier) * time.Second; c.LeaseTTL < least {
		return job.Invalid("lease-ttl", "must be at least "+least.String()+", four election time-outs", c.LeaseTTL.String())
	}
	if c.MaxClockSkew < leastClockSkew || c.MaxClockSkew > mostClockSkew {
		return job.Invalid("max-clock-skew", "must be 10ms to 30s", c.MaxClockSkew.String())
	}
	if c.Retention < time.Second {
		return job.Invalid("retention", "must be at least 1s", c.Retention.String())
	}
	for _, l := range []struct{ field, address string }{{"http", c.HTTP}, {"rpc", c.RPC}, {"gossip", c.Gossip}} {
		if err := c.validateListener(l.field, l.address); err != nil {
			return err
		}
	}
	return nil
}

// validateListener refuses to listen beyond loopback, where anyone who reaches
// the port could run commands.
func (c *Config) validateListener(field, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return job.Invalid(field, "must be HOST:PORT", address)
	}
	ip := net.ParseIP(host)
	if c.Insecure || host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return job.Invalid(field, "is not a loopback address, and there is neither TLS nor a token yet: anyone who reaches "+
		"it may run commands; listen on 127.0.0.1, or accept that with --insecure", address)
}

// aloneTimeout is the election time-out of a server that has no rivals.
const aloneTimeout = 100 * time.Millisecond

func (c *Config) electionTimeout() time.Duration {
	if c.Alone {
		return aloneTimeout
	}
	return time.Duration(c.RaftMultiplier) * time.Second
}

// advertiseRPC is the address others dial: a wildcard becomes the host's name.
func (c *Config) advertiseRPC() string {
	host, port, err := net.SplitHostPort(c.RPC)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort(c.Name, port)
	}
	return c.RPC
}
