package scheduler

import (
	"container/heap"
	"sync/atomic"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// placeWait bounds how long a submit waits for the loop; beyond it its tasks are
// assigned after they were created, as those that found no room.
const placeWait = 20 * time.Millisecond

// Wanted says what tasks of one submit that may start at once need of a worker.
type Wanted struct {
	Namespace string
	Job       string            // empty: the tasks' own executor, see Offer
	Offer     string            // see job.Executor.Offer
	Selector  map[string]string // as the submit says
	Priority  job.Priority      // as the submit says; 0: nothing
	Tasks     []int             // their indexes in the submit
}

// Placement is room held for tasks of a submit that is about to be proposed.
// Release must follow, whatever became of it.
type Placement struct {
	term    uint64
	workers []*workerState
	lives   []fsm.WorkerLife
	held    []int // slots, by worker
	lesser  []int // of held: for less than high priority
	to      []int // as in fsm.SubmitNow
}

// Command returns the command that submits and assigns at once.
func (p *Placement) Command(submit []byte) fsm.SubmitNow {
	return fsm.SubmitNow{Term: p.term, Workers: p.lives, To: p.to, Submit: submit}
}

// Place holds free slots for tasks that may start at once. It returns nil where
// there are none, or where other tasks wait for them.
func (s *Scheduler) Place(wanted []Wanted) *Placement {
	if !s.roomy.Load() {
		return nil // so it costs nothing while all slots are taken
	}
	var settled atomic.Bool
	answer := make(chan *Placement, 1)
	asked := s.inbox.put(func(l *loop) {
		if settled.CompareAndSwap(false, true) {
			answer <- l.place(wanted)
		}
	})
	if !asked {
		return nil
	}
	limit := time.NewTimer(placeWait)
	defer limit.Stop()
	select {
	case p := <-answer:
		return p
	case <-limit.C:
		if settled.CompareAndSwap(false, true) {
			return nil
		}
		return <-answer
	}
}

// Release gives back the room that a placement held. What was assigned holds its
// slots by itself.
func (s *Scheduler) Release(p *Placement) {
	s.inbox.put(func(l *loop) {
		for i, w := range p.workers { // of this loop's memory, or of one that was given up
			w.promised -= p.held[i]
			w.promisedLesser -= p.lesser[i]
			if w.room >= 0 {
				w.room += p.held[i]
			}
		}
		l.dirty = true
	})
}

func (l *loop) place(wanted []Wanted) *Placement {
	now, mono := l.cfg.Now(), l.cfg.Mono()
	if mono < l.restored {
		return nil
	}
	if l.dirty && mono >= l.nextMatch {
		l.hand(now)
	}
	p := &Placement{term: l.term}
	for i := range wanted {
		s, priority, ok := l.wantedShape(&wanted[i])
		if ok && !l.aheadOf(s, priority, now) {
			l.placeAll(p, s, priority, wanted[i].Tasks)
		}
	}
	if len(p.workers) == 0 {
		return nil
	}
	return p
}

// wantedShape computes the shape and priority that the tasks will have, as far as
// their job is known.
func (l *loop) wantedShape(w *Wanted) (shape, job.Priority, bool) {
	policy, offer := job.Policy{Selector: w.Selector, Priority: w.Priority}, w.Offer
	if w.Job != "" {
		r, release := l.read()
		j := l.job(r, w.Namespace, w.Job)
		release()
		if j == nil || j.Paused != nil {
			return shape{}, 0, false
		}
		policy, offer = j.Spec.Policy.Merge(policy), j.Spec.Executor.Offer()
		if policy.Concurrency != nil || policy.Rate != nil {
			return shape{}, 0, false // whether one may begin is decided for it alone
		}
	}
	s := shape{offer: offer, labels: labelsKey(policy.Selector), lane: l.queues.fair.of(w.Namespace, policy.FairnessKey)}
	if policy.Route != nil {
		return s, 0, false // it goes through the queue
	}
	if len(l.gates) > 0 && !l.ungated(w, offer) {
		return s, 0, false
	}
	return s, policy.PriorityOrDefault(), true
}

// placeAll places tasks of one shape at the least loaded workers, while slots are
// free.
func (l *loop) placeAll(p *Placement, s shape, priority job.Priority, tasks []int) {
	if priority == job.Low && l.lowSuspended.Load() {
		return
	}
	candidates, _ := l.candidates(s, priority, true)
	lesser, lends := len(tasks), l.lends(priority)
	if priority != job.High {
		lesser = l.lesserRoom()
	}
	for _, i := range tasks {
		if len(candidates) == 0 || lesser <= 0 {
			return
		}
		if i < 0 || i >= job.MaxBatch {
			continue // no submit has it
		}
		w := candidates[0]
		w.promised++
		lesser--
		if w.room > 0 {
			w.room--
		}
		p.put(i, w, priority)
		if w.usable() && (lends || w.shares(priority)) {
			heap.Fix(&candidates, 0)
		} else {
			heap.Pop(&candidates)
		}
	}
}

func (p *Placement) put(task int, w *workerState, priority job.Priority) {
	at := 0
	for at < len(p.workers) && p.workers[at] != w {
		at++
	}
	if at == len(p.workers) {
		p.workers, p.held, p.lesser = append(p.workers, w), append(p.held, 0), append(p.lesser, 0)
		p.lives = append(p.lives, fsm.WorkerLife{Name: w.name, Boot: w.boot})
	}
	p.held[at]++
	if priority != job.High {
		p.lesser[at]++
		w.promisedLesser++
	}
	for len(p.to) <= task {
		p.to = append(p.to, 0)
	}
	p.to[task] = at + 1
}
