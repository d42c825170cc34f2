package server

import (
	"cmp"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// Config is one server's settings. Zero values take the defaults.
type Config struct {
	Name    string // stable; default: the host's name
	DataDir string // default DefaultDataDir
	HTTP    string // host:port of the API; default DefaultHTTP
	RPC     string // host:port of Raft and RPC; default DefaultRPC
	Gossip  string // host:port of membership, TCP and UDP; default DefaultGossip

	AdvertiseRPC    string // host:port at which others reach RPC, where that is not where it listens
	AdvertiseGossip string // ditto, Gossip

	CallbackAllow   []netip.Prefix // addresses that callbacks may reach although they are inner ones
	SecretKeyFile   string         // the key that secrets are encrypted with; default: none, and no secrets
	AllowedHosts    []string       // names that a request's Host header may carry beside loopback and the listeners' own
	Join            []string       // gossip addresses of other servers
	BootstrapExpect int            // servers that form a new cluster together; default 1 without Join, else 0: wait to be added
	Alone           bool           // a cluster of one for good: it need not wait for rivals before it leads
	Insecure        bool           // allow listeners that are not loopback although there is neither TLS nor tokens

	ElectionTimeout time.Duration  // without a leader; 100ms to 10s, default DefaultElectionTimeout
	RaftMultiplier  int            // stretches ElectionTimeout: 1 to 10, default DefaultRaftMultiplier
	Retention       time.Duration  // of ended tasks; default DefaultRetention
	MaxClockSkew    time.Duration  // between servers; beyond it one does not lead; default DefaultMaxClockSkew
	LeaseTTL        time.Duration  // of workers; default DefaultLeaseTTL, or 6 election time-outs where those are longer
	Version         string         // of this build
	Logger          *slog.Logger   // default: slog.Default()
	Exit            func(code int) // ends the process when it must; default os.Exit
	Host            Host           // default: the operating system
	SnapshotBytes   int64          // of Raft's log between snapshots; default DefaultSnapshotBytes
	TrailingBytes   int64          // of it kept behind a snapshot; default raftnode's
}

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
	def(&c.DataDir, DefaultDataDir)
	def(&c.HTTP, DefaultHTTP)
	def(&c.RPC, DefaultRPC)
	def(&c.Gossip, DefaultGossip)
	if c.BootstrapExpect == 0 && len(c.Join) == 0 {
		c.BootstrapExpect = 1
	}
	c.RaftMultiplier = cmp.Or(c.RaftMultiplier, DefaultRaftMultiplier)
	c.ElectionTimeout = cmp.Or(c.ElectionTimeout, DefaultElectionTimeout)
	c.Retention = cmp.Or(c.Retention, DefaultRetention)
	c.MaxClockSkew = cmp.Or(c.MaxClockSkew, DefaultMaxClockSkew)
	c.LeaseTTL = cmp.Or(c.LeaseTTL, max(DefaultLeaseTTL, easyLease*c.electionTimeout()))
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, DefaultSnapshotBytes)
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
	if c.ElectionTimeout < minElection || c.ElectionTimeout > maxElection {
		return job.Invalid("election-timeout", "must be 100ms to 10s", c.ElectionTimeout.String())
	}
	if least := leasePerTimeout * c.electionTimeout(); c.LeaseTTL < least || c.LeaseTTL > mostLease {
		return job.Invalid("lease-ttl", "must be "+least.String()+" (four election time-outs) to 1h", c.LeaseTTL.String())
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
	if err := validateAdvertised("advertise-rpc", c.AdvertiseRPC); err != nil {
		return err
	}
	return validateAdvertised("advertise-gossip", c.AdvertiseGossip)
}

// validateAdvertised refuses what nobody could dial; empty is fine.
func validateAdvertised(field, address string) error {
	if address == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(address)
	n, bad := strconv.ParseUint(port, 10, 16)
	if ip := net.ParseIP(host); err != nil || bad != nil || n == 0 || host == "" || ip != nil && ip.IsUnspecified() {
		return job.Invalid(field, "must be HOST:PORT that others can dial, with a port from 1 to 65535", address)
	}
	return nil
}

// validateListener refuses to listen beyond loopback, where anyone who reaches
// the port could run commands.
func (c *Config) validateListener(field, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return job.Invalid(field, "must be HOST:PORT, with a port from 0 to 65535", address)
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
	return time.Duration(c.RaftMultiplier) * c.ElectionTimeout
}

// advertiseRPC is the address others dial: a wildcard becomes the host's name.
func (c *Config) advertiseRPC() string {
	if c.AdvertiseRPC != "" {
		return c.AdvertiseRPC
	}
	host, port, err := net.SplitHostPort(c.RPC)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort(c.Name, port)
	}
	return c.RPC
}
