package scheduler

import (
	"container/heap"
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Who goes first: a task that waits rises one priority per ageStep, and goes by
// its due time among those of its new one. So nothing starves, and a share of the
// slots stays with high-priority work whatever has risen.
const (
	ageStep   = 60_000 // ms of waiting that raise a task by one priority
	busyShare = 90     // percent of slots: more than that taken is busy
	busyAfter = 10_000 // ms that the cluster must be busy before low is suspended
)

// level is the priority that a task has risen to.
func level(p job.Priority, due, now int64) job.Priority {
	steps := max(now-due, 0) / ageStep
	return job.Priority(max(int64(p)-steps, int64(job.High))) //nolint:gosec // between High and p
}

// prioritySet holds priorities as bits; none means all.
type prioritySet uint8

func setOf(priorities []job.Priority) (s prioritySet) {
	for _, p := range priorities {
		s |= 1 << p
	}
	return s
}

func (s prioritySet) onlyHigh() bool { return s == 1<<job.High }

func (s prioritySet) has(p job.Priority) bool { return s == 0 || s&(1<<p) != 0 }

// urgency orders queues by what their first task has risen to, then by whose turn it
// is, then by how long it has been due.
type urgency struct {
	queues []*queue
	levels []job.Priority
	isFair bool
	turns  []turn // where it is fair
}

// byUrgency returns the queues of those priorities that may be handed out.
func (q *readyQueues) byUrgency(now int64, suspended bool) *urgency {
	u := &urgency{}
	for _, p := range job.Priorities {
		if suspended && p == job.Low {
			continue
		}
		for _, c := range q.byPriority[p] {
			u.queues = append(u.queues, c)
			u.levels = append(u.levels, level(p, c.items[0].due, now))
		}
	}
	u.fair()
	heap.Init(u)
	return u
}

// fix moves the first queue to where it belongs.
func (u *urgency) fix() { heap.Fix(u, 0) }

func (u *urgency) Len() int { return len(u.queues) }

// Less implements heap.Interface.
func (u *urgency) Less(i, j int) bool {
	if u.levels[i] != u.levels[j] {
		return u.levels[i] < u.levels[j]
	}
	if u.isFair && u.turns[i] != u.turns[j] {
		return u.turns[i].before(u.turns[j])
	}
	return u.queues[i].items[0].key().Compare(u.queues[j].items[0].key()) < 0
}

// Swap implements heap.Interface.
func (u *urgency) Swap(i, j int) {
	u.queues[i], u.queues[j] = u.queues[j], u.queues[i]
	u.levels[i], u.levels[j] = u.levels[j], u.levels[i]
	if u.isFair {
		u.turns[i], u.turns[j] = u.turns[j], u.turns[i]
	}
}

// Push implements heap.Interface; queues are only ever removed.
func (u *urgency) Push(any) { panic("scheduler: urgency does not grow") }

// Pop implements heap.Interface.
func (u *urgency) Pop() any {
	last := len(u.queues) - 1
	q := u.queues[last]
	u.queues, u.levels = u.queues[:last], u.levels[:last]
	if u.isFair {
		u.turns = u.turns[:last]
	}
	return q
}

// next moves the first queue to where its new first task belongs; done: no more
// of it can be handed out in this turn.
func (u *urgency) next(now int64, done bool) {
	q := u.queues[0]
	if done || q.Len() == 0 {
		heap.Pop(u)
		return
	}
	if u.isFair {
		u.turns[0] = q.turn()
	} else {
		u.levels[0] = level(q.priority, q.items[0].due, now)
	}
	u.fix()
}

// enter takes an attempt up in place of one that state has gone on from.
func (w *workerState) enter(a *active) {
	if old := w.active[a.ref.Ref]; old != nil && old != a {
		w.drop(old) // else it would come to hold a slot when it is due
	}
	w.active[a.ref.Ref] = a
	w.count(a, true)
}

// count keeps the number of slots that attempts of less than high priority hold.
func (w *workerState) count(a *active, holds bool) {
	lesser := holds && !a.armed && a.priority != job.High
	if lesser == a.lesser {
		return
	}
	a.lesser = lesser
	if lesser {
		w.lesser++
	} else {
		w.lesser--
	}
}

// reserved is how many of a number of slots are kept for high priority.
func (l *loop) reserved(slots int) int { return slots * l.settings.HighSlotsOrDefault() / 100 }

// lesserRoom is how many more slots may go to attempts of less than high priority.
func (l *loop) lesserRoom() int {
	slots, held := 0, 0
	for _, w := range l.workers {
		if w.present() {
			slots += w.slots
			held += w.lesser + w.promisedLesser
		}
	}
	return slots - l.reserved(slots) - held
}

// watchBusy notes since when more than busyShare of the slots are taken, and
// suspends low priority where the cluster is to. Free slots that only high priority
// may take don't count: else the cluster would never be busy with other work.
func (l *loop) watchBusy(now int64) {
	slots, free := 0, 0
	for _, w := range l.workers {
		if w.present() && !w.priorities.onlyHigh() {
			slots += w.slots
			free += min(max(w.unused(), 0), w.slots)
		}
	}
	kept := max(free-max(l.lesserRoom(), 0), 0)
	slots, free = slots-kept, free-kept
	if taken := slots - free; taken*100 <= slots*busyShare {
		l.busySince = 0
	} else if l.busySince == 0 {
		l.busySince = now
	}
	suspended := l.settings.SuspendLowOrDefault() && l.busySince != 0 && now-l.busySince >= busyAfter
	if suspended != l.lowSuspended.Load() {
		l.lowSuspended.Store(suspended)
		l.dirty = true
	}
}

// LowSuspended reports whether low-priority tasks wait since the cluster is busy.
func (s *Scheduler) LowSuspended() bool { return s.lowSuspended.Load() }

// aheadOf reports whether a due task of the shape waits that is as urgent as a
// new one of the priority, also one whose shape isn't known yet.
func (l *loop) aheadOf(s shape, priority job.Priority, now int64) bool {
	lesser := l.lesserRoom() > 0
	for _, p := range job.Priorities {
		if p > priority && (!lesser || p == job.Low && l.lowSuspended.Load()) {
			continue // those that have risen can't take the slot either
		}
		risen := now - int64(max(p, priority)-priority)*ageStep // those due by then are as urgent
		first := l.queues.first(p, s)
		switch {
		case first != nil && first.due <= risen, l.due.frontier[p].Due <= risen,
			slices.ContainsFunc(l.due.raise[p], func(it *item) bool { return it.due <= risen }):
			return true
		}
	}
	return false
}

// readSettings takes the cluster's settings from state.
func (l *loop) readSettings(r fsm.Reader) {
	l.settings = fsm.ReadSettings(r)
	l.queues.fair.weighAll()
}
