package scheduler

import (
	"container/heap"
	"slices"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// shape is what decides which workers may run a task. Tasks of one shape wait
// in one queue, so that those no worker can run don't hold up the others.
type shape struct {
	offer  string // what the worker must offer: "exec", "http" or "handler:NAME"
	labels string // the selector, "k=v" sorted and joined by commas
	// Of a task that a breaker concerns which isn't closed; see loop.gated.
	job    jobKey
	target string
	paused bool // its job is: no worker fits
	// Of a task with a route: what it requires, each followed by a line feed, and how
	// one is chosen. A sticky one goes to one worker; empty: none fits.
	require  string
	strategy job.RouteStrategy
	sticky   bool
	worker   string
	group    *group // what limits the tasks; nil: nothing
	lane     *lane  // with whom they take turns
}

// shape computes a task's shape from its record and its job's.
func (l *loop) shape(r fsm.Reader, t *fsm.Task) shape {
	policy, executor, _ := l.policy(r, t)
	offer := t.Offer
	if t.Job != "" {
		offer = executor.Offer()
	}
	s := shape{offer: offer, labels: labelsKey(policy.Selector), lane: l.laneOf(t)}
	if policy.Route != nil && t.Bound() == "" {
		s = l.routed(s, policy.Route, t.Policy.Priority)
	}
	if t.Extra != nil || s.strategy == job.Broadcast {
		s = l.ofBroadcast(s, t)
	}
	if l.isPaused(r, t) {
		s.paused, s.job = true, jobOf(t) // its limits hold nothing up
		return s
	}
	if !t.IsBroadcast() { // its parts are what is limited
		s.group = l.group(r, t, &policy)
	}
	return l.gated(s, r, t, &executor)
}

// isPaused reports whether a task's job is paused.
func (l *loop) isPaused(r fsm.Reader, t *fsm.Task) bool {
	if t.Job == "" {
		return false
	}
	j := l.job(r, t.Namespace, t.Job)
	return j != nil && j.Paused != nil
}

func labelsKey(labels map[string]string) string {
	if len(labels) == 0 {
		return ""
	}
	pairs := make([]string, 0, len(labels))
	for k, v := range labels {
		pairs = append(pairs, k+"="+v)
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}

// readyQueues holds tasks by priority and shape.
type readyQueues struct {
	byPriority [job.Low + 1]map[shape]*queue
	n          int
	// Of queues whose limit lets nothing begin; see loop.park.
	hidden [job.Low + 1]map[shape]*queue
	parked [job.Low + 1]int // tasks in them
	fair   *fairness
	ahead  bool // of tasks that are not due: they take no turns yet
}

func newReadyQueues(fair *fairness, ahead bool) readyQueues {
	q := readyQueues{fair: fair, ahead: ahead}
	for _, p := range job.Priorities {
		q.byPriority[p], q.hidden[p] = map[shape]*queue{}, map[shape]*queue{}
	}
	return q
}

func (q *readyQueues) len() int { return q.n }

// waits reports whether a task of the shape is queued that is at least as urgent
// as the lowest of those meant.
func (q *readyQueues) waits(s shape, lowest job.Priority) bool {
	for _, p := range job.Priorities {
		if p <= lowest && q.first(p, s) != nil {
			return true
		}
	}
	return false
}

func (q *readyQueues) push(it *item, s shape) {
	m := q.byPriority[it.priority]
	target := m[s]
	if target == nil && s.group != nil {
		target = q.hidden[it.priority][s]
	}
	if target == nil {
		target = &queue{all: q, shape: s, priority: it.priority}
		m[s] = target
	}
	it.queue = target
	heap.Push(target, it)
	target.counted(+1)
}

// counted notes that tasks came to the queue or left it.
func (q *queue) counted(n int) {
	q.all.n += n
	if one := q.shape.lane; one != nil {
		if one.queued += n; !q.all.ahead {
			q.all.fair.wait(one, n)
		}
	}
	if q.shape.group != nil {
		q.shape.group.waiting += n
	}
	if q.isParked {
		q.all.parked[q.priority] += n
	}
}

// park hides the queue from matching.
func (q *queue) park() {
	delete(q.all.byPriority[q.priority], q.shape)
	q.all.hidden[q.priority][q.shape] = q
	q.isParked = true
	q.all.parked[q.priority] += len(q.items)
}

// unpark shows it again, unless it is empty and gone.
func (q *queue) unpark() {
	if !q.isParked {
		return
	}
	q.isParked = false
	delete(q.all.hidden[q.priority], q.shape)
	q.all.parked[q.priority] -= len(q.items)
	q.all.byPriority[q.priority][q.shape] = q
}

// heads returns a priority's queues, that of the longest due task first.
func (q *readyQueues) heads(p job.Priority) []*queue {
	out := make([]*queue, 0, len(q.byPriority[p]))
	for _, c := range q.byPriority[p] {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b *queue) int { return a.items[0].key().Compare(b.items[0].key()) })
	return out
}

// queue is a heap of tasks of one priority and shape, longest due first.
// An empty queue is removed from its parent.
type queue struct {
	all      *readyQueues
	shape    shape
	priority job.Priority
	items    []*item
	isParked bool
}

func (q *queue) Len() int           { return len(q.items) }
func (q *queue) Less(i, j int) bool { return q.items[i].key().Compare(q.items[j].key()) < 0 }
func (q *queue) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].pos, q.items[j].pos = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	it := x.(*item) // heap.Push is only called with items
	it.pos = len(q.items)
	q.items = append(q.items, it)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(q.items) - 1
	it := q.items[last]
	q.items[last] = nil
	q.items = q.items[:last]
	return it
}

func (q *queue) pop() *item {
	it := q.items[0]
	q.remove(it)
	return it
}

func (q *queue) remove(it *item) {
	heap.Remove(q, it.pos)
	it.queue = nil
	q.counted(-1)
	if len(q.items) == 0 {
		delete(q.all.byPriority[q.priority], q.shape)
		if q.isParked {
			delete(q.all.hidden[q.priority], q.shape)
			q.isParked = false
		}
	}
}
