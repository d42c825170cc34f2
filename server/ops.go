package server

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/rpc"
)

const (
	handOver  = 5                      // election time-outs that a new leader has to show itself
	opsPoll   = 20 * time.Millisecond  // between looks for what is waited for
	checkTime = 5 * time.Second        // for all servers to reach the same checksum
	checkPoll = 100 * time.Millisecond // between two rounds of questions
)

// atLeader does something on the leader: here, or by a call of a method.
func (s *Server) atLeader(ctx context.Context, method string, req, reply any, here func() error) error {
	return s.untilLeader(ctx, func() error {
		name, address := s.leader()
		switch name {
		case "":
			return errNoLeader
		case s.cfg.Name:
			return here()
		}
		if err := s.peers.Call(ctx, address, method, req, reply); err != nil {
			return forwardError(err)
		}
		return nil
	})
}

// JoinServer implements api.Backend: it adds a new server that waits at an address.
func (s *Server) JoinServer(ctx context.Context, name, address string) error {
	req := rpc.Join{Name: name, Address: address}
	return s.atLeader(ctx, rpc.MethodAdd, req, nil, func() error { return s.addServer(ctx, name, address) })
}

// addServer adds a server at an operator's wish. Other than one that asks by
// itself it may be out of gossip's reach, so the leader dials it and tells it.
func (s *Server) addServer(ctx context.Context, name, address string) error {
	if err := job.ValidateName("name", name); err != nil {
		return err
	}
	dial, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	c, err := s.peers.Conn(dial, address)
	if err != nil {
		return job.Conflict("rpc_address", "is where the new server must be waiting, started with --join and an empty data "+
			"directory; it can't be reached: "+err.Error(), address)
	}
	peer := c.Peer()
	if peer.Role != string(cluster.RoleServer) || peer.Name != name {
		return job.Conflict("name", "does not answer at "+address+", but "+peer.Role+" "+peer.Name, name)
	}
	servers, err := s.node.Servers()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(servers, func(srv raftnode.Server) bool { return srv.Name == name })
	if at >= 0 && servers[at].Voter && peer.ClusterID == s.clusterID() {
		return job.Conflict("name", "is a member of this cluster already", name)
	}
	belong := rpc.Belong{ClusterID: s.clusterID(), Name: name, Probe: true}
	if err := s.peers.Call(ctx, address, rpc.MethodBelong, belong, nil); err != nil {
		return forwardError(err)
	}
	if at < 0 || servers[at].Voter || servers[at].Address != address {
		if err := s.admit(ctx, rpc.Join{Name: name, Address: address, Boot: peer.Boot}); err != nil {
			return err
		}
	}
	belong.Probe = false
	if err := s.peers.Call(ctx, address, rpc.MethodBelong, belong, nil); err != nil {
		return forwardError(err)
	}
	return nil
}

func (s *Server) onAdd(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Join
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	return rpc.Empty{}, s.notLeading(s.addServer(ctx, m.Name, m.Address))
}

// onBelong makes this new server part of the cluster whose leader adds it.
func (s *Server) onBelong(r *rpc.Request) (any, error) {
	var m rpc.Belong
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	s.formMu.Lock()
	id := s.dir.id
	s.formMu.Unlock()
	switch {
	case m.Name != s.cfg.Name || m.ClusterID == "":
		return nil, job.Invalid("name", "must be this server's, "+s.cfg.Name, m.Name)
	case id.ClusterID == m.ClusterID:
		return rpc.Empty{}, nil
	case id.ClusterID != "" || id.Forming != nil || !s.node.Empty():
		return nil, job.Conflict("data_dir", "of server "+s.cfg.Name+" belongs to another cluster, or to one that is being formed; "+
			"empty it to let the server join", s.cfg.DataDir)
	}
	if m.Probe {
		return rpc.Empty{}, nil
	}
	return rpc.Empty{}, s.belong(m.ClusterID)
}

// RemoveServer implements api.Backend.
func (s *Server) RemoveServer(ctx context.Context, name string, force bool) error {
	req := rpc.Remove{Name: name, Force: force}
	return s.atLeader(ctx, rpc.MethodRemove, req, nil, func() error { return s.removeHere(ctx, name, force) })
}

// removeHere removes a server. A leader that shall go hands leadership over
// first, and its successor removes it.
func (s *Server) removeHere(ctx context.Context, name string, force bool) error {
	if name != s.cfg.Name {
		s.log.Info("removing a server from the cluster", "name", name, "force", force)
		return s.node.RemoveServer(ctx, name, force)
	}
	if err := s.node.MayRemove(ctx, name, force); err != nil {
		return err
	}
	if _, err := s.transferHere(ctx, ""); err != nil {
		return err
	}
	leader, address := s.leader()
	if leader == "" || leader == s.cfg.Name {
		return errNoLeader
	}
	if err := s.peers.Call(ctx, address, rpc.MethodRemove, rpc.Remove{Name: name, Force: force}, nil); err != nil {
		return forwardError(err)
	}
	return nil
}

func (s *Server) onRemove(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Remove
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	return rpc.Empty{}, s.notLeading(s.removeHere(ctx, m.Name, m.Force))
}

// TransferLeadership implements api.Backend.
func (s *Server) TransferLeadership(ctx context.Context, to string) (client.Transfer, error) {
	var reply rpc.TransferReply
	err := s.atLeader(ctx, rpc.MethodTransfer, rpc.Transfer{To: to}, &reply, func() error {
		var err error
		reply, err = s.transferHere(ctx, to)
		return err
	})
	took := time.Duration(reply.TookUS) * time.Microsecond
	return client.Transfer{From: reply.From, Leader: reply.To, Term: reply.Term, Duration: job.Duration(took)}, err
}

// transferHere hands leadership over and waits until the new leader shows itself.
func (s *Server) transferHere(ctx context.Context, to string) (rpc.TransferReply, error) {
	began := time.Now()
	if err := s.node.Transfer(ctx, to); err != nil {
		return rpc.TransferReply{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, handOver*s.cfg.electionTimeout())
	defer cancel()
	for {
		name, _ := s.node.Leader()
		switch {
		case name == "" || name == s.cfg.Name:
		case to != "" && name != to:
			return rpc.TransferReply{}, job.Conflict("to", "was not elected, but "+name+" was; try again", to)
		default:
			s.log.Info("leadership handed over", "to", name)
			return rpc.TransferReply{From: s.cfg.Name, To: name, Term: s.node.Term(), TookUS: time.Since(began).Microseconds()}, nil
		}
		select {
		case <-time.After(opsPoll):
		case <-ctx.Done():
			return rpc.TransferReply{}, job.Errorf(job.CodeUnknownOutcome, "leadership was given up, but no new leader has shown itself")
		}
	}
}

func (s *Server) onTransfer(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Transfer
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	reply, err := s.transferHere(ctx, m.To)
	return reply, s.notLeading(err)
}

// CheckCluster implements api.Backend: it has a new checksum made and asks all
// servers what they found at it.
func (s *Server) CheckCluster(ctx context.Context) (client.ClusterCheck, error) {
	if _, err := s.Propose(ctx, fsm.Checksum{}); err != nil {
		return client.ClusterCheck{}, err
	}
	deadline := time.Now().Add(checkTime)
	for {
		sums, err := s.sumsOfAll(ctx)
		if err != nil {
			return client.ClusterCheck{}, err
		}
		if atOneIndex(sums) || time.Now().After(deadline) {
			return compareChecks(sums), nil
		}
		select {
		case <-time.After(checkPoll):
		case <-ctx.Done():
			return client.ClusterCheck{}, ctx.Err()
		}
	}
}

func (s *Server) sumsOfAll(ctx context.Context) ([]client.ServerCheck, error) {
	servers, err := s.node.Servers()
	if err != nil {
		return nil, err
	}
	var out []client.ServerCheck
	for _, srv := range servers {
		c := client.ServerCheck{Name: srv.Name}
		var is rpc.StatusReply
		if srv.Name == s.cfg.Name {
			is = s.status()
		} else {
			ask, cancel := context.WithTimeout(ctx, askTimeout)
			err = s.peers.Call(ask, s.address(srv.Name, srv.Address), rpc.MethodStatus, rpc.Empty{}, &is)
			cancel()
			if err != nil {
				c.Error = err.Error()
			}
		}
		c.Applied, c.ChecksumIndex = is.Applied, is.SumIndex
		if is.SumIndex > 0 {
			c.Checksum = fmt.Sprintf("%016x", is.Chain)
		}
		out = append(out, c)
	}
	return out, nil
}

func (s *Server) status() rpc.StatusReply {
	info := s.info()
	return rpc.StatusReply{Applied: info.Applied, SumIndex: info.SumIndex, Chain: info.SumChain}
}

// atOneIndex reports whether all that answer compare the same moment.
func atOneIndex(sums []client.ServerCheck) bool {
	var index uint64
	for _, c := range sums {
		if c.Error != "" {
			continue
		}
		if c.ChecksumIndex == 0 || index != 0 && c.ChecksumIndex != index {
			return false
		}
		index = c.ChecksumIndex
	}
	return index != 0
}

// compareChecks judges: most servers at the newest index are right, and whoever is
// behind or differs does not agree.
func compareChecks(sums []client.ServerCheck) client.ClusterCheck {
	votes := map[string]int{}
	var newest uint64
	for _, c := range sums {
		newest = max(newest, c.ChecksumIndex)
	}
	best := ""
	for _, c := range sums {
		if c.Error != "" || c.ChecksumIndex != newest {
			continue
		}
		votes[c.Checksum]++
		if n := votes[c.Checksum]; best == "" || n > votes[best] {
			best = c.Checksum
		}
	}
	out := client.ClusterCheck{OK: true, Servers: sums}
	for i := range sums {
		c := &sums[i]
		c.Agrees = c.Error == "" && c.ChecksumIndex == newest && c.Checksum == best
		if c.Error == "" && c.ChecksumIndex != newest {
			c.Error = fmt.Sprintf("is behind: its newest checksum is of entry %d, not %d", c.ChecksumIndex, newest)
		}
		out.OK = out.OK && c.Agrees
	}
	return out
}

// errRemoved is why a server ends that the cluster goes on without.
func (s *Server) errRemoved() error {
	return &exitError{raftnode.ExitRemoved, job.Errorf(job.CodeConflict, "this server was removed from the cluster; to use it again, "+
		"empty its data directory "+s.cfg.DataDir+" and start it, and it joins anew")}
}
