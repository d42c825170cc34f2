package chaos

import (
	"bytes"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// logs: all servers have the same entries, and what follows from them is what
// the servers hold, step by step within the promises.
func (c *check) logs() {
	if len(c.Dumps) == 0 {
		return
	}
	end := c.Dumps[0].Applied
	for _, d := range c.Dumps {
		end = min(end, d.Applied)
	}
	if end == 0 {
		return
	}
	whole := make([]*raft.Log, 0, end)
	for i := uint64(1); i <= end; i++ {
		entry := c.entry(i)
		if entry == nil {
			c.broken("no server has kept log entry %d", i)
			return
		}
		whole = append(whole, entry)
	}
	c.barriers(whole)
	c.replay(whole)
}

// barriers: what a leader's loop decides comes after the barrier of its term, so
// that it was decided from a state that holds all of the terms before.
func (c *check) barriers(log []*raft.Log) {
	begun := map[uint64]bool{} // by term
	for _, e := range log {
		switch {
		case e.Type == raft.LogBarrier:
			begun[e.Term] = true
		case e.Type == raft.LogCommand && !begun[e.Term]:
			if what := decided(e.Data); what != "" {
				c.broken("entry %d is %s that the leader of term %d decided before its barrier", e.Index, what, e.Term)
				begun[e.Term] = true // once is enough
			}
		}
	}
}

// decided names a command of an entry that only a leader's loop proposes, empty if
// it holds none.
func decided(data []byte) string {
	e, err := fsm.DecodeEntry(data)
	if err != nil {
		return "" // replay tells
	}
	for _, command := range e.Commands {
		if len(command) == 0 {
			continue
		}
		switch fsm.Code(command[0]) {
		case fsm.CodeAssign, fsm.CodeSubmitNow:
			return "an assign"
		case fsm.CodeLoseAttempts:
			return "a loss"
		case fsm.CodeRegisterWorker, fsm.CodeWorkerState:
			return "a word on a worker"
		case fsm.CodeExpire:
			return "an expiry"
		}
	}
	return ""
}

// entry returns the entry at an index, which must be the same wherever it is.
func (c *check) entry(index uint64) *raft.Log {
	var first *raft.Log
	var of string
	for _, d := range c.Dumps {
		e := c.Logs[d.Server][index]
		switch {
		case e == nil:
		case first == nil:
			first, of = e, d.Server
		case e.Term != first.Term || e.Type != first.Type || !bytes.Equal(e.Data, first.Data):
			c.broken("servers %s and %s hold different log entries at %d (of terms %d and %d)", of, d.Server, index, first.Term, e.Term)
		}
	}
	return first
}

const replayCheck = 500 // entries between two looks at all invariants

// replay applies the log to an empty state and follows every task through it.
func (c *check) replay(log []*raft.Log) {
	m, state := fsm.NewMachine(), store.NewMemory()
	tasks := map[fsm.TaskRef]fsm.Task{}
	for i, e := range log {
		if e.Type != raft.LogCommand {
			continue
		}
		b := state.Batch()
		_, events, err := m.Apply(b, fsm.Meta{Index: e.Index, Term: e.Term}, e.Data)
		b.Commit()
		if err != nil {
			c.broken("replaying the log: %v", err)
			return
		}
		for _, ev := range events {
			if ev.Task != nil {
				c.step(e.Index, tasks[ev.Task.Ref()], *ev.Task)
				tasks[ev.Task.Ref()] = *ev.Task
			}
		}
		if i%replayCheck == 0 || i == len(log)-1 {
			v := state.View()
			for _, what := range fsm.Check(v, maxBroken) {
				c.broken("replaying the log to entry %d: %s", e.Index, what)
			}
			v.Close()
		}
	}
	v := state.View()
	defer v.Close()
	replayed, applied := fsm.StateHash(v), fsm.ReadInfo(v).Applied
	for _, d := range c.Dumps {
		if d.Applied == applied && d.Hash != replayed {
			c.broken("server %s does not hold what follows from its log up to entry %d", d.Server, applied)
		}
	}
}

// step judges one change of a task.
func (c *check) step(index uint64, was, is fsm.Task) {
	switch {
	case was.State.Terminal() && was.State != is.State:
		c.broken("entry %d makes task %s %s, which had ended as %s", index, is.ID, is.State, was.State)
	case is.LastToken.Compare(was.LastToken) < 0:
		c.broken("entry %d lowers the token of task %s from %s to %s", index, is.ID, was.LastToken, is.LastToken)
	case !was.Token.IsZero() && !is.Token.IsZero() && was.Token != is.Token:
		c.broken("entry %d gives task %s token %s while %s is valid", index, is.ID, is.Token, was.Token)
	case is.State == job.Success && was.State != job.Success && was.Token.IsZero() && !standsIn(&is):
		c.broken("entry %d makes task %s a success without a valid attempt", index, is.ID)
	}
}
