package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/internal/timeslice"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
)

func newServer() *cobra.Command {
	var cfg server.Config
	cmd := &cobra.Command{
		Use: "server", Short: "Run a server", GroupID: "run", Args: noArgs,
		Long: `Run a server. Three of them hold the tasks together and go on when one dies;
one alone is fine where its disk is trusted.

Start the first three with --bootstrap-expect 3 and each other's gossip
addresses in --join; they form the cluster once all three are there. A server
that is started with --join alone is added to the cluster it finds.

Listeners that other machines can reach need --insecure as long as axd has
neither TLS nor tokens: whoever reaches them may run commands on the workers.

Settings come from flags, AXD_* variables and the YAML file of --config, in
this order; a flag --data-dir is AXD_DATA_DIR and data_dir there.

A server that can't go on ends with a code that says why; the last log line says
what to do. 70 to 73: log or state failed, stalled or damaged; 74: the state
differs from the others'; 75: a newer build is needed; 76, 77: restart it;
78: it was removed; 79: the disk is full; 80: --join leads to another cluster.`,
		Example: `  axd server --name s1 --data-dir /var/lib/axd          # one server on this machine

  axd server --name s1 --data-dir /var/lib/axd --insecure --bootstrap-expect 3 \
    --http 10.0.0.1:7480 --rpc 10.0.0.1:7481 --gossip 10.0.0.1:7482 \
    --join 10.0.0.1:7482,10.0.0.2:7482,10.0.0.3:7482     # the first of three`,
	}
	flags := serverFlags{cfg: &cfg}
	flags.add(cmd)
	cmd.RunE = daemon(func(ctx context.Context, _ <-chan struct{}) error {
		defer keepMemory(ctx)()
		timeslice.Shorten()
		if err := flags.complete(); err != nil {
			return err
		}
		cfg.Version, cfg.Logger = version, flags.log.logger(cmd.ErrOrStderr())
		s, err := server.New(cfg)
		if err != nil {
			return err
		}
		return s.Run(ctx)
	})
	return cmd
}

// serverFlags are the settings of a server as flags.
type serverFlags struct {
	cfg                              *server.Config
	log                              logging
	retention, skew, election, lease durationFlag
	snapshotMiB                      int64
	callbackAllow                    []string
}

func (s *serverFlags) add(cmd *cobra.Command) {
	f, cfg := cmd.Flags(), s.cfg
	host, _ := os.Hostname()
	f.StringVar(&cfg.Name, "name", host, "the server's `name`; keep it over restarts")
	f.StringVar(&cfg.DataDir, "data-dir", server.DefaultDataDir, "`directory` for the log, the state and snapshots")
	f.StringVar(&cfg.HTTP, "http", server.DefaultHTTP, "`address` of the API, host:port")
	f.StringVar(&cfg.RPC, "rpc", server.DefaultRPC, "`address` of Raft and RPC, host:port")
	f.StringVar(&cfg.Gossip, "gossip", server.DefaultGossip, "`address` of membership, host:port")
	f.StringVar(&cfg.AdvertiseRPC, "advertise-rpc", "", "`address` at which others reach --rpc, such as a forwarded port (default: --rpc)")
	f.StringVar(&cfg.AdvertiseGossip, "advertise-gossip", "", "`address` at which others reach --gossip (default: --gossip)")
	f.StringSliceVar(&cfg.Join, "join", nil, "gossip `addresses` of servers, comma separated")
	f.IntVar(&cfg.BootstrapExpect, "bootstrap-expect", 0, "`servers` that form a new cluster together (default: 1 without --join)")
	f.BoolVar(&cfg.Insecure, "insecure", false, "allow listeners that other machines can reach")
	f.StringSliceVar(&cfg.AllowedHosts, "allowed-host", nil,
		"`names` that requests may carry in their Host header, beside loopback and --http")
	f.StringSliceVar(&s.callbackAllow, "callback-allow", nil,
		"inner `addresses` that callbacks may reach, such as 10.1.0.0/16 (default: none)")
	f.StringVar(&cfg.SecretKeyFile, "secret-key-file", "", "the `file` with the key that secrets are encrypted with (default: none)")
	f.IntVar(&cfg.RaftMultiplier, "raft-multiplier", server.DefaultRaftMultiplier,
		"stretch --election-timeout, 1 to 10; 5 for SD cards and slow links")
	s.election = durationFlag(server.DefaultElectionTimeout)
	f.Var(&s.election, "election-timeout", "how long a server waits without a leader, 100ms to 10s")
	f.Var(&s.lease, "lease-ttl", "how long a worker goes on alone (default: 10s, or 6 election time-outs if longer)")
	s.skew = durationFlag(server.DefaultMaxClockSkew)
	f.Var(&s.skew, "max-clock-skew", "how far off the others' a leader's clock may be before it hands over")
	f.Int64Var(&s.snapshotMiB, "snapshot-mib", server.DefaultSnapshotBytes>>20,
		"make a snapshot whenever Raft's log has grown by so many `MiB`, 1 to 1024")
	s.retention = durationFlag(server.DefaultRetention)
	f.Var(&s.retention, "retention", "how long ended tasks are kept")
	f.Lookup("retention").DefValue = "7d"
	s.log.flags(cmd, "info")
}

// complete checks what only the flags can tell, and fills the settings in.
func (s *serverFlags) complete() error {
	switch {
	case s.retention <= 0:
		return usage("--retention", "must be more than 0")
	case s.election <= 0:
		return usage("--election-timeout", "must be 100ms to 10s")
	case s.snapshotMiB < 1 || s.snapshotMiB > maxSnapshotMiB:
		return job.Invalid("--snapshot-mib", "must be 1 to 1024", strconv.FormatInt(s.snapshotMiB, 10))
	}
	cfg := s.cfg
	var err error
	if cfg.CallbackAllow, err = prefixes("--callback-allow", s.callbackAllow); err != nil {
		return err
	}
	cfg.SnapshotBytes = s.snapshotMiB << 20
	cfg.ElectionTimeout, cfg.LeaseTTL = time.Duration(s.election), time.Duration(s.lease)
	cfg.MaxClockSkew, cfg.Retention = time.Duration(s.skew), time.Duration(s.retention)
	return errors.Join(checkDataDir(cfg.DataDir), checkAddresses("--join", cfg.Join...), checkAddresses("--gossip", cfg.Gossip))
}

// loopback are the addresses of the machine itself: who may run commands there needs
// no callback to reach them.
var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// prefixes reads ranges of addresses; a single address is a range of one.
func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if a, single := netip.ParseAddr(text); single == nil {
			p, err = netip.PrefixFrom(a, a.BitLen()), nil
		}
		if err != nil || p.Addr().Zone() != "" {
			return nil, job.Invalid(flag, "must be ranges of addresses, such as 10.1.0.0/16 or 192.168.7.3", text)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

const maxSnapshotMiB = 1024 // a restart replays so much of the log
