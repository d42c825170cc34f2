package server

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/raftnode"
	"github.com/axd-project/axd/rpc"
)

const (
	leaderWait  = 3 * time.Second // a request waits this long for a leader to be elected
	leaderRetry = 50 * time.Millisecond
)

var errNoQuorum = job.Errorf(job.CodeNoLeader, "fewer than a quorum of servers answer; "+
	"start the missing servers or check the network between them")

var errNoLeader = job.Errorf(job.CodeNoLeader, "there is no leader at the moment; try again")

// proposeHere commits a command on this server, which must lead.
func (s *Server) proposeHere(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	b, err := fsm.EncodeCommand(c)
	if err != nil {
		return fsm.Result{}, err
	}
	return s.node.Propose(ctx, b)
}

// proposeAsync is proposeHere without waiting.
func (s *Server) proposeAsync(c fsm.Command, done func(fsm.Result, error)) {
	s.encoded(c, done, s.node.ProposeAsync)
}

// proposePatiently is proposeAsync for what nobody waits for.
func (s *Server) proposePatiently(c fsm.Command, done func(fsm.Result, error)) {
	s.encoded(c, done, s.node.ProposePatiently)
}

func (s *Server) encoded(c fsm.Command, done func(fsm.Result, error), propose func([]byte, func(fsm.Result, error))) {
	b, err := fsm.EncodeCommand(c)
	if err != nil {
		done(fsm.Result{}, err)
		return
	}
	propose(b, done)
}

// Propose commits a command wherever the leader is. What was certainly not
// committed is tried again while there is no leader, for leaderWait at most.
func (s *Server) Propose(ctx context.Context, c fsm.Command) (fsm.Result, error) {
	b, err := fsm.EncodeCommand(c)
	if err != nil {
		return fsm.Result{}, err
	}
	if err := s.checkDisk(grows(b)); err != nil {
		return fsm.Result{}, err
	}
	now := wantedNow(c, s.clock.Now())
	var res fsm.Result
	err = s.untilLeader(ctx, func() error {
		var err error
		res, err = s.proposeOnce(ctx, b, now)
		return err
	})
	return res, err
}

// grows tells which commands make the state larger at a user's wish.
func grows(command []byte) bool {
	switch fsm.CodeOf(command) {
	case fsm.CodeSubmit, fsm.CodePutJob, fsm.CodePutSchedule, fsm.CodeSendEvent, fsm.CodePutBackfill:
		return true
	}
	return false
}

// untilLeader repeats do while it fails with no_leader.
func (s *Server) untilLeader(ctx context.Context, do func() error) error {
	deadline := time.NewTimer(leaderWait)
	defer deadline.Stop()
	for {
		err := do()
		if !errors.Is(err, job.ErrNoLeader) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-deadline.C:
			return err
		case <-time.After(leaderRetry):
		}
	}
}

func (s *Server) proposeOnce(ctx context.Context, command []byte, now []rpc.Wanted) (fsm.Result, error) {
	name, address := s.leader()
	switch name {
	case "":
		return fsm.Result{}, errNoLeader
	case s.cfg.Name:
		return s.proposePlaced(ctx, command, now)
	}
	var reply rpc.ProposeReply
	err := s.peers.Call(ctx, address, rpc.MethodPropose, rpc.Propose{Command: command, Now: now}, &reply)
	if err != nil {
		return fsm.Result{}, forwardError(err)
	}
	return fsm.DecodeResult(reply.Result)
}

// forwardError classifies a failed call to the leader: what the leader answered
// keeps its code, a connection that could not be opened means not committed,
// and one that broke in between means unknown.
func forwardError(err error) error {
	var answered *rpc.Error
	switch {
	case errors.As(err, &answered):
		return &job.Error{
			Code: job.Code(answered.Code), Field: answered.Field, Rule: answered.Text, Value: answered.Value,
		}
	case errors.Is(err, rpc.ErrNotSent):
		return job.Errorf(job.CodeNoLeader, "the leader can't be reached: "+err.Error())
	default:
		return job.Errorf(job.CodeUnknownOutcome, "the connection to the leader broke before it answered: the request "+
			"may have been carried out; repeat it with the same idempotency key")
	}
}

// Read calls fn with a view of the state, linearizable unless stale.
func (s *Server) Read(ctx context.Context, stale bool, fn func(fsm.Reader) error) error {
	if !stale {
		if err := s.untilLeader(ctx, func() error { return s.node.ReadBarrier(ctx) }); err != nil {
			return err
		}
	}
	v := s.node.View()
	defer v.Close()
	return fn(v)
}

// leader returns the leader's name and the address to dial it at: gossip knows
// the present one, Raft's configuration the one it was added with.
func (s *Server) leader() (name, address string) { return s.node.Leader() }

// onPropose commits a command for another server.
func (s *Server) onPropose(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Propose
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	if err := s.checkDisk(grows(m.Command)); err != nil {
		return nil, err
	}
	res, err := s.proposePlaced(ctx, m.Command, m.Now)
	if err != nil {
		return nil, s.notLeading(err)
	}
	return rpc.ProposeReply{Result: fsm.EncodeResult(res)}, nil
}

func (s *Server) onReadIndex(ctx context.Context, _ *rpc.Request) (any, error) {
	index, err := s.node.ReadIndex(ctx)
	if err != nil {
		return nil, s.notLeading(err)
	}
	return rpc.IndexReply{Index: index}, nil
}

// peerCalls implements raftnode.Peers over rpc.
type peerCalls struct{ s *Server }

var _ raftnode.Peers = peerCalls{}

// Term implements raftnode.Peers.
func (p peerCalls) Term(ctx context.Context, name, address string) (uint64, error) {
	c, err := p.s.peers.Conn(ctx, p.s.address(name, address))
	if err != nil {
		return 0, err
	}
	if answers := c.Peer().Name; answers != name { // it would be counted twice
		return 0, fmt.Errorf("server %s was asked for its term, but %s answers", name, answers)
	}
	var reply rpc.TermReply
	err = c.Call(ctx, rpc.MethodTerm, rpc.Empty{}, &reply)
	return reply.Term, err
}

// ReadIndex implements raftnode.Peers.
func (p peerCalls) ReadIndex(ctx context.Context, name, address string) (uint64, error) {
	var reply rpc.IndexReply
	err := p.s.peers.Call(ctx, p.s.address(name, address), rpc.MethodReadIndex, rpc.Empty{}, &reply)
	if err != nil {
		return 0, forwardError(err)
	}
	return reply.Index, nil
}
