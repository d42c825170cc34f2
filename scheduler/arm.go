package scheduler

import (
	"container/heap"
	"slices"
	"strings"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Arming ahead: what comes due within the horizon is assigned and sent before it
// is due, and the worker starts it by its own timer. So neither consensus nor
// disk are between the due time and the start, and tasks that come due while
// there is no leader start on time all the same.
const (
	defaultHorizon = 3 * time.Second
	maxHorizon     = 9 * time.Second         // and a step of it: below fsm.MaxEarly
	armSteps       = 16                      // looks per horizon at what there is to arm
	maxArming      = 2                       // assigns of armed tasks in flight, so that due ones find room in the log
	maxArmed       = 8192                    // armed attempts of one worker
	armFraction    = 8                       // of a worker's bound is armed at once, unless a task is urgent
	armUrgent      = 800                     // ms before it is due a task is urgent
	armFresh       = 2500 * time.Millisecond // since a worker's last renewal: one that hangs is armed no further
	paceBuckets    = 6                       // of houseInterval each: how long back ended attempts count
	maxDoubt       = 4                       // halvings of the trust in a worker's pace
	doubtPause     = 50 * time.Millisecond   // doubled with each doubt: how long a worker that gave back is asked for less
	clockMargin    = 1000                    // ms that two leaders' clocks are surely not apart
)

// expect queues a task that is due within the horizon, to be armed; when it
// comes due before that, it is ready.
func (l *loop) expect(it *item, s shape) {
	it.handle = l.due.wheel.Add(it.due, it)
	if s.group != nil || s.strategy == job.Broadcast {
		return // it would hold its limit before it begins, or is to be decided when it is due
	}
	l.upcoming.push(it, s)
	l.dirty = true
}

// arm assigns upcoming tasks to workers that can start them in time: strictly by
// priority, within one the first due first. Where due tasks of the same shape
// wait none is armed: it would only take turns with them; but high priority has
// slots of its own. It reports whether more could be armed at once.
func (l *loop) arm(now int64) (more bool) {
	if l.upcoming.len() == 0 || l.arming >= maxArming {
		return false // the next result makes the loop try again
	}
	l.keepSlots()
	var items []fsm.AssignItem
	for _, p := range job.Priorities {
		if p == job.Low && l.lowSuspended.Load() {
			continue
		}
		for _, q := range l.upcoming.heads(p) {
			if !q.shape.free() || l.queues.waits(q.shape, l.rivals(p)) {
				continue
			}
			items = l.armQueue(q, items, now)
			if len(items) == maxAssign {
				l.assign(items, true)
				l.dirty = true
				return l.arming < maxArming
			}
		}
	}
	if len(items) > 0 {
		l.assign(items, true)
	}
	return false
}

// rivals is the lowest priority whose due tasks compete with armed ones.
func (l *loop) rivals(p job.Priority) job.Priority {
	if p != job.High {
		return job.Low
	}
	slots := 0
	for _, w := range l.workers {
		if w.present() {
			slots += w.slots
		}
	}
	if l.reserved(slots) == 0 {
		return job.Low
	}
	return job.High
}

// armQueue assigns tasks of one queue while a worker that fits can take more.
func (l *loop) armQueue(q *queue, items []fsm.AssignItem, now int64) []fsm.AssignItem {
	needs := l.needs(q.shape)
	fraction := armFraction
	if q.items[0].due < now+armUrgent {
		fraction = maxArmed
	}
	fresh := l.cfg.Mono() - armFresh
	var candidates workerHeap
	for _, w := range l.workers {
		if w.present() && w.armRoom(q.priority) > w.armBound(q.priority)/fraction && w.fits(q.shape, needs, q.priority) && l.gates[workerGate(w.name)] == nil &&
			l.leases.renewedSince(boot{w.name, w.boot}, fresh) {
			candidates = append(candidates, w)
		}
	}
	heap.Init(&candidates)
	for len(candidates) > 0 && q.Len() > 0 && len(items) < maxAssign {
		i := l.pick(q.shape, candidates)
		w := candidates[i]
		it := q.pop()
		it.assigning = true
		w.reserveArmed(it)
		items = append(items, fsm.AssignItem{Ref: it.ref, Version: it.version, Worker: w.name, Boot: w.boot})
		if w.armRoom(q.priority) > 0 {
			heap.Fix(&candidates, i)
		} else {
			heap.Remove(&candidates, i)
		}
	}
	return items
}

// armBound is how many attempts may be armed at the worker: as many as it has
// free slots for them, and twice what it lately ended within a horizon, so that the
// bound grows with its pace. That much less as its give-backs have cast doubt on it.
func (w *workerState) armBound(p job.Priority) int {
	free := w.free()
	if p != job.High {
		free = min(free, w.slots-w.kept-w.lesser-w.promisedLesser)
	}
	return min(max(free, 0)+(2*w.pace.sum)>>w.doubt, maxArmed)
}

func (w *workerState) armRoom(p job.Priority) int {
	if w.distrusted || p != job.High && (w.crowded || w.kept >= w.slots) {
		return 0
	}
	return w.armBound(p) - w.armed
}

// keepSlots divides the slots that are kept for high priority among the workers, so
// that each can keep its part from what is armed there and starts by itself: first
// those that take nothing else, then by their slots. Where a worker has given some of
// its part away, others keep as many more.
func (l *loop) keepSlots() {
	if l.recount {
		l.recount = false
		l.orderKeepers()
	}
	before, given, lent := 0, 0, 0
	for _, w := range l.keepers { // each keeps what falls to it and those before it, less what those do
		before += w.slots
		w.kept = l.toKeep*before/l.mixed - given
		given += w.kept
		lent += max(w.lesser+w.promisedLesser+w.kept-w.slots, 0)
	}
	for _, w := range l.keepers {
		more := min(max(w.slots-w.kept-w.lesser-w.promisedLesser, 0), lent)
		w.kept += more
		lent -= more
	}
}

// orderKeepers finds the workers that keep slots, and how many all of them do.
func (l *loop) orderKeepers() {
	slots := 0
	l.keepers, l.mixed, l.toKeep = nil, 0, 0
	for _, w := range l.workers {
		w.kept = 0
		switch {
		case !w.present():
			continue
		case w.priorities.onlyHigh():
			l.toKeep -= w.slots
		case w.priorities.has(job.High):
			l.mixed += w.slots
			l.keepers = append(l.keepers, w)
		}
		slots += w.slots
	}
	l.toKeep = min(l.toKeep+l.reserved(slots), l.mixed)
	if l.toKeep <= 0 {
		l.keepers = nil
	}
	slices.SortFunc(l.keepers, func(a, b *workerState) int { return strings.Compare(a.name, b.name) })
}

// lends reports whether attempts of a priority may take slots that their worker keeps,
// where others have some to spare: as long as none is armed, which will take its own.
func (l *loop) lends(p job.Priority) bool {
	if p != job.High {
		for _, w := range l.workers {
			if w.armedLesser > 0 {
				return false
			}
		}
	}
	return true
}

// refused notes that a worker gave an attempt back, mostly since no slot was free.
// For a moment only what it ends makes room, so that refusals don't run at Raft's
// speed; nothing is armed until it reports again, and less after that.
func (l *loop) refused(w *workerState) {
	w.room = 0
	w.doubt = min(w.doubt+1, maxDoubt)
	w.distrusted = true
	w.doubtful = l.cfg.Mono() + doubtPause<<w.doubt
	if l.nextLook == 0 || w.doubtful < l.nextLook {
		l.nextLook = w.doubtful
	}
}

// trustAgain ends the moments of doubt that are over.
func (l *loop) trustAgain(mono time.Duration) {
	l.nextLook = 0
	for _, w := range l.workers {
		switch {
		case w.doubtful == 0:
		case w.doubtful <= mono:
			w.doubtful, w.room = 0, -1
			l.dirty = true
		case l.nextLook == 0 || w.doubtful < l.nextLook:
			l.nextLook = w.doubtful
		}
	}
}

// reported notes a heartbeat. A gap between the slots that it says are free and
// those that should be is believed when it lasts: the heartbeat is a moment old,
// and attempts end meanwhile.
func (l *loop) reported(w *workerState, free int) {
	if !w.distrusted && w.doubt > 0 {
		w.doubt--
	}
	w.distrusted, w.crowded = false, false
	gap := max(w.unused()-free, 0)
	lasting := min(gap, w.gap)
	w.gap = gap
	l.trustRoom(w, w.unused()-lasting)
}

// reserveArmed notes an armed attempt that is not yet committed. It holds no slot.
func (w *workerState) reserveArmed(it *item) {
	a := &active{ref: fsm.AttemptRef{Ref: it.ref}, boot: w.boot, due: it.due, priority: it.priority}
	w.enter(a)
	w.setArmed(a)
}

func (w *workerState) setArmed(a *active) {
	a.armed = true
	w.armed++
	if a.priority != job.High {
		w.armedLesser++
	}
	w.count(a, true)
	heap.Push(&w.soon, a)
}

// drop forgets an attempt of the worker's present life.
func (w *workerState) drop(a *active) {
	delete(w.active, a.ref.Ref)
	w.count(a, false)
	w.disarm(a)
}

// disarm notes that an attempt is armed no more.
func (w *workerState) disarm(a *active) {
	if !a.armed {
		return
	}
	a.armed = false
	w.armed--
	if a.priority != job.High {
		w.armedLesser--
	}
}

// comeDue makes armed attempts that are due hold a slot.
func (w *workerState) comeDue(now int64) {
	for len(w.soon) > 0 && w.soon[0].due <= now {
		a, _ := heap.Pop(&w.soon).(*active)
		if !a.armed { // ended, or filed anew
			continue
		}
		w.disarm(a)
		w.count(a, true)
		if w.room > 0 {
			w.room--
		}
	}
}

// revoke asks a worker to give armed attempts back.
func (l *loop) revoke(w *workerState, attempts ...*active) {
	held := make([]Held, 0, len(attempts))
	for _, a := range attempts {
		a.revoked = true
		held = append(held, Held{AttemptRef: a.ref, Attempt: a.attempt})
	}
	if w.session == nil || len(held) == 0 {
		return // remind does it, when the worker is back
	}
	w.flush(l.term)
	w.session.Revoke(held)
}

// revokeArmed takes all that is armed from a worker that drains.
func (l *loop) revokeArmed(w *workerState) {
	var armed []*active
	for _, a := range w.active {
		if a.armed && !a.ref.Token.IsZero() {
			armed = append(armed, a)
		}
	}
	l.revoke(w, armed...)
}

// pace counts the attempts that ended lately.
type pace struct {
	buckets [paceBuckets]int
	now     int // the current one
	sum     int
}

func (p *pace) count() {
	p.buckets[p.now]++
	p.sum++
}

func (p *pace) turn() {
	p.now = (p.now + 1) % paceBuckets
	p.sum -= p.buckets[p.now]
	p.buckets[p.now] = 0
}

// armedHeap orders armed attempts by their due time.
type armedHeap []*active

func (h armedHeap) Len() int           { return len(h) }
func (h armedHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h armedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *armedHeap) Push(x any) {
	a, _ := x.(*active) // heap.Push is only called with attempts
	*h = append(*h, a)
}

// Pop implements heap.Interface.
func (h *armedHeap) Pop() any {
	last := len(*h) - 1
	a := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return a
}
