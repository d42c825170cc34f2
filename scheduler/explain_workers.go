package scheduler

import (
	"fmt"
	"slices"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The bounds of what an explanation looks at.
const (
	maxAhead  = 10_000 // tasks counted one by one
	maxQueues = 1000   // queues looked at
	maxNamed  = 3      // workers that a sentence names
)

// explainWorkers tells which workers could take a task that waits, and what keeps
// them from it. Of one that isn't due it tells what would.
func explainWorkers(l *loop, q *asked) {
	if q.task.State != job.Pending {
		return
	}
	if q.task.Bound() != "" {
		explainBound(l, q)
		return
	}
	m := l.matching(q.shape, q.task.Policy.Priority)
	switch {
	case len(m.fit) > 0 && q.shape.strategy == job.Broadcast:
		if q.due() && len(q.found) == 0 {
			q.add(job.Reason{
				Code: job.ReasonQueued, Workers: len(m.fit),
				Text: fmt.Sprintf("It goes to all of the %s that match, in a moment.", count(len(m.fit), "worker")), Next: "Nothing: wait a moment.",
			})
		}
	case len(m.fit) > 0:
		if q.due() {
			l.explainSlots(q, l.unbarred(q.shape, m.fit))
		}
	case m.present == 0 && len(m.away) == 0:
		q.add(job.Reason{
			Code: job.ReasonNoWorker, Text: "No worker is connected that takes work.",
			Next: "Start a worker, or resume one that drains; 'axd cluster status' lists them.",
		})
	default:
		q.addUnmet(&m)
		q.addAway(&m)
	}
}

// matching sorts workers by what they are to tasks of one shape.
type matching struct {
	present int            // workers that take work
	fit     []*workerState // of them, those that match
	unmet   []job.Unmet    // what the others of them lack
	away    []*workerState // would match, but take no work now
}

func (l *loop) matching(s shape, p job.Priority) (m matching) {
	needs := l.needs(s)
	lacking := map[string]int{}
	for _, w := range l.workers {
		lacks := w.lacks(s, needs, p)
		switch {
		case !w.present() || !w.connected():
			if len(lacks) == 0 {
				m.away = append(m.away, w)
			}
			continue
		case len(lacks) == 0:
			m.fit = append(m.fit, w)
		}
		m.present++
		for _, what := range lacks {
			lacking[what]++
		}
	}
	for what, n := range lacking {
		m.unmet = append(m.unmet, job.Unmet{Constraint: what, Workers: n})
	}
	slices.SortFunc(m.unmet, func(a, b job.Unmet) int {
		if a.Workers != b.Workers {
			return b.Workers - a.Workers
		}
		return strings.Compare(a.Constraint, b.Constraint)
	})
	slices.SortFunc(m.away, func(a, b *workerState) int { return strings.Compare(a.name, b.name) })
	return m
}

// lacks lists what a shape and priority ask for and the worker hasn't. What one offers that
// never was connected to this leader isn't known, and not held against it.
func (w *workerState) lacks(s shape, n *needs, p job.Priority) (what []string) {
	if w.offers != nil && !w.offers[s.offer] {
		what = append(what, "offer "+s.offer)
	}
	if !w.priorities.has(p) {
		what = append(what, "priority "+p.String())
	}
	for k, v := range n.selector {
		if w.labels[k] != v {
			what = append(what, "label "+k+"="+v)
		}
	}
	for i := range n.require {
		if !n.require[i].Holds(w.labels) {
			what = append(what, "label "+n.require[i].Text)
		}
	}
	if s.sticky && len(what) == 0 && s.worker != w.name {
		what = append(what, "sticky to "+s.worker)
	}
	return what
}

func (q *asked) addUnmet(m *matching) {
	if m.present == 0 {
		return
	}
	parts := make([]string, 0, len(m.unmet))
	for _, u := range m.unmet {
		parts = append(parts, fmt.Sprintf("%s is missing at %d", u.Constraint, u.Workers))
	}
	q.add(job.Reason{
		Code: job.ReasonNoMatch, Workers: m.present, Unmet: m.unmet,
		Text: fmt.Sprintf("None of the %s that take work matches: %s.", count(m.present, "worker"), strings.Join(parts, ", ")),
		Next: "Start a worker that has all of it, or change what the task or its job asks for; 'axd worker list' shows labels.",
	})
}

func (q *asked) addAway(m *matching) {
	if len(m.away) == 0 {
		return
	}
	names := make([]string, 0, maxNamed)
	for _, w := range m.away {
		if len(names) == maxNamed {
			names = append(names, fmt.Sprintf("and %d more", len(m.away)-maxNamed))
			break
		}
		names = append(names, w.name+" "+w.absence())
	}
	q.add(job.Reason{
		Code: job.ReasonWorkersAway, Workers: len(m.away), Worker: m.away[0].name,
		Text: fmt.Sprintf("%s would match but take no work: %s.", count(len(m.away), "worker"), strings.Join(names, ", ")),
		Next: "Resume one that drains ('axd worker resume NAME'), or start those again that are gone.",
	})
}

// absence says why a worker takes no work.
func (w *workerState) absence() string {
	switch {
	case w.lost:
		return "is lost"
	case w.joining:
		return "is registering"
	case !w.connected():
		return "is not connected"
	}
	return "drains"
}

// unbarred leaves workers out that breakers keep the tasks from, unless that is all.
func (l *loop) unbarred(s shape, fit []*workerState) []*workerState {
	barred := l.barred(s, fit)
	if len(barred) == len(fit) {
		return fit
	}
	return slices.DeleteFunc(slices.Clone(fit), func(w *workerState) bool { return slices.Contains(barred, w) })
}

// explainSlots tells how full the workers are that match, and what comes first.
func (l *loop) explainSlots(q *asked, fit []*workerState) {
	slots, free := 0, 0
	for _, w := range fit {
		slots += w.slots
		free += max(w.free(), 0)
	}
	if free > 0 && (len(q.found) > 0 || q.shape.paused) {
		return // it is held back for another reason
	}
	ahead, more := l.ahead(q, fit)
	reason := job.Reason{Workers: len(fit), Slots: slots, Ahead: ahead, AtLeast: more}
	before := count(ahead, "task")
	if more {
		before = "at least " + before
	}
	if l.queues.fair.several() {
		before += " of its own namespace and fairness key, with which others take turns,"
	}
	if free == 0 {
		reason.Code = job.ReasonNoSlot
		reason.Text = fmt.Sprintf("All %s of the %s that match are taken; of what waits for them, %s come before it.",
			count(slots, "slot"), count(len(fit), "worker"), before)
		reason.Next = "Wait, start more workers, or give the task a higher priority: 'axd task reschedule $ID --priority high'."
	} else {
		reason.Code = job.ReasonQueued
		reason.Text = fmt.Sprintf("%d of %s that match are free; of what waits for them, %s come before it.", free, count(slots, "slot"), before)
		reason.Next = "Nothing: it is assigned in a moment."
	}
	q.add(reason)
}

// ahead counts the due tasks that come before one and may take the same slots, as
// far as they are in memory.
func (l *loop) ahead(q *asked, fit []*workerState) (n int, more bool) {
	more = l.due.known[q.task.Ref()] == nil
	looked := 0
	own := &item{priority: q.task.Policy.Priority, due: q.task.Due}
	for _, p := range job.Priorities {
		for s, queue := range l.queues.byPriority[p] {
			if looked++; looked > maxQueues {
				return n, true
			}
			if s.lane != q.shape.lane && q.level(queue.items[0]) == q.level(own) {
				continue // they take turns
			}
			if q.goesFirst(queue.items[0]) && l.fitsOne(fit, s, p) {
				counted, cut := queue.before(q.goesFirst, maxAhead-n)
				n, more = n+counted, more || cut
			}
		}
		next := &item{ref: fsm.TaskRef{ID: l.due.frontier[p].ID}, priority: p, due: l.due.frontier[p].Due}
		more = more || len(l.due.raise[p]) > 0 || q.goesFirst(next)
	}
	return n, more
}

// level is the priority that a task has risen to by now.
func (q *asked) level(it *item) job.Priority { return level(it.priority, it.due, q.now) }

// goesFirst reports whether another due task is more urgent, or as urgent and due
// before.
func (q *asked) goesFirst(it *item) bool {
	own := &item{ref: q.task.Ref(), due: q.task.Due}
	a, b := level(it.priority, it.due, q.now), level(q.task.Policy.Priority, own.due, q.now)
	return it.due <= q.now && (a < b || a == b && it.key().Compare(own.key()) < 0)
}

func (l *loop) fitsOne(workers []*workerState, s shape, p job.Priority) bool {
	needs := l.needs(s)
	return slices.ContainsFunc(workers, func(w *workerState) bool { return w.fits(s, needs, p) })
}

// before counts the tasks of a queue that go first, at most limit.
func (q *queue) before(goesFirst func(*item) bool, limit int) (n int, cut bool) {
	next := []int{0} // of the heap: below what comes later nothing comes earlier
	for len(next) > 0 {
		i := next[len(next)-1]
		next = next[:len(next)-1]
		if i >= len(q.items) || !goesFirst(q.items[i]) {
			continue
		}
		if n == limit {
			return n, true
		}
		n++
		next = append(next, 2*i+1, 2*i+2)
	}
	return n, false
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
