package raftnode

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/job"
)

const (
	// caughtUp is how many entries a server may lack and still be given a vote.
	caughtUp = 64
	// stuckAfter times the election time-out is how long a transfer may block
	// writes. Raft gives one up after one; if it hasn't by then, it never will.
	stuckAfter = 5
)

// Servers returns the current configuration, the newest even if it is not
// committed yet, which is the one that counts.
func (n *Node) Servers() ([]Server, error) {
	f := n.raft.GetConfiguration()
	if err := f.Error(); err != nil {
		return nil, err
	}
	var servers []Server
	for _, s := range f.Configuration().Servers {
		servers = append(servers, Server{Name: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	return servers, nil
}

// server finds a member.
func (n *Node) server(name string) (Server, bool) {
	servers, err := n.Servers()
	if err != nil {
		return Server{}, false
	}
	for _, s := range servers {
		if s.Name == name {
			return s, true
		}
	}
	return Server{}, false
}

// AddServer adds a non-voter; a later call for a caught-up one promotes it, or
// tells by a conflict how far it is behind. For a voter it changes the address.
func (n *Node) AddServer(ctx context.Context, s Server) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	have, ok := n.server(s.Name)
	switch {
	case ok && have.Voter && have.Address == s.Address:
		return nil
	case ok && !have.Voter && have.Address == s.Address:
		return n.Promote(ctx, s.Name)
	}
	return n.change(ctx, func(timeout time.Duration) raft.Future {
		return n.raft.AddNonvoter(raft.ServerID(s.Name), raft.ServerAddress(s.Address), 0, timeout)
	})
}

// Promote gives a server its vote. It is a conflict as long as the server lacks
// more than a few entries: with a vote it would at once be needed for a quorum.
func (n *Node) Promote(ctx context.Context, name string) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	s, ok := n.server(name)
	if !ok {
		return job.NotFound("server", name)
	}
	if s.Voter {
		return nil
	}
	p, ok := n.transport.progressOf(raft.ServerID(name), n.raft.CurrentTerm())
	if !ok || time.Since(p.heard) > n.cfg.ElectionTimeout {
		return job.Conflict("server", "has not been heard of lately, so it gets no vote yet", name)
	}
	if last := n.raft.LastIndex(); p.match+caughtUp < last {
		return job.Conflict("server", fmt.Sprintf("lacks %d log entries, so it gets no vote yet", last-p.match), name)
	}
	return n.change(ctx, func(timeout time.Duration) raft.Future {
		return n.raft.AddVoter(raft.ServerID(name), raft.ServerAddress(s.Address), 0, timeout)
	})
}

// RemoveServer removes a server; the last voter can't be.
func (n *Node) RemoveServer(ctx context.Context, name string) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	servers, err := n.Servers()
	if err != nil {
		return err
	}
	voters, found := 0, Server{}
	for _, s := range servers {
		if s.Voter {
			voters++
		}
		if s.Name == name {
			found = s
		}
	}
	switch {
	case found.Name == "":
		return job.NotFound("server", name)
	case found.Voter && voters == 1:
		return job.Conflict("server", "is the last one with a vote and can't be removed", name)
	}
	return n.change(ctx, func(timeout time.Duration) raft.Future {
		return n.raft.RemoveServer(raft.ServerID(name), 0, timeout)
	})
}

// change runs a change of configuration.
func (n *Node) change(ctx context.Context, start func(timeout time.Duration) raft.Future) error {
	if err := n.await(ctx, func() raft.Future { return start(n.cfg.ElectionTimeout) }); err != nil {
		var known *job.Error
		if errors.As(err, &known) {
			return err
		}
		return classify(err)
	}
	return nil
}

// Transfer hands leadership to another caught-up voter, or to the named one. It
// returns once this server no longer leads.
func (n *Node) Transfer(ctx context.Context, to string) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	term := n.raft.CurrentTerm()
	start := n.raft.LeadershipTransfer
	if to != "" {
		s, ok := n.server(to)
		switch {
		case !ok:
			return job.NotFound("server", to)
		case to == n.cfg.Name:
			return job.Conflict("server", "leads already", to)
		case !s.Voter:
			return job.Conflict("server", "has no vote and can't lead", to)
		}
		start = func() raft.Future {
			return n.raft.LeadershipTransferToServer(raft.ServerID(s.Name), raft.ServerAddress(s.Address))
		}
	}
	n.watchTransfer(term)
	err := n.await(ctx, start)
	if err != nil && ctx.Err() == nil {
		return job.Errorf(job.CodeNoLeader, "handing leadership over failed: "+err.Error())
	}
	return err
}

// watchTransfer sees to it that a transfer ends. One that sticks leaves a leader
// that refuses all writes and is never deposed (hashicorp/raft#696).
func (n *Node) watchTransfer(term uint64) {
	if !n.watching.CompareAndSwap(false, true) {
		return // the watcher of the transfer before sees this one too
	}
	n.tasks.Go(func() {
		defer n.watching.Store(false)
		leading := func() bool { return n.raft.State() == raft.Leader && n.raft.CurrentTerm() == term }
		probe := func() error {
			return n.await(n.ctx, func() raft.Future { return n.raft.Barrier(n.cfg.ElectionTimeout) })
		}
		if stuckTransfer(n.ctx, n.cfg.ElectionTimeout, leading, probe) {
			n.fatal(ExitStuck, errors.New("a leadership transfer never ended and blocks every write; restart this server"))
		}
	})
}

// stuckTransfer probes once per election time-out whether writes go through
// again, and reports whether they are still refused when the limit has passed.
func stuckTransfer(ctx context.Context, election time.Duration, leading func() bool, probe func() error) bool {
	tick := time.NewTicker(election)
	defer tick.Stop()
	for refused := 0; refused <= stuckAfter; {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if !leading() {
			return false
		}
		if err := probe(); !errors.Is(err, raft.ErrLeadershipTransferInProgress) {
			return false
		}
		refused++
	}
	return true
}

// HoldVotes keeps this server from becoming leader while on: it asks for no
// votes and refuses to be handed leadership. It still votes for others.
func (n *Node) HoldVotes(on bool) { n.transport.held.Store(on) }
