package server

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
)

const (
	// foreignGrace is how long servers of this one's own cluster have to be heard
	// of, once one of another cluster was found where this one is to join.
	foreignGrace    = 3 * time.Second
	foreignInterval = 200 * time.Millisecond
)

// onForeign notes a server of another cluster; gossip has refused it.
func (s *Server) onForeign(m cluster.Member) {
	if m.Role == cluster.RoleServer {
		s.foreign.Store(&m)
	}
}

// watchForeign returns why a server must end that carries the data of another
// cluster than those have whom it was told to join: it would go on for ever with
// what it has, beside the cluster that its operator means. A server that hears of
// its own cluster stays: there the foreigner is the one that went astray.
func (s *Server) watchForeign(ctx context.Context) error {
	if len(s.cfg.Join) == 0 {
		return nil
	}
	tick := time.NewTicker(foreignInterval)
	defer tick.Stop()
	var since time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		own := s.clusterID()
		if own == "" || s.node.Empty() {
			continue // it has no data that could be another cluster's
		}
		if slices.ContainsFunc(s.otherServers(), func(m cluster.Member) bool { return m.ClusterID == own }) {
			return nil
		}
		m := s.foreign.Load()
		if m == nil || !s.isToJoin(ctx, m.Gossip) {
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		if time.Since(since) >= foreignGrace {
			return &exitError{raftnode.ExitForeign, job.Conflict("join", fmt.Sprintf("leads to server %s of cluster %s, but the data "+
				"directory %s is of cluster %s: give the addresses of its own cluster, or move the directory away, and the server "+
				"joins the other one anew", m.Name, m.ClusterID, s.cfg.DataDir, own), m.Gossip)}
		}
	}
}

// isToJoin reports whether a gossip address is one of --join.
func (s *Server) isToJoin(ctx context.Context, address string) bool {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for _, join := range s.cfg.Join {
		h, p, err := net.SplitHostPort(join)
		if err != nil || p != port {
			continue
		}
		if ips, err := net.DefaultResolver.LookupHost(ctx, h); h == host || err == nil && slices.Contains(ips, host) {
			return true
		}
	}
	return false
}
