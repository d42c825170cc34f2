package server

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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
// A new cluster is begun by one server alone, the first by name, after each of
// the others has promised itself to exactly this one; they get their
// configuration from it. So servers whose gossip differs can't begin two. Until
// it is promised or added a server lets nobody's Raft speak to it: it may have
// lost a log that it once voted with.
func (s *Server) form(ctx context.Context) error {
	if f := s.forming(); s.node.HasState() || f != nil && f.Servers[0] != s.cfg.Name {
		s.gate.open()
	}
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	var report, join time.Time
	for !s.node.HasState() {
		others := s.otherServers()
		if time.Since(report) >= formReport {
			report = time.Now()
			s.reportForming(others)
		}
		switch {
		case slices.ContainsFunc(others, func(m cluster.Member) bool { return m.ClusterID != "" && !s.promisedTo(m) }):
			if time.Since(join) < joinInterval {
				break
			}
			join = time.Now()
			if done, err := s.askToJoin(ctx, others); done || err != nil {
				return err
			}
		case s.cfg.BootstrapExpect > 0 && len(others)+1 >= s.cfg.BootstrapExpect:
			if err := s.begin(ctx, others); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// reportForming says what is waited for.
func (s *Server) reportForming(others []cluster.Member) {
	found := []string{s.cfg.Name}
	for _, m := range others {
		found = append(found, m.Name)
	}
	attrs := []any{"servers_found", found, "expected", s.cfg.BootstrapExpect, "join", s.cfg.Join}
	if is := s.forming(); is != nil {
		attrs = append(attrs, "promised_with", is.Servers)
	}
	s.log.Info("waiting to be part of a cluster", attrs...)
}

// otherServers returns the other living servers, by name.
func (s *Server) otherServers() []cluster.Member {
	var out []cluster.Member
	for _, m := range s.gossip.Members() {
		if m.Role == cluster.RoleServer && m.Name != s.cfg.Name && m.Liveness == cluster.Alive {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b cluster.Member) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// begin starts a new cluster with the first of the others, if this server is
// the one to do so and all of them promise themselves to it. Else it waits: for
// the server that begins, or for somebody's other promise to become a cluster.
func (s *Server) begin(ctx context.Context, others []cluster.Member) error {
	others = s.companions(others)
	if others == nil {
		return nil
	}
	f := forming{ClusterID: newClusterID(), Servers: []string{s.cfg.Name}}
	servers := []raftnode.Server{{Name: s.cfg.Name, Address: s.cfg.advertiseRPC(), Voter: true}}
	for _, m := range others {
		if m.Name < s.cfg.Name {
			return nil
		}
		f.Servers = append(f.Servers, m.Name)
		servers = append(servers, raftnode.Server{Name: m.Name, Address: m.RPC, Voter: true})
	}
	if is := s.forming(); is != nil {
		f = *is
	}
	if err := s.promise(f); err != nil {
		s.log.Warn("not beginning a cluster", "servers", f.Servers, "error", err)
		return nil
	}
	// Nobody is made to promise before all would: a promise among these servers
	// replaces the one to a beginner that has lost its data, and must not where one
	// of them holds a log of that cluster.
	for _, probe := range []bool{true, false} {
		for _, m := range others {
			ask, cancel := context.WithTimeout(ctx, stepTimeout)
			req := rpc.Form{ClusterID: f.ClusterID, Servers: f.Servers, Probe: probe}
			err := s.peers.Call(ask, m.RPC, rpc.MethodForm, req, nil)
			cancel()
			if err != nil {
				s.log.Warn("a server does not take part in a new cluster; trying again", "other", m.Name, "error", err)
				return nil
			}
		}
	}
	s.log.Info("beginning a new cluster", "servers", f.Servers)
	s.setClusterID(f.ClusterID)
	s.gate.open()
	return s.node.Bootstrap(servers)
}

// companions returns with whom this server would form a cluster: those it is
// promised with, or else the first by name. Nil: one of them is missing.
func (s *Server) companions(others []cluster.Member) []cluster.Member {
	n := s.cfg.BootstrapExpect - 1
	if is := s.forming(); is != nil { // others that came since wait to be added
		n = len(is.Servers) - 1
		others = slices.DeleteFunc(others, func(m cluster.Member) bool { return !slices.Contains(is.Servers, m.Name) })
	}
	if n < 0 || len(others) < n {
		return nil
	}
	return append([]cluster.Member{}, others[:n]...)
}

// promise gives this server to a new cluster, durably, and lets its Raft speak.
func (s *Server) promise(f forming) error {
	s.formMu.Lock()
	defer s.formMu.Unlock()
	if err := s.dir.promise(f, s.node.Empty()); err != nil {
		return err
	}
	if f.Servers[0] != s.cfg.Name { // who begins it speaks for it once all have promised
		s.setClusterID(f.ClusterID)
		s.gate.open()
	}
	return nil
}

// belong records durably that the leader has added this server, before its Raft
// speaks: a log without the cluster's id could never be caught up after a crash.
func (s *Server) belong(cluster string) error {
	s.formMu.Lock()
	defer s.formMu.Unlock()
	if err := s.dir.setCluster(cluster); err != nil {
		return err
	}
	s.setClusterID(cluster)
	s.gate.open()
	return nil
}

func (s *Server) forming() *forming {
	s.formMu.Lock()
	defer s.formMu.Unlock()
	return s.dir.id.Forming
}

// promisedTo reports whether a server belongs to the cluster this one is promised
// to: then its configuration comes by itself.
func (s *Server) promisedTo(m cluster.Member) bool {
	f := s.forming()
	return f != nil && f.ClusterID == m.ClusterID
}

// onForm promises this server to a new cluster, if it is part of none.
func (s *Server) onForm(r *rpc.Request) (any, error) {
	var m rpc.Form
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	if !slices.Contains(m.Servers, s.cfg.Name) || m.ClusterID == "" {
		return nil, job.Invalid("servers", "must name this server, "+s.cfg.Name, strings.Join(m.Servers, ","))
	}
	if !s.node.Empty() {
		return nil, job.Conflict("servers", "this server holds the log of a cluster already", s.cfg.Name)
	}
	f := forming{ClusterID: m.ClusterID, Servers: m.Servers}
	if m.Probe {
		s.formMu.Lock()
		defer s.formMu.Unlock()
		if err := s.dir.mayPromise(f, true); err != nil {
			return nil, err
		}
		return rpc.Empty{}, nil
	}
	if err := s.promise(f); err != nil {
		return nil, err
	}
	return rpc.Empty{}, nil
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
			if err := s.belong(m.ClusterID); err != nil {
				return false, err
			}
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
	return rpc.Empty{}, s.notLeading(s.admit(ctx, m))
}

// admit adds a server without a vote, whoever asked for it.
func (s *Server) admit(ctx context.Context, m rpc.Join) error {
	if s.cfg.Alone {
		return job.Conflict("join", "found a server that runs alone (axd dev) and takes no others", s.cfg.Name)
	}
	if _, err := s.node.ConfirmLeadership(ctx); err != nil {
		return err
	}
	servers, err := s.node.Servers()
	if err != nil {
		return err
	}
	for _, srv := range servers {
		if srv.Name != m.Name && srv.Address == m.Address {
			return job.Conflict("rpc", "is the address of server "+srv.Name+"; choose another one", m.Address)
		}
	}
	at := slices.IndexFunc(servers, func(srv raftnode.Server) bool { return srv.Name == m.Name })
	if at >= 0 {
		if err := s.provenDead(ctx, servers[at], m.Boot); err != nil {
			return err
		}
		s.log.Warn("a known server came back without its data; adding it anew", "server", m.Name)
		if err := s.node.RemoveServer(ctx, m.Name, false); err != nil {
			return whileOthersAreSilent(err)
		}
	}
	return s.node.AddServer(ctx, raftnode.Server{Name: m.Name, Address: m.Address})
}

// whileOthersAreSilent has a newcomer try again whose earlier self can't be removed yet.
// The leader has just heard from a majority, which would be one without that self too:
// whoever did not answer was silent for a moment.
func whileOthersAreSilent(err error) error {
	if e := job.AsError(err); errors.Is(err, job.ErrConflict) {
		return job.Errorf(job.CodeOverloaded, "the server of this name that was a member "+e.Rule+"; try again")
	}
	return err
}

// provenDead returns nil unless the member of a name still lives: this server
// itself, a process that answers under the name at the member's address, or one
// whose Raft answered a moment ago. Gossip is no proof: a newcomer's word
// replaces the one of whom it names.
func (s *Server) provenDead(ctx context.Context, member raftnode.Server, newcomer string) error {
	alive := job.Conflict("name", "is the name of a server that is alive in this cluster; choose another --name", member.Name)
	if member.Name == s.cfg.Name {
		return alive
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	for _, address := range s.knownAddresses(member) {
		c, err := s.peers.Conn(ctx, address)
		if err != nil {
			continue
		}
		if peer := c.Peer(); peer.Name == member.Name && peer.Boot != newcomer {
			return alive
		}
	}
	return nil
}

// knownAddresses are where a member may be: as configured, and where Raft last
// dialled it with success.
func (s *Server) knownAddresses(member raftnode.Server) []string {
	out := []string{member.Address}
	if last, ok := s.dialled.Load(member.Name); ok && last != member.Address {
		out = append(out, last.(string)) // dialRaft stores strings
	}
	return out
}

// watchCluster records the cluster's id once state has it, and tells gossip.
func (s *Server) watchCluster(ctx context.Context) error {
	tick := time.NewTicker(formInterval)
	defer tick.Stop()
	for {
		if id := s.info().ClusterID; id != "" {
			s.formMu.Lock()
			err := s.dir.setCluster(id)
			s.formMu.Unlock()
			if err != nil {
				return err
			}
			s.setClusterID(id)
			s.gossip.Update(func(m *cluster.Member) { m.ClusterID = id })
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
