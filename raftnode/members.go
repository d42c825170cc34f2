package raftnode

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	return serversOf(f.Configuration()), nil
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
// tells by a conflict what it lacks. For a voter it changes the address.
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
	if err := n.CaughtUp(name); err != nil {
		return err
	}
	return n.change(ctx, func(timeout time.Duration) raft.Future {
		return n.raft.AddVoter(raft.ServerID(name), raft.ServerAddress(s.Address), 0, timeout)
	})
}

// CaughtUp returns nil when a server answers this leader and has all but the last
// few entries, or else a conflict that tells what it lacks. What the log no
// longer holds it must have: the state of a restore may be a single entry ahead.
func (n *Node) CaughtUp(name string) error {
	p, ok := n.transport.progressOf(raft.ServerID(name), n.raft.CurrentTerm())
	if !ok || time.Since(p.heard) > n.cfg.ElectionTimeout {
		return job.Conflict("server", "has not been heard of lately", name)
	}
	first, last := n.log.index.bounds()
	if last == 0 { // everything is in the snapshot
		first = n.snaps.latest().Index + 1
	}
	if last = max(last, n.raft.LastIndex()); p.match+caughtUp < last || p.match+1 < first {
		return job.Conflict("server", fmt.Sprintf("lacks %d log entries", last-min(last, p.match)), name)
	}
	return nil
}

// askAlive asks the voters for a sign of life now, and waits an election time-out
// for it.
func (n *Node) askAlive(ctx context.Context, servers []Server) map[string]bool {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ElectionTimeout)
	defer cancel()
	alive := map[string]bool{n.cfg.Name: true}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, s := range servers {
		if !s.Voter || s.Name == n.cfg.Name {
			continue
		}
		asked.Go(func() {
			_, err := n.cfg.Peers.Term(ctx, s.Name, n.address(s.Name, s.Address))
			mu.Lock()
			defer mu.Unlock()
			alive[s.Name] = err == nil
		})
	}
	asked.Wait()
	return alive
}

// RemoveServer removes a server. It is a conflict where too few of the voters
// that are left answer to go on, unless forced; the last voter can't be removed.
func (n *Node) RemoveServer(ctx context.Context, name string, force bool) error {
	if err := n.MayRemove(ctx, name, force); err != nil {
		return err
	}
	return n.change(ctx, func(timeout time.Duration) raft.Future {
		return n.raft.RemoveServer(raft.ServerID(name), 0, timeout)
	})
}

// MayRemove returns why RemoveServer would refuse, nil if it would not.
func (n *Node) MayRemove(ctx context.Context, name string, force bool) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	servers, err := n.Servers()
	if err != nil {
		return err
	}
	at := slices.IndexFunc(servers, func(s Server) bool { return s.Name == name })
	if at < 0 {
		return job.NotFound("server", name)
	}
	if !servers[at].Voter {
		return nil
	}
	return n.checkQuorumWithout(ctx, name, servers, force)
}

func (n *Node) checkQuorumWithout(ctx context.Context, name string, servers []Server, force bool) error {
	alive := n.askAlive(ctx, servers)
	voters, answer := 0, 0
	var silent []string
	for _, s := range servers {
		if !s.Voter || s.Name == name {
			continue
		}
		voters++
		if alive[s.Name] {
			answer++
		} else {
			silent = append(silent, s.Name)
		}
	}
	if voters == 0 {
		return job.Conflict("server", "is the last one with a vote and can't be removed", name)
	}
	if quorum := voters/2 + 1; answer < quorum && !force {
		return job.Conflict("server", fmt.Sprintf("can't be removed: of the %d voting servers that would be left only %d would answer, "+
			"and %d must; start %s or remove it first, or force it", voters, answer, quorum, strings.Join(silent, ", ")), name)
	}
	return nil
}

// demote takes a server's vote, for a time: the server goes on following.
func (n *Node) demote(ctx context.Context, name string) error {
	return n.change(ctx, func(timeout time.Duration) raft.Future {
		return n.raft.DemoteVoter(raft.ServerID(name), 0, timeout)
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

// Transfer hands leadership to the named server or, for an empty name, to the
// one that lacks least. It is a conflict where that one has no vote, doesn't
// answer or lacks entries. It returns once this server no longer leads.
func (n *Node) Transfer(ctx context.Context, to string) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	term := n.raft.CurrentTerm()
	s, err := n.successor(ctx, to)
	if err != nil {
		return err
	}
	n.watchTransfer(term)
	err = n.await(ctx, func() raft.Future {
		return n.raft.LeadershipTransferToServer(raft.ServerID(s.Name), raft.ServerAddress(s.Address))
	})
	if err != nil && ctx.Err() == nil {
		return job.Errorf(job.CodeNoLeader, "handing leadership over failed: "+err.Error())
	}
	return err
}

// successor finds who can take leadership over. A leader that has just been
// elected gives the others a moment to answer.
func (n *Node) successor(ctx context.Context, name string) (Server, error) {
	ctx, cancel := context.WithTimeout(ctx, n.cfg.ElectionTimeout)
	defer cancel()
	tick := time.NewTicker(n.cfg.ElectionTimeout / 50)
	defer tick.Stop()
	for {
		s, err := n.pick(name)
		if err == nil {
			return s, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return s, err
		}
	}
}

func (n *Node) pick(name string) (Server, error) {
	servers, err := n.Servers()
	if err != nil {
		return Server{}, err
	}
	if name != "" {
		at := slices.IndexFunc(servers, func(s Server) bool { return s.Name == name })
		switch {
		case at < 0:
			return Server{}, job.NotFound("server", name)
		case name == n.cfg.Name:
			return Server{}, job.Conflict("server", "leads already", name)
		case !servers[at].Voter:
			return Server{}, job.Conflict("server", "has no vote and can't lead", name)
		}
		return servers[at], n.CaughtUp(name)
	}
	var best Server
	var match uint64
	for _, s := range servers {
		if !s.Voter || s.Name == n.cfg.Name || n.CaughtUp(s.Name) != nil {
			continue
		}
		p, _ := n.transport.progressOf(raft.ServerID(s.Name), n.raft.CurrentTerm())
		if best.Name == "" || p.match > match {
			best, match = s, p.match
		}
	}
	if best.Name == "" {
		return best, job.Conflict("server", "can't be replaced as leader: no other one with a vote answers and has caught up", n.cfg.Name)
	}
	return best, nil
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
