package server

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/raftnode"
)

// Host is what a server stands on: network, clocks, disk and gossip. Zero fields
// take the operating system's; a simulation gives its own.
type Host struct {
	Listen func(address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
	Wall   func() time.Time     // may jump
	Mono   func() time.Duration // since any fixed moment; counts suspends and never goes back
	Awake  func() time.Duration // as Mono without suspends; default: Mono where that is given
	FS     vfs.FS               // where DataDir is
	// RaftLog opens Raft's log and votes, which the server closes; default: the
	// file raft.db in DataDir, whatever FS is.
	RaftLog func() (raftnode.LogBackend, error)
	Gossip  func(cluster.Config) (Membership, error)
	// Callbacks sends callbacks; default: HTTP to what addresses are allowed.
	Callbacks http.RoundTripper
}

// Membership is the gossip as a server uses it: hints of who is there and where.
type Membership interface {
	Members() []cluster.Member
	Member(role cluster.Role, name string) (cluster.Member, bool)
	Self() cluster.Member
	Update(change func(*cluster.Member))
	// Conflict yields once if another process of this role and name was there first.
	Conflict() <-chan error
	// Rejoin says where to look for members that are missing.
	Rejoin(addresses func() []string)
	// Leave says goodbye and stops.
	Leave(ctx context.Context) error
}

func (h *Host) complete() {
	if h.Listen == nil {
		h.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if h.Dial == nil {
		h.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			d := net.Dialer{Timeout: dialTimeout}
			return d.DialContext(ctx, "tcp", address)
		}
	}
	if h.Awake == nil {
		h.Awake = h.Mono
	}
	if h.Wall == nil {
		h.Wall = hostWall
	}
	if h.Mono == nil {
		h.Mono, h.Awake = hostMono, hostAwake
	}
	if h.FS == nil {
		h.FS = vfs.Default
	}
	if h.RaftLog == nil {
		h.RaftLog = func() (raftnode.LogBackend, error) { return nil, nil } // raftnode opens its own
	}
	if h.Gossip == nil {
		h.Gossip = func(cfg cluster.Config) (Membership, error) {
			c, err := cluster.Start(cfg)
			if err != nil {
				return nil, err
			}
			return c, nil
		}
	}
}
