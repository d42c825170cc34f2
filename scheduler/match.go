package scheduler

import (
	"container/heap"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// match hands due tasks to workers: strictly by the priority that they have risen
// to, within one by turns, else the longest due first, to the least loaded worker that fits. It
// reports whether more could be assigned at once.
func (l *loop) match(now int64) (more bool) {
	if l.assigning >= maxAssigning {
		return false // the next result makes the loop try again
	}
	l.dirty = false
	var items []fsm.AssignItem
	lesser := l.lesserRoom()
	for u := l.queues.byUrgency(now, l.lowSuspended.Load()); u.Len() > 0; {
		q := u.first()
		limit := maxAssign
		if q.priority == job.Low {
			if l.assigning >= maxAssigningLow {
				u.next(now, true)
				continue
			}
			limit = max(maxAssignLow, len(items))
		}
		room := limit - len(items)
		if q.priority != job.High {
			room = min(room, lesser)
		}
		if u.isFair {
			room = min(room, fairBurst)
		}
		room = l.targetRoom(q.shape, room)
		before := len(items)
		var blocked bool
		items, blocked = l.matchQueue(q, items, room, now)
		if q.priority != job.High {
			lesser -= len(items) - before
			blocked = blocked || lesser <= 0
		}
		if len(items) == limit {
			l.assign(items, false)
			l.dirty = true
			return l.assigning < maxAssigning
		}
		u.next(now, blocked || q.shape.target != "")
	}
	if len(items) > 0 {
		l.assign(items, false)
	}
	return false
}

// matchQueue assigns tasks of one queue, those that have risen as far as its first,
// while a worker that fits has room and its limit allows. It reports whether no more
// can be.
func (l *loop) matchQueue(q *queue, items []fsm.AssignItem, room int, now int64) (_ []fsm.AssignItem, blocked bool) {
	if q.shape.strategy == job.Broadcast {
		l.broadcast(q)
		return items, true
	}
	g := q.shape.group
	if g != nil && !g.mayBegin(now) {
		l.park(q, now)
		return items, true
	}
	candidates, strict := l.candidates(q.shape, q.priority, false)
	first, lends := level(q.priority, q.items[0].due, now), l.lends(q.priority)
	for ; len(candidates) > 0 && q.Len() > 0 && room > 0 && level(q.priority, q.items[0].due, now) == first; room-- {
		if g != nil && !g.mayBegin(now) {
			l.park(q, now)
			return items, true
		}
		i := l.pick(q.shape, candidates)
		w := candidates[i]
		it := q.pop()
		if g != nil {
			l.take(g, it.ref, now)
			l.want(g)
		}
		if q.shape.lane != nil {
			l.queues.fair.serve(q.shape.lane)
		}
		it.assigning = true
		w.reserve(it)
		l.through(w, q.shape, it.ref)
		items = append(items, fsm.AssignItem{Ref: it.ref, Version: it.version, Worker: w.name, Boot: w.boot})
		if w.usable() && (lends || w.shares(q.priority)) && !(strict && l.bars(w, q.shape, false)) {
			heap.Fix(&candidates, i)
		} else {
			heap.Remove(&candidates, i)
		}
	}
	return items, len(candidates) == 0
}

// candidates are the workers that fit a shape and have a free slot, as a heap, but
// for those that a breaker bars, unless it bars all. With sure set a worker that
// only a probe may go to is none.
func (l *loop) candidates(s shape, p job.Priority, sure bool) (candidates workerHeap, strict bool) {
	strict = len(l.gates) > 0 && !l.barsAll(s, p)
	needs, lends := l.needs(s), l.lends(p)
	for _, w := range l.workers {
		if w.usable() && (lends || w.shares(p)) && w.fits(s, needs, p) && !(strict && l.bars(w, s, sure)) {
			candidates = append(candidates, w)
		}
	}
	heap.Init(&candidates)
	return candidates, strict
}

// reserve takes a slot for an assign that is not yet committed.
func (w *workerState) reserve(it *item) {
	a := &active{ref: fsm.AttemptRef{Ref: it.ref}, boot: w.boot, due: it.due, priority: it.priority}
	w.enter(a)
	if w.room > 0 {
		w.room--
	}
}

// unreserve gives the slot back where the assign did not commit.
func (w *workerState) unreserve(ref fsm.TaskRef) {
	a := w.active[ref]
	if a == nil || !a.ref.Token.IsZero() {
		return
	}
	if w.room >= 0 && !a.armed {
		w.room++
	}
	w.drop(a)
}

// assign proposes the assignments. What commits comes back as events, which
// dispatch; the result tells only what did not.
func (l *loop) assign(items []fsm.AssignItem, ahead bool) {
	if ahead {
		l.arming++
	} else {
		l.assigning++
	}
	cmd := fsm.Assign{Term: l.term, Items: items}
	l.cfg.Log.ProposeAsync(cmd, func(res fsm.Result, err error) {
		l.later(func(l *loop) {
			if ahead {
				l.arming--
			} else {
				l.assigning--
			}
			l.assigned(items, res, err)
		})
	})
}

func (l *loop) assigned(items []fsm.AssignItem, res fsm.Result, err error) {
	l.dirty = true
	r, release := l.read()
	defer release()
	for i, it := range items {
		if err == nil && i < len(res.Assigned) && res.Assigned[i].Err == nil {
			l.assignedTotal.Add(1)
			continue
		}
		if w := l.workers[it.Worker]; w != nil {
			w.unreserve(it.Ref)
		}
		l.passed(it.Ref)
		l.notTaken(r, it.Ref)
		l.reload(r, it.Ref)
	}
	if err != nil {
		l.nextMatch = max(l.nextMatch, l.cfg.Mono()+assignPause)
		l.log.Warn("assigning tasks failed", "tasks", len(items), "error", err)
	}
}

// workerHeap orders candidates by load, then by name: the least loaded first.
type workerHeap []*workerState

func (h workerHeap) Len() int { return len(h) }
func (h workerHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	left, right := (len(a.active)+a.promised)*max(b.slots, 1), (len(b.active)+b.promised)*max(a.slots, 1)
	if left != right {
		return left < right
	}
	return a.name < b.name
}
func (h workerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface; candidates are only ever removed.
func (h *workerHeap) Push(any) { panic("scheduler: workerHeap does not grow") }

// Pop implements heap.Interface.
func (h *workerHeap) Pop() any {
	last := len(*h) - 1
	w := (*h)[last]
	*h = (*h)[:last]
	return w
}
