package server

import (
	"context"
	"errors"
	"net/netip"
	"time"

	"github.com/axd-project/axd/api"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/rpc"
)

var _ api.Backend = (*Server)(nil)

// Now implements api.Backend.
func (s *Server) Now() int64 { return s.clock.Now() }

// Cluster implements api.Backend.
func (s *Server) Cluster(context.Context) (client.Cluster, error) {
	info := s.info()
	leader, _ := s.node.Leader()
	out := client.Cluster{
		ID: info.ClusterID, Leader: leader, Term: s.node.Term(), Applied: s.node.Applied(),
		FeatureLevel: info.FeatureLevel, Now: time.UnixMilli(s.clock.Now()).UTC(),
		Servers: []client.Server{},
	}
	servers, err := s.node.Servers()
	if err != nil {
		return out, err
	}
	for _, srv := range servers {
		c := client.Server{
			Name: srv.Name, State: "unknown", Leader: srv.Name == leader, Voter: srv.Voter, RPC: srv.Address,
		}
		if m, ok := s.gossip.Member(cluster.RoleServer, srv.Name); ok {
			c.State, c.RPC, c.HTTP, c.Gossip, c.Version = liveness(m), m.RPC, m.HTTP, m.Gossip, m.Version
		}
		out.Servers = append(out.Servers, c)
	}
	return out, nil
}

// LeaderAddress implements api.Backend. A leader that listens on all addresses
// hasn't said which of them to use.
func (s *Server) LeaderAddress() string {
	name, _ := s.node.Leader()
	if name == "" || name == s.cfg.Name {
		return ""
	}
	m, ok := s.gossip.Member(cluster.RoleServer, name)
	if !ok {
		return ""
	}
	if at, err := netip.ParseAddrPort(m.HTTP); err != nil || at.Addr().IsUnspecified() {
		return ""
	}
	return m.HTTP
}

// liveness puts gossip's opinion into the API's words.
func liveness(m cluster.Member) string {
	switch m.Liveness {
	case cluster.Alive, cluster.Suspect:
		return string(m.Liveness)
	case cluster.Left:
		return "stopped"
	}
	return "lost"
}

// ReadyTasks implements api.Backend.
func (s *Server) ReadyTasks() int64 { return s.sched.Ready() }

// Follow implements api.Backend: the leader has the worker's session, so other
// servers stream through it.
func (s *Server) Follow(ctx context.Context, ref fsm.TaskRef, send func(client.LogChunk) error) error {
	text := chunkText{send: send}
	err := s.untilLeader(ctx, func() error {
		name, address := s.leader()
		switch name {
		case "":
			return errNoLeader
		case s.cfg.Name:
			return s.followHere(ctx, ref, text.output)
		}
		follow := rpc.Follow{Ref: rpc.Ref{Namespace: ref.Namespace, ID: ref.ID}}
		err := s.peers.Stream(ctx, address, rpc.MethodTail, follow, func(decode func(any) error) error {
			var out rpc.Output
			if err := decode(&out); err != nil {
				return err
			}
			return text.output(out)
		})
		if err != nil {
			return forwardError(err)
		}
		return nil
	})
	return errors.Join(err, text.end())
}

// Serving implements api.Backend.
func (s *Server) Serving(ctx context.Context) error { return s.node.ReadBarrier(ctx) }

// Metrics implements api.Backend.
func (s *Server) Metrics() map[string]float64 {
	out := map[string]float64{
		"scheduler_ready_tasks":     float64(s.sched.Ready()),
		"scheduler_loaded_tasks":    float64(s.sched.Loaded()),
		"scheduler_mended_total":    float64(s.sched.Mended()),
		"scheduler_assigned_total":  float64(s.sched.Assigned()),
		"scheduler_low_suspended":   0,
		"callbacks_delivered_total": float64(s.callbacks.Delivered()),
		"callbacks_failed_total":    float64(s.callbacks.Failed()),
		"callbacks_in_flight":       float64(s.callbacks.InFlight()),
		"lists_compared_total":      float64(s.lists.Delivered()),
		"lists_failed_total":        float64(s.lists.Failed()),
		"leader":                    0,
	}
	if s.sched.LowSuspended() {
		out["scheduler_low_suspended"] = 1
	}
	if s.leading.Load() {
		out["leader"] = 1
	}
	for k, v := range s.node.Stats() {
		out["raft_"+k] = v
	}
	for k, v := range s.home.State().Metrics() {
		out["store_"+k] = v
	}
	return out
}
