package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/rpc"
)

const (
	formInterval = 200 * time.Millisecond
	joinInterval = 2 * time.Second
	formReport   = 10 * time.Second // between lines that say what is waited for
)

// form makes an empty server part of a cluster: of a new one, once
// --bootstrap-expect servers see each other, or of the one that is there.
//
// A new cluster is begun by one server alone, the first by name; the others get
// their configuration from it. So servers whose gossip differs can't begin two.
// An empty server that finds a cluster in being must be added by its leader
// before Raft may speak to it: it may have lost a log that it once voted with.
func (s *Server) form(ctx context.Context) error {
	if s.node.HasState() {
		s.gate.open()
		return nil
	}
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	var report, join time.Time
	for {
		others := s.otherServers()
		switch {
		case slices.ContainsFunc(others, func(m cluster.Member) bool { return m.ClusterID != "" }):
			if time.Since(join) < joinInterval {
				break
			}
			join = time.Now()
			if done, err := s.askToJoin(ctx, others); done || err != nil {
				return err
			}
		case s.cfg.BootstrapExpect > 0 && len(others)+1 >= s.cfg.BootstrapExpect:
			return s.begin(others)
		case time.Since(report) >= formReport:
			report = time.Now()
			s.log.Info("waiting for servers to form a cluster with", "found", len(others)+1,
				"expected", s.cfg.BootstrapExpect, "join", s.cfg.Join)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// otherServers returns the other living servers, by name.
func (s *Server) otherServers() []cluster.Member {
	var out []cluster.Member
	for _, m := range s.gossip.Members() {
		if m.Role == cluster.RoleServer && m.Name != s.cfg.Name && m.Liveness == cluster.Alive {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b cluster.Member) int {
		switch {
		case a.Name < b.Name:
			return -1
		case a.Name > b.Name:
			return 1
		}
		return 0
	})
	return out
}

// begin starts a new cluster, or waits for the server that does.
func (s *Server) begin(others []cluster.Member) error {
	s.gate.open()
	others = others[:s.cfg.BootstrapExpect-1]
	for _, m := range others {
		if m.Name < s.cfg.Name {
			s.log.Info("a new cluster is begun by another server", "server", m.Name)
			return nil
		}
	}
	servers := []raftnode.Server{{Name: s.cfg.Name, Address: s.cfg.advertiseRPC(), Voter: true}}
	for _, m := range others {
		servers = append(servers, raftnode.Server{Name: m.Name, Address: m.RPC, Voter: true})
	}
	s.log.Info("beginning a new cluster", "servers", len(servers))
	return s.node.Bootstrap(servers)
}

// askToJoin asks the cluster's leader, through any of its servers, to be added.
func (s *Server) askToJoin(ctx context.Context, others []cluster.Member) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	for _, m := range others {
		if m.ClusterID == "" {
			continue
		}
		var leader rpc.LeaderReply
		if err := s.peers.Call(ctx, m.RPC, rpc.MethodLeader, rpc.Empty{}, &leader); err != nil || leader.Name == "" {
			s.log.Debug("asking for the leader failed", "server", m.Name, "error", err)
			continue
		}
		err := s.peers.Call(ctx, leader.Address, rpc.MethodJoin,
			rpc.Join{Name: s.cfg.Name, Address: s.cfg.advertiseRPC(), Boot: s.boot}, nil)
		if err == nil {
			s.gate.open()
			s.log.Info("added to the cluster; catching up", "leader", leader.Name)
			return true, nil
		}
		if err := forwardError(err); errors.Is(err, job.ErrConflict) {
			return false, fmt.Errorf("joining the cluster: %w", err)
		}
		s.log.Warn("joining the cluster failed; trying again", "leader", leader.Name, "error", err)
	}
	return false, nil
}

// onJoin adds a server without a vote; it is promoted when it has caught up. A
// server of that name that was a member has lost its log, so it is removed
// first: it must not vote with a log shorter than the one it once confirmed.
func (s *Server) onJoin(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Join
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	if err := job.ValidateName("name", m.Name); err != nil {
		return nil, err
	}
	if other, ok := s.gossip.Member(cluster.RoleServer, m.Name); m.Name == s.cfg.Name ||
		ok && other.Boot != m.Boot && other.Liveness == cluster.Alive && other.RPC != m.Address {
		return nil, job.Conflict("name", "is the name of a server that is alive in this cluster; choose another --name",
			m.Name)
	}
	if s.cfg.Alone {
		return nil, job.Conflict("join", "found a server that runs alone (axd dev) and takes no others", s.cfg.Name)
	}
	if _, err := s.node.ConfirmLeadership(ctx); err != nil {
		return nil, s.notLeading(err)
	}
	servers, err := s.node.Servers()
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(servers, func(srv raftnode.Server) bool { return srv.Name == m.Name }) {
		s.log.Warn("a known server came back without its data; adding it anew", "server", m.Name)
		if err := s.node.RemoveServer(ctx, m.Name); err != nil {
			return nil, err
		}
	}
	if err := s.node.AddServer(ctx, raftnode.Server{Name: m.Name, Address: m.Address}); err != nil {
		return nil, err
	}
	return rpc.Empty{}, nil
}

// watchCluster records the cluster's id once state has it, and tells gossip.
func (s *Server) watchCluster(ctx context.Context) error {
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	for {
		if id := s.info().ClusterID; id != "" {
			s.setClusterID(id)
			s.gossip.Update(func(m *cluster.Member) { m.ClusterID = id })
			return s.dir.setCluster(id)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
