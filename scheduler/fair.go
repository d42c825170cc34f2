package scheduler

import (
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Fairness: of one priority, namespaces take turns by their weights, and within a
// namespace the fairness keys. Each has a virtual time, which goes on as its tasks are
// given to workers, the slower the more it weighs; who is behind comes first. One whose
// tasks begin to wait joins where the others are: it has not saved turns up.
const (
	fairStep   = 1 << 20 // of virtual time for a task of weight 1
	fairBurst  = 16      // tasks that a turn hands out at most, where others wait
	fairCredit = 4 * fairBurst * fairStep
	maxLanes   = 1000 // keys told apart; those of one namespace beyond it share a turn
)

// tenant is a namespace that has tasks in memory, or lately had.
type tenant struct {
	name    string
	step    uint64 // of its virtual time for a task
	time    uint64 // its virtual time
	served  uint64 // the latest virtual time of a lane of it that was served
	waiting int    // tasks in ready queues
}

// lane is what the tasks of one namespace and fairness key wait in.
type lane struct {
	*tenant
	key    string
	at     uint64 // its virtual time among those of its namespace
	ready  int    // tasks in ready queues
	queued int    // tasks in any queue
}

type laneKey struct{ namespace, key string }

// fairness finds lanes and keeps their turns.
type fairness struct {
	lanes    map[laneKey]*lane
	tenants  map[string]*tenant
	last     *lane // most tasks are of the same as the one before
	served   uint64
	weightOf func(namespace string) int
}

func newFairness(weightOf func(string) int) *fairness {
	return &fairness{lanes: map[laneKey]*lane{}, tenants: map[string]*tenant{}, weightOf: weightOf}
}

// several reports whether there is more than one lane.
func (f *fairness) several() bool { return f != nil && len(f.lanes) > 1 }

// of returns the lane of tasks.
func (f *fairness) of(namespace, key string) *lane {
	if f == nil {
		return nil
	}
	if l := f.last; l != nil && l.name == namespace && l.key == key {
		return l
	}
	k := laneKey{namespace, key}
	if f.lanes[k] == nil && len(f.lanes) >= maxLanes {
		if f.prune(); len(f.lanes) >= maxLanes {
			if k.key = ""; f.tenants[namespace] == nil {
				k.namespace = "" // no namespace has this name
			}
		}
	}
	one := f.lanes[k]
	if one == nil {
		one = &lane{tenant: f.tenant(k.namespace), key: k.key}
		f.lanes[k] = one
	}
	if k == (laneKey{namespace, key}) {
		f.last = one
	}
	return one
}

func (f *fairness) tenant(name string) *tenant {
	t := f.tenants[name]
	if t == nil {
		t = &tenant{name: name}
		f.weigh(t)
		f.tenants[name] = t
	}
	return t
}

func (f *fairness) weigh(t *tenant) { t.step = fairStep / uint64(max(f.weightOf(t.name), 1)) }

// weighAll takes changed weights.
func (f *fairness) weighAll() {
	for _, t := range f.tenants {
		f.weigh(t)
	}
}

// prune forgets lanes that nothing is queued in: they would join anew anyhow.
func (f *fairness) prune() {
	used := map[*tenant]bool{}
	for k, one := range f.lanes {
		if one.queued > 0 {
			used[one.tenant] = true
		} else {
			delete(f.lanes, k)
		}
	}
	for name, t := range f.tenants {
		if !used[t] {
			delete(f.tenants, name)
		}
	}
	f.last = nil
}

// wait notes that a task of a lane came to a ready queue or left it.
func (f *fairness) wait(one *lane, n int) {
	if n > 0 && one.tenant.waiting == 0 {
		one.time = max(one.time, f.served)
	}
	if n > 0 && one.ready == 0 {
		one.at = max(one.at, one.tenant.served)
	}
	one.tenant.waiting += n
	one.ready += n
}

// serve notes that a task of a lane is given to a worker. Who was held up by
// something else comes first for a while, not for as long as it was.
func (f *fairness) serve(one *lane) {
	t := one.tenant
	f.served = max(f.served, t.time)
	t.time = max(t.time, f.served-min(f.served, fairCredit)) + t.step
	t.served = max(t.served, one.at)
	one.at = max(one.at, t.served-min(t.served, fairCredit)) + fairStep
}

// turn says whose turn it is: the least first.
type turn struct{ tenant, key uint64 }

func (t turn) before(o turn) bool {
	return t.tenant < o.tenant || t.tenant == o.tenant && t.key < o.key
}

func (q *queue) turn() turn {
	if one := q.shape.lane; one != nil {
		return turn{one.time, one.at}
	}
	return turn{}
}

// fair lets lanes take turns where there are several. Then all of one priority count as
// risen as far as the one that has waited longest: else who floods the queue would also
// be who has waited long, and come first.
func (u *urgency) fair() {
	for i := 1; i < len(u.queues); i++ {
		if u.queues[i].shape.lane != u.queues[0].shape.lane {
			u.isFair = true
		}
	}
	if !u.isFair {
		return
	}
	best := [job.Low + 1]job.Priority{job.High: job.High, job.Normal: job.Normal, job.Low: job.Low}
	for i, q := range u.queues {
		best[q.priority] = min(best[q.priority], u.levels[i])
	}
	u.turns = make([]turn, len(u.queues))
	for i, q := range u.queues {
		u.turns[i], u.levels[i] = q.turn(), best[q.priority]
	}
}

// first returns the most urgent queue. The turns of those after it may have gone on
// since they were looked at, as two queues may be of one namespace.
func (u *urgency) first() *queue {
	for u.isFair {
		now := u.queues[0].turn()
		if now == u.turns[0] {
			break
		}
		u.turns[0] = now
		u.fix()
	}
	return u.queues[0]
}

// unlaned is the shape whatever the task's lane.
func (s shape) unlaned() shape {
	s.lane = nil
	return s
}

// first returns the longest due task of a shape and priority, of any lane; nil: none
// waits.
func (q *readyQueues) first(p job.Priority, s shape) *item {
	m := q.byPriority[p]
	if len(m) == 0 {
		return nil
	}
	if !q.fair.several() {
		if own := m[s]; own != nil {
			return own.items[0]
		}
		return nil
	}
	var first *item
	want := s.unlaned()
	for other, c := range m {
		if other.unlaned() == want && (first == nil || c.items[0].key().Compare(first.key()) < 0) {
			first = c.items[0]
		}
	}
	return first
}

// laneOf is the lane of a task.
func (l *loop) laneOf(t *fsm.Task) *lane { return l.queues.fair.of(t.Namespace, t.FairnessKey) }
