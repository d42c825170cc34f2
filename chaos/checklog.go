package chaos

import (
	"bytes"
	"slices"
	"time"

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

const (
	replayCheck = 500        // entries between two looks at all invariants at the least
	replayLooks = 8          // at them, about
	tasksTable  = byte(0x04) // of the state's tables that of the tasks; its keys are namespace, 0, id
	idBytes     = 16
)

// tap notes which tasks a transaction writes.
type tap struct {
	store.Batch
	tasks []fsm.TaskRef
}

// Set implements fsm.Tx.
func (t *tap) Set(k, v []byte) {
	t.Batch.Set(k, v)
	if len(k) < idBytes+2 || k[0] != tasksTable {
		return
	}
	ref := fsm.TaskRef{Namespace: string(k[1 : len(k)-idBytes-1]), ID: job.ID(k[len(k)-idBytes:])}
	if !slices.Contains(t.tasks, ref) {
		t.tasks = append(t.tasks, ref)
	}
}

// change is what an entry has made of a task.
type change struct {
	index uint64
	at    int64     // by the cluster's clock, Unix ms
	wrote time.Time // when the leader wrote the entry, by true time; zero: unknown
	codes []fsm.Code
	was   fsm.Task // zero: there was none
	is    fsm.Task
	view  fsm.Reader // the state after the entry
}

// watcher judges changes in the order of the log.
type watcher interface {
	see(entry []change)
	done(v fsm.Reader)
}

// replay applies the log to an empty state and follows every task through it.
func (c *check) replay(log []*raft.Log) {
	m, state := fsm.NewMachine(), store.NewMemory()
	tasks, told := map[fsm.TaskRef]fsm.Task{}, map[fsm.TaskRef]*fsm.Task{}
	watchers := c.watchers()
	for i, e := range log {
		if e.Type != raft.LogCommand {
			continue
		}
		b := &tap{Batch: state.Batch()}
		_, events, err := m.Apply(b, fsm.Meta{Index: e.Index, Term: e.Term}, e.Data)
		b.Commit()
		if err != nil {
			c.broken("replaying the log: %v", err)
			return
		}
		codes, wrote := codesOf(e.Data), c.wrote(e.Index)
		for _, ev := range events { // an entry may change a task more than once
			if ev.Task != nil {
				c.step(e.Index, codes, told[ev.Task.Ref()], ev.Task, wrote)
				told[ev.Task.Ref()] = ev.Task
			}
		}
		v := state.View()
		ch := change{index: e.Index, at: fsm.ReadInfo(v).Clock, wrote: wrote, codes: codes, view: v}
		changes := make([]change, 0, len(b.tasks))
		for _, ref := range b.tasks {
			var there bool
			if ch.is, there = fsm.GetTask(v, ref); there {
				ch.was, tasks[ref] = tasks[ref], ch.is
				if t := told[ref]; t != nil {
					c.replayed(codes, t, &ch.is) // a step that waits for its verdict again is not told of
				}
				changes = append(changes, ch)
			}
		}
		for _, w := range watchers {
			w.see(changes)
		}
		if i%max(replayCheck, len(log)/replayLooks) == 0 || i == len(log)-1 {
			for _, what := range fsm.Check(v, maxBroken) {
				c.broken("replaying the log to entry %d: %s", e.Index, what)
			}
		}
		v.Close()
	}
	v := state.View()
	defer v.Close()
	for _, w := range watchers {
		w.done(v)
	}
	replayed, applied := fsm.StateHash(v), fsm.ReadInfo(v).Applied
	for _, d := range c.Dumps {
		if d.Applied == applied && d.Hash != replayed {
			c.broken("server %s does not hold what follows from its log up to entry %d", d.Server, applied)
		}
		for id := range d.Tasks {
			if parsed, err := job.ParseID(id); err == nil && d.Applied == applied && tasks[fsm.TaskRef{Namespace: job.DefaultNamespace, ID: parsed}].Version == 0 {
				c.broken("server %s holds task %s, which no entry made", d.Server, id)
			}
		}
	}
	c.conserved(applied, tasks)
}

func (c *check) watchers() []watcher {
	all := []watcher{&stepWatch{c}}
	if c.Plan.Length > 0 {
		all = append(all, newLimitWatch(c), newGraphWatch(c), newBreakerWatch(c), newFireWatch(c), newPartWatch(c))
	}
	return all
}

// conserved: in each namespace there are as many tasks as were made.
func (c *check) conserved(applied uint64, made map[fsm.TaskRef]fsm.Task) {
	counted := map[string]int64{}
	for ref := range made {
		counted[ref.Namespace]++
	}
	for _, d := range c.Dumps {
		for namespace, n := range counted {
			if held := d.Held[namespace]; held != n && d.Applied == applied {
				c.broken("server %s holds %d tasks of namespace %s, of which %d were made", d.Server, held, namespace, n)
			}
		}
	}
}

// wrote is when a leader wrote an entry.
func (c *check) wrote(index uint64) (first time.Time) {
	for _, log := range c.Logs {
		if e := log[index]; e != nil && !e.AppendedAt.IsZero() && (first.IsZero() || e.AppendedAt.Before(first)) {
			first = e.AppendedAt
		}
	}
	return first
}

func codesOf(data []byte) (codes []fsm.Code) {
	e, err := fsm.DecodeEntry(data)
	if err != nil {
		return nil // replay tells
	}
	for _, command := range e.Commands {
		codes = append(codes, fsm.CodeOf(command))
	}
	return codes
}

// stepWatch judges each change of a task by itself.
type stepWatch struct{ *check }

func (w *stepWatch) done(fsm.Reader) {}

func (w *stepWatch) see(entry []change) {
	for i := range entry { // first what was replayed, which moves others of its run
		ch := &entry[i]
		w.replayed(ch.codes, &ch.was, &ch.is)
	}
	for i := range entry {
		w.one(&entry[i])
	}
}

func (w *stepWatch) one(ch *change) {
	c, was, is := w.check, &ch.was, &ch.is
	id, run := is.ID.String(), is.Run.String()
	if was.State.Terminal() && was.State != is.State {
		switch {
		case c.revived[id] && !is.State.Terminal():
		case !is.Run.IsZero() && c.touched[run]:
			c.revived[id] = true
		default:
			c.broken("entry %d makes task %s %s, which had ended as %s", ch.index, id, is.State, was.State)
		}
	}
	c.ended(was, is, ch.wrote)
}

// ended notes an end of a task, once, by whichever of the two looks at an entry sees it.
func (c *check) ended(was, is *fsm.Task, wrote time.Time) {
	if !is.State.Terminal() || was.State == is.State {
		return
	}
	id := is.ID.String()
	if list := c.ends[id]; len(list) > 0 && list[len(list)-1].version == is.Version {
		return
	}
	c.ends[id] = append(c.ends[id], end{is.State, is.Version, wrote})
}

// replayed notes that what had ended runs again, whoever sees it first: from one
// command to the next of an entry, or from one entry to the next.
func (c *check) replayed(codes []fsm.Code, was, is *fsm.Task) {
	if !was.Dead && !was.State.Terminal() || is.Dead || is.State.Terminal() {
		return
	}
	run := ""
	if !is.Run.IsZero() {
		run = is.Run.String()
	}
	whole, part := is.Parent()
	switch {
	case part && c.revived[whole.ID.String()]:
	case slices.Contains(codes, fsm.CodeDeadLetters), slices.Contains(codes, fsm.CodeContinueDead):
		if len(c.Dumps) > 0 {
			c.touch(run)
		}
	case run == "" || !c.touched[run]:
		return
	}
	c.revived[is.ID.String()] = true
}

// step judges one change of a task that apply tells of.
func (c *check) step(index uint64, codes []fsm.Code, was, is *fsm.Task, wrote time.Time) {
	if was == nil {
		was = &fsm.Task{}
	}
	c.replayed(codes, was, is)
	switch {
	case is.LastToken.Compare(was.LastToken) < 0:
		c.broken("entry %d lowers the token of task %s from %s to %s", index, is.ID, was.LastToken, is.LastToken)
	case !was.Token.IsZero() && !is.Token.IsZero() && was.Token != is.Token:
		c.broken("entry %d gives task %s token %s while %s is valid", index, is.ID, is.Token, was.Token)
	case is.State == job.Success && was.State != job.Success && was.Token.IsZero() && !standsIn(is) && !c.forced[is.ID.String()]:
		c.broken("entry %d makes task %s a success without a valid attempt", index, is.ID)
	}
	c.ended(was, is, wrote)
}

// standsIn tells whether others ran for a task: the items of a step or its run, or the
// parts of a broadcast.
func standsIn(t *fsm.Task) bool { return !t.Run.IsZero() && t.Attempt == 0 || t.IsBroadcast() }
