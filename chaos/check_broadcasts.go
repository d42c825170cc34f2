package chaos

import (
	"maps"
	"slices"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// broadcasts: a broadcast never runs itself, its parts run each at its own worker, and
// whose cancel was acknowledged has not failed.
func (c *check) broadcasts() {
	tasks := c.dump().Tasks
	for i := range c.Attempts {
		a := &c.Attempts[i]
		t := tasks[a.Task]
		if t.IsBroadcast() {
			c.broken("broadcast %s: %s ran it itself", a.Task, a)
		}
		if to := t.Bound(); to != "" && to != a.Worker {
			c.broken("part %s for worker %s: %s ran elsewhere", a.Task, to, a)
		}
	}
	asked := map[string]bool{}
	for _, call := range c.Calls {
		if call.Verb != Cancel {
			continue
		}
		asked[call.Task] = true
		if t := tasks[call.Task]; t.IsBroadcast() && call.Code == "" && t.State != job.Cancelled && t.State != job.Success {
			c.broken("broadcast %s is %s although its cancel was acknowledged", call.Task, t.State)
		}
	}
	for id, t := range tasks {
		if t.IsBroadcast() && t.CancelRequested && !asked[id] && t.Schedule == "" {
			c.broken("broadcast %s was cancelled, and nobody has asked for it", id)
		}
	}
}

// whole is the broadcast that a task is a part of, or the task itself.
func (c *check) whole(id string) string {
	t := c.dump().Tasks[id]
	if ref, part := t.Parent(); part {
		return ref.ID.String()
	}
	return id
}

// work is what ran for a task: its own attempts, and those of its parts.
func (c *check) work(id string) []Attempt { return slices.Concat(c.runs[id], c.ofParts[id]) }

// partWatch follows broadcasts, entry by entry: who gets a part, and what their ends
// make of the broadcast's.
type partWatch struct {
	*check
	all map[job.ID]*watchedBroadcast
}

type watchedBroadcast struct {
	parts map[string]job.ID    // by worker
	round map[string]job.State // of those that it went to when it was decided last; 0: it has not ended
	done  map[string]bool      // workers at which it had succeeded before
}

func newPartWatch(c *check) *partWatch {
	return &partWatch{check: c, all: map[job.ID]*watchedBroadcast{}}
}

func (w *partWatch) done(fsm.Reader) {}

func (w *partWatch) see(entry []change) {
	for i := range entry {
		if ch := &entry[i]; ch.is.IsBroadcast() && decides(ch) {
			w.of(ch.is.ID).anew()
		}
	}
	for i := range entry {
		if ref, part := entry[i].is.Parent(); part {
			w.part(w.of(ref.ID), &entry[i])
		}
	}
	for i := range entry {
		if ch := &entry[i]; ch.is.IsBroadcast() {
			w.one(w.of(ch.is.ID), ch)
		}
	}
}

// decides tells whether an entry says which workers a broadcast goes to.
func decides(ch *change) bool { return ch.is.Started != 0 && ch.is.Started != ch.was.Started }

// anew begins a round: what failed before a replay counts only where it runs again.
func (b *watchedBroadcast) anew() {
	for name, s := range b.round {
		if s == job.Success {
			b.done[name] = true
		}
	}
	clear(b.round)
}

func (w *partWatch) of(id job.ID) *watchedBroadcast {
	if w.all[id] == nil {
		w.all[id] = &watchedBroadcast{parts: map[string]job.ID{}, round: map[string]job.State{}, done: map[string]bool{}}
	}
	return w.all[id]
}

func (w *partWatch) part(b *watchedBroadcast, ch *change) {
	id, to := ch.is.ID, ch.is.Bound()
	if is, ok := b.parts[to]; ok && is != id {
		w.broken("entry %d makes part %s for worker %s, whose part is %s", ch.index, id, to, is)
	}
	b.parts[to] = id
	if ch.was.State == job.Success && ch.is.State != job.Success {
		w.broken("entry %d runs part %s for worker %s again, which had succeeded", ch.index, id, to)
	}
	b.round[to] = 0
	if ch.is.State.Terminal() {
		b.round[to] = ch.is.State
	}
}

func (w *partWatch) one(b *watchedBroadcast, ch *change) {
	if decides(ch) {
		for _, name := range w.Plan.workers() {
			w.goesTo(b, ch, name)
		}
	}
	ends := slices.AppendSeq(slices.Repeat([]job.State{job.Success}, len(b.done)), maps.Values(b.round))
	want := endUndecided(&ch.is)
	if ch.was.State == job.Blocked || decides(ch) {
		want = endOf(ends, ch.is.CancelRequested)
	}
	switch {
	case ch.is.State == job.Blocked && want != 0:
		w.broken("entry %d leaves broadcast %s blocked, whose parts are %v", ch.index, ch.is.ID, ends)
	case ch.is.State.Terminal() && ch.is.State != ch.was.State && ch.is.State != want:
		w.broken("entry %d ends broadcast %s as %s, whose parts are %v", ch.index, ch.is.ID, ch.is.State, ends)
	}
}

// goesTo judges whether a worker gets a part: if it fits and is there.
func (w *partWatch) goesTo(b *watchedBroadcast, ch *change, name string) {
	_, gets := b.round[name]
	fits := ch.is.Policy.Route == nil || !slices.Contains(ch.is.Policy.Route.Require, otherThan(name))
	is, known := fsm.GetWorker(ch.view, name)
	away := !known || is.Lost || is.Draining
	switch {
	case gets && !fits:
		w.broken("entry %d gives worker %s a part of broadcast %s, whose route excludes it", ch.index, name, ch.is.ID)
	case gets && away && time.Duration(ch.at-is.Changed)*time.Millisecond > commitTime:
		w.broken("entry %d gives worker %s a part of broadcast %s, and it takes no work since %s", ch.index, name, ch.is.ID, stamp(is.Changed))
	case !gets && !b.done[name] && fits && !away && !ch.wrote.IsZero() && w.calm(ch.wrote, ch.wrote):
		w.broken("entry %d gives worker %s no part of broadcast %s, and nothing was wrong with it", ch.index, name, ch.is.ID)
	}
}

// endUndecided is how a broadcast may end that goes to nobody yet; 0: not at all.
func endUndecided(t *fsm.Task) job.State {
	switch {
	case t.CancelRequested:
		return job.Cancelled
	case t.Job == hastyJob:
		return job.TimedOut
	}
	return 0
}

// endOf is what the ends of its parts make of a broadcast, by the guide; 0: it has not
// ended.
func endOf(parts []job.State, cancelled bool) job.State {
	failed := slices.Contains(parts, job.Failed) || slices.Contains(parts, job.TimedOut)
	switch {
	case len(parts) == 0, slices.Contains(parts, 0):
		return 0
	case !failed && !slices.Contains(parts, job.Cancelled):
		return job.Success
	case failed && !cancelled:
		return job.Failed
	}
	return job.Cancelled
}
