package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// confirmer asks a quorum of voters for their term. Raft's VerifyLeader is no
// proof: it counts answers to requests sent before the call, and non-voters'.
// One round serves all who were waiting when it began; who comes later waits
// for the next one.
type confirmer struct {
	ask func() round // blocks for one round

	mu      sync.Mutex
	next    *confirmation // not yet begun
	running bool
	rounds  sync.WaitGroup
}

// confirmation is a round that callers wait for.
type confirmation struct {
	done chan struct{}
	round
}

// round is what one round of questions found.
type round struct {
	term  uint64
	index uint64 // the last committed entry that reaches the state
	begun bool   // an entry of this term is committed, so index is complete
	err   error
}

// confirm waits for a round that begins after the call.
func (c *confirmer) confirm(ctx context.Context) (round, error) {
	w := c.join()
	select {
	case <-w.done:
		return w.round, w.err
	case <-ctx.Done():
		return round{}, deadline(ctx)
	}
}

func (c *confirmer) join() *confirmation {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = &confirmation{done: make(chan struct{})}
	}
	w := c.next
	if !c.running {
		c.running = true
		c.rounds.Go(c.run)
	}
	return w
}

// run does rounds while somebody waits.
func (c *confirmer) run() {
	for {
		c.mu.Lock()
		w := c.next
		c.next = nil
		c.running = w != nil
		c.mu.Unlock()
		if w == nil {
			return
		}
		w.round = c.ask()
		close(w.done)
	}
}

// confirmRound asks the voters, after reading the index: what was committed and
// acknowledged before the round began lies at or below it.
func (n *Node) confirmRound() round {
	r := round{term: n.raft.CurrentTerm()}
	if n.raft.State() != raft.Leader {
		return round{err: errNotLeading}
	}
	commit := n.raft.CommitIndex()
	startTerm, start := n.log.index.leaderStart()
	r.begun = startTerm == r.term && commit >= start
	r.index = n.stateIndex(commit)

	ctx, cancel := context.WithTimeout(n.ctx, n.cfg.ElectionTimeout)
	defer cancel()
	if mutant.UnaskedLeader {
		return r
	}
	if err := n.askVoters(ctx, r.term); err != nil {
		return round{err: err}
	}
	if n.raft.State() != raft.Leader || n.raft.CurrentTerm() != r.term {
		return round{err: errNotLeading}
	}
	return r
}

// askVoters returns nil once a quorum of voters, this server included, is in no
// newer term. Who is in an older one has not voted for a successor either.
func (n *Node) askVoters(ctx context.Context, term uint64) error {
	servers, err := n.Servers()
	if err != nil {
		return err
	}
	type answer struct {
		term uint64
		err  error
	}
	answers := make(chan answer, len(servers))
	voters, agree, asked := 0, 0, 0
	for _, s := range servers {
		if !s.Voter {
			continue
		}
		voters++
		if s.Name == n.cfg.Name {
			agree++
			continue
		}
		asked++
		n.asks.Go(func() {
			t, err := n.cfg.Peers.Term(ctx, s.Name, n.address(s.Name, s.Address))
			answers <- answer{t, err}
		})
	}
	quorum := voters/2 + 1
	for ; agree < quorum && asked > 0; asked-- {
		select {
		case a := <-answers:
			if a.err == nil && a.term > term {
				return errNotLeading
			}
			if a.err == nil {
				agree++
			}
		case <-ctx.Done():
			asked = 1
		}
	}
	if agree < quorum {
		return job.Errorf(job.CodeNoLeader, fmt.Sprintf("only %d of %d voting servers confirm this leader", agree, voters))
	}
	return nil
}

// stateIndex returns the last entry at or below index that reaches the state.
// No-ops, barriers and configurations don't, so waiting for them would never
// end. Below a snapshot, the snapshot tells.
func (n *Node) stateIndex(index uint64) uint64 {
	snap := n.snaps.latest()
	if i := n.log.index.command(index, snap.Index); i > snap.Index {
		return i
	}
	return snap.Applied
}

// ConfirmLeadership returns the current term once a quorum of voters, asked
// after the call, still has it. One confirmation serves all that wait.
func (n *Node) ConfirmLeadership(ctx context.Context) (term uint64, err error) {
	if n.raft.State() != raft.Leader {
		return 0, errNotLeading
	}
	r, err := n.confirmer.confirm(ctx)
	return r.term, err
}

// ReadIndex is ConfirmLeadership plus the index of the last entry it covers:
// once that is applied, a read sees everything that was acknowledged before the
// call. A new leader commits an entry of its own first, because only then does
// it know what its predecessors committed.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) {
	if n.raft.State() != raft.Leader {
		return 0, errNotLeading
	}
	r, err := n.confirmer.confirm(ctx)
	if err != nil {
		return 0, err
	}
	if r.begun {
		return r.index, nil
	}
	if err := n.Barrier(ctx); err != nil {
		return 0, err
	}
	if r, err = n.confirmer.confirm(ctx); err != nil {
		return 0, err
	}
	if !r.begun {
		return 0, errNotLeading // the term changed meanwhile
	}
	return r.index, nil
}

// ReadBarrier returns once a local read is linearizable: on the leader by
// ReadIndex, elsewhere by asking the leader, then by waiting for apply. Its
// errors are no_leader and timeout.
func (n *Node) ReadBarrier(ctx context.Context) error {
	if mutant.StaleRead {
		return nil
	}
	index, err := n.readIndexAnywhere(ctx)
	if err != nil {
		return err
	}
	if err := n.applier.applied.wait(ctx, index); err != nil {
		return deadline(ctx)
	}
	return nil
}

func (n *Node) readIndexAnywhere(ctx context.Context) (uint64, error) {
	if n.raft.State() == raft.Leader {
		return n.ReadIndex(ctx)
	}
	name, address := n.Leader()
	if name == "" || name == n.cfg.Name {
		return 0, job.Errorf(job.CodeNoLeader, "no leader is known")
	}
	index, err := n.cfg.Peers.ReadIndex(ctx, name, address)
	if err == nil {
		return index, nil
	}
	if ctx.Err() != nil {
		return 0, deadline(ctx)
	}
	return 0, job.Errorf(job.CodeNoLeader, fmt.Sprintf("asking leader %s: %v", name, err))
}

// deadline is the error for a caller whose context ended.
func deadline(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return job.Errorf(job.CodeTimeout, "the request was cancelled")
	}
	return job.Errorf(job.CodeTimeout, "the request's deadline passed")
}
