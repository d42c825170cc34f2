package scheduler

import (
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/wheel"
)

// item is a pending task in memory: in the wheel until it is due or can be armed,
// then raised (its record is to be read), then in a queue of ready or upcoming
// tasks, then being assigned. An upcoming one is in the wheel too, to become ready.
type item struct {
	ref      fsm.TaskRef
	priority job.Priority
	due      int64
	hint     uint64 // of its fairness key, see fsm.Task.FairHint
	share    *share // that it is counted in
	version  uint64 // of the record that the queue's shape was computed from
	job      jobKey // whose definition decides the shape; zero: the task's own
	handle   wheel.Handle
	queue    *queue // set while ready
	pos      int    // index in the queue's heap
	gone     bool   // taken out while raised
	// assigning: it is in a proposed assign. Should it come due meanwhile, nothing
	// is to be done.
	assigning bool
}

func (it *item) key() fsm.DueKey {
	return fsm.DueKey{Due: it.due, ID: it.ref.ID, Namespace: it.ref.Namespace}
}

// dueWindow is the near future: of each priority the pending tasks before its
// frontier are in memory, the rest is left in the due index. The frontier
// advances by scans; it moves back when a task before it finds no room.
type dueWindow struct {
	max      int   // tasks of one priority
	horizon  int64 // ms that a task is raised before it is due
	wheel    *wheel.Wheel[*item]
	known    map[fsm.TaskRef]*item
	count    [job.Low + 1]int        // of known, by priority
	frontier [job.Low + 1]fsm.DueKey // first key that is not loaded
	raise    [job.Low + 1][]*item    // due, record not yet read
	early    [job.Low + 1][]*item    // due within the horizon, record not yet read
	sharing  [job.Low + 1]sharing
	// unfit holds, by kind, the first key that was dropped since no connected
	// worker fits its task. See wait.
	unfit [job.Low + 1]map[kind]fsm.DueKey
}

func newDueWindow(now int64, most int, horizon int64) dueWindow {
	return dueWindow{max: most, horizon: horizon, wheel: wheel.New[*item](now), known: map[fsm.TaskRef]*item{}}
}

func (d *dueWindow) len() int { return len(d.known) }

func (d *dueWindow) raised() int { return total(d.raise[:]) }

func total(queues [][]*item) (n int) {
	for _, q := range queues {
		n += len(q)
	}
	return n
}

func (d *dueWindow) next() (int64, bool) { return d.wheel.Next() }

// add takes a pending task into memory if its place is before the frontier and
// there is room; else the index keeps it for a later scan.
func (d *dueWindow) add(t *fsm.Task) {
	it := &item{ref: t.Ref(), priority: t.Policy.Priority, due: t.Due, hint: t.FairHint()}
	if old := d.known[it.ref]; old != nil {
		if old.due == it.due && old.priority == it.priority {
			return
		}
		d.drop(old)
	}
	if d.room(it) {
		d.insert(it)
	}
}

// room reports whether a task belongs into memory: its place is before the
// frontier, and there is room. Where only room is lacking, the frontier moves
// back to it.
func (d *dueWindow) room(it *item) bool {
	p := it.priority
	if it.key().Compare(d.frontier[p]) >= 0 {
		return false
	}
	if d.sharing[p].on {
		return d.mayHold(it)
	}
	if d.count[p] >= d.max {
		d.frontier[p] = it.key()
		return false
	}
	return true
}

// hold takes a task into memory without the wheel, since it is due.
func (d *dueWindow) hold(it *item) {
	d.known[it.ref] = it
	d.counted(it, +1)
}

func (d *dueWindow) insert(it *item) {
	d.hold(it)
	it.handle = d.wheel.Add(d.raiseAt(it.due), it)
}

// raiseAt is when a task is to be looked at: a horizon before it is due or a step
// earlier, so that many are armed together.
func (d *dueWindow) raiseAt(due int64) int64 {
	at := due - d.horizon
	return at - at%(d.horizon/armSteps+1)
}

// drop forgets a task wherever it is held.
func (d *dueWindow) drop(it *item) {
	if d.known[it.ref] != it {
		return
	}
	delete(d.known, it.ref)
	d.counted(it, -1)
	it.gone = true
	d.wheel.Remove(it.handle)
	if it.queue != nil {
		it.queue.remove(it)
	}
}

func (d *dueWindow) forget(ref fsm.TaskRef) {
	if it := d.known[ref]; it != nil {
		d.drop(it)
	}
}

// fill scans the due index where the frontier is less than half a window ahead
// and there is room. It reports whether more is to be scanned.
func (l *loop) fill(now int64) (more bool) {
	d := &l.due
	var r fsm.Reader
	var release func()
	for _, p := range job.Priorities {
		ahead := now + d.horizon + window
		lacks := d.sharing[p].on && d.sharing[p].lacking
		on := d.roomToScan(p) && d.frontier[p].Due <= ahead-window/2
		if !on && !lacks {
			continue
		}
		if r == nil {
			r, release = l.cfg.State.Read()
			defer release()
		}
		if lacks {
			more = d.again(r, p, &l.limits, now) || more
		}
		if on {
			more = d.scan(r, p, ahead, &l.limits) || more
		}
	}
	return more
}

// roomToScan reports whether the frontier may go on. While memory is shared it does
// so over what has no room.
func (d *dueWindow) roomToScan(p job.Priority) bool {
	return d.count[p] <= d.max/2 || d.sharing[p].on && d.count[p] < d.max
}

// scan loads rows from the frontier on, up to the bounds.
func (d *dueWindow) scan(r fsm.Reader, p job.Priority, before int64, m *limitMemory) (more bool) {
	rows := fsm.ScanDue(r, p, d.frontier[p], before, maxScan)
	for _, row := range rows {
		ref := fsm.TaskRef{Namespace: row.Namespace, ID: row.ID}
		switch {
		case d.known[ref] != nil || m.skips(p, &row, before-d.horizon-window):
		case d.sharing[p].on:
			d.read(p, &row)
		default:
			d.insert(&item{ref: ref, priority: p, due: row.Due, hint: row.FairHint()})
		}
	}
	if len(rows) < maxScan {
		d.frontier[p] = fsm.DueKey{Due: before}
		return false
	}
	last := rows[len(rows)-1].DueKey
	last.Namespace += "\x00" // the smallest key after it
	d.frontier[p] = last
	return d.roomToScan(p)
}

// raise advances the wheel and reads the records of tasks that came due or can be
// armed, a bounded number of them, most urgent first.
func (l *loop) raise(now int64) (more bool) {
	d := &l.due
	d.wheel.Advance(now, func(_ int64, it *item) { l.cameUp(it, now) })
	if d.raised() == 0 && total(d.early[:]) == 0 {
		return false
	}
	r, release := l.cfg.State.Read()
	defer release()
	budget := maxRaise
	for _, raised := range []*[job.Low + 1][]*item{&d.raise, &d.early} {
		for _, p := range job.Priorities {
			n := min(budget, len(raised[p]))
			for _, it := range raised[p][:n] {
				l.enqueue(r, it, now)
			}
			raised[p] = raised[p][n:]
			if len(raised[p]) == 0 {
				raised[p] = nil
			}
			budget -= n
		}
	}
	return d.raised() > 0 || total(d.early[:]) > 0
}

// cameUp takes a task that comes out of the wheel.
func (l *loop) cameUp(it *item, now int64) {
	switch {
	case it.assigning:
	case it.due > now:
		l.due.early[it.priority] = append(l.due.early[it.priority], it)
	case it.queue != nil: // nobody could arm it
		s := it.queue.shape
		it.queue.remove(it)
		l.wait(it, s, now)
	default:
		l.due.raise[it.priority] = append(l.due.raise[it.priority], it)
	}
}

// enqueue puts a raised task into the queue of its shape, by its record.
func (l *loop) enqueue(r fsm.Reader, it *item, now int64) {
	if it.gone {
		return
	}
	t, ok := fsm.GetTask(r, it.ref)
	if !ok || t.State != job.Pending {
		l.due.drop(it)
		return
	}
	if t.Due != it.due || t.Policy.Priority != it.priority {
		l.due.add(&t)
		return
	}
	it.version, it.job = t.Version, jobOf(&t)
	if s := l.shape(r, &t); t.Due > now {
		l.expect(it, s)
	} else {
		l.wait(it, s, now)
	}
}

// kind is what tasks that no worker fits have in common: when it changes they
// are looked at again.
type kind struct {
	shape shape
	job   jobKey
}

func jobOf(t *fsm.Task) jobKey {
	if t.Job == "" {
		return jobKey{}
	}
	return jobKey{t.Namespace, t.Job}
}

// wait puts a due task into the queue of its shape. Of a shape that no connected
// worker fits few tasks are kept, so that the others are reached; the index
// keeps the rest until that changes, see retryUnfit.
func (l *loop) wait(it *item, s shape, now int64) {
	if s.group != nil && l.blocked(it, s.group, now) {
		l.leaveBlocked(it, s.group)
		return
	}
	if q := l.queues.byPriority[it.priority][s]; q != nil && q.Len() >= maxUnfit && !l.fitsAny(s, it.priority) && l.leave(it, s) {
		return
	}
	l.queues.push(it, s)
	l.dirty = true
}

// leave forgets a task that no worker fits. It reports false where too many kinds
// are left already; the task then stays in memory.
func (l *loop) leave(it *item, s shape) bool {
	unfit := l.due.unfit[it.priority]
	k := kind{s.unlaned(), it.job}
	first, known := unfit[k]
	if !known && len(unfit) >= maxUnfitKinds {
		return false
	}
	if unfit == nil {
		unfit = map[kind]fsm.DueKey{}
		l.due.unfit[it.priority] = unfit
	}
	if !known || it.key().Compare(first) < 0 {
		unfit[k] = it.key()
	}
	l.due.drop(it)
	return true
}

// trimUnfit leaves most of the tasks whose shape has lost its last worker, where
// they keep others from being loaded.
func (l *loop) trimUnfit() {
	for _, p := range job.Priorities {
		if l.due.count[p] <= l.due.max/2 {
			continue
		}
		for _, q := range l.queues.heads(p) {
			if q.Len() <= maxUnfit || l.fitsAny(q.shape, p) {
				continue
			}
			items := slices.Clone(q.items)
			slices.SortFunc(items, func(a, b *item) int { return a.key().Compare(b.key()) })
			for _, it := range items[maxUnfit:] {
				if !l.leave(it, q.shape) {
					break
				}
			}
		}
	}
}

// fitsAny reports whether a connected worker fits a shape and priority, free or not.
func (l *loop) fitsAny(s shape, p job.Priority) bool {
	if s.target != "" && l.targetRoom(s, 1) == 0 {
		return false
	}
	needs := l.needs(s)
	for _, w := range l.workers {
		if w.session != nil && !gone(w.session) && !w.draining && !w.lost && w.fits(s, needs, p) {
			return true
		}
	}
	return false
}

// retryUnfit makes the next scans find again the tasks of those kinds that may fit
// a worker now.
func (l *loop) retryUnfit(mayFit func(kind, job.Priority) bool) {
	for _, p := range job.Priorities {
		for k, first := range l.due.unfit[p] {
			if !mayFit(k, p) {
				continue
			}
			delete(l.due.unfit[p], k)
			if first.Compare(l.due.frontier[p]) < 0 {
				l.due.frontier[p] = first
			}
		}
	}
}

// retryFitting is retryUnfit after a change of workers.
func (l *loop) retryFitting() {
	if l.sticking { // their workers may have changed
		l.reshape(func(q *queue, _ *item) bool { return q.shape.sticky })
	}
	l.retryUnfit(func(k kind, p job.Priority) bool { return k.shape.sticky || l.fitsAny(k.shape, p) })
}

// reload places a task by its record, after an assign of it failed.
func (l *loop) reload(r fsm.Reader, ref fsm.TaskRef) {
	l.due.forget(ref)
	if t, ok := fsm.GetTask(r, ref); ok && t.State == job.Pending {
		l.due.add(&t)
	}
}
