package worker

import (
	"container/heap"
	"sync"
	"time"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/rpc"
)

const startedDelay = 200 * time.Millisecond // an attempt that ends sooner tells its start with its result

// watch looks after the attempts that run: it tells the leader of those that run
// for a while, and stops those of this process whose time is over. Commands are
// the supervisor's to stop.
type watch struct {
	alarm alarm

	mu      sync.Mutex
	queue   queue[*watched]
	alarmAt time.Duration
}

// watched is an attempt under watch. It belongs to the watch's lock.
type watched struct {
	a       *attempt
	place   int
	at      time.Duration // when it is looked at next: the soonest of tell, timeout and quiet
	tell    time.Duration // when the leader is told; never: it was
	timeout time.Duration // when it is stopped; never: it has no time-out, or the supervisor stops it
	silence time.Duration // how long it may be without heartbeat
	quiet   time.Duration // when that is looked at; never: it need not beat, or beats to the supervisor
	grace   time.Duration
	leased  bool // it is stopped before the lease ends
	stopped bool
}

func (e *watched) wakes() time.Duration { return e.at }

func (e *watched) moved(place int) { e.place = place }

// add begins to watch an attempt that runs since a local instant.
func (w *watch) add(a *attempt, started time.Duration, lease *lease) {
	e := &a.watched
	*e = watched{a: a, tell: started + startedDelay, timeout: never, quiet: never}
	if a.executor.Exec == nil {
		if a.limit.timeout > 0 {
			e.timeout = later(started, a.limit.timeout)
		}
		if e.silence = time.Duration(a.item.HeartbeatMS) * time.Millisecond; e.silence > 0 {
			e.quiet = started + e.silence
			a.beat.Store(int64(started))
		}
		e.leased, e.grace = !a.item.Continue, time.Duration(a.item.GraceMS)*time.Millisecond
	}
	e.at = min(e.tell, e.timeout, e.quiet)
	w.mu.Lock()
	defer w.mu.Unlock()
	heap.Push(&w.queue, e)
	at := e.at
	if e.leased {
		at = min(at, lease.half())
	}
	w.set(at)
}

func (w *watch) remove(a *attempt) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if a.watched.a != nil {
		heap.Remove(&w.queue, a.watched.place)
		a.watched.a = nil
	}
}

func (w *watch) set(at time.Duration) {
	if at < w.alarmAt {
		w.alarmAt = at
		w.alarm.set(at)
	}
}

// stopping is an attempt to be stopped, and why.
type stopping struct {
	a      *attempt
	reason stopReason
}

// look gives the attempts that have run for long enough to be told, and those to
// be stopped, and sets the alarm to the next look.
func (w *watch) look(now time.Duration, lease *lease) (tell []*attempt, stop []stopping) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.queue.next() <= now {
		e := w.queue[0]
		if now >= e.tell {
			tell = append(tell, e.a)
			e.tell = never
		}
		if now >= e.timeout {
			stop = append(stop, stopping{e.a, e.a.limit.reason()})
			e.stopped, e.timeout = true, never
		}
		if now >= e.quiet {
			e.quiet = time.Duration(e.a.beat.Load()) + e.silence
			if now >= e.quiet {
				stop = append(stop, stopping{e.a, stopSilent})
				e.stopped, e.quiet = true, never
			}
		}
		e.at = min(e.tell, e.timeout, e.quiet)
		heap.Fix(&w.queue, 0)
	}
	next := w.queue.next()
	half := lease.half()
	for _, e := range w.queue {
		if !e.leased || e.stopped || mutant.LeaseIgnored {
			continue
		}
		if now < half { // the usual case: no attempt is near the lease's end
			next = min(next, half)
			break
		}
		term, _ := lease.ends(e.grace)
		if now >= term {
			stop = append(stop, stopping{e.a, stopLease})
			e.stopped = true
		} else {
			next = min(next, term)
		}
	}
	w.alarmAt = never
	w.set(next)
	return tell, stop
}

// keepWatch looks whenever the watch's alarm goes off.
func (w *Worker) keepWatch() {
	for w.watch.alarm.wait() {
		tell, stop := w.watch.look(w.cfg.Clock(), &w.lease)
		for _, s := range stop {
			w.table.stop(s.a, s.reason)
		}
		w.tellStarted(tell)
	}
}

// tellStarted tells the leader that attempts run, and the journal of those that
// would vanish with this process.
func (w *Worker) tellStarted(tell []*attempt) {
	if len(tell) == 0 {
		return
	}
	items := w.table.told(tell, w.journal)
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if s != nil {
		s.notifyStarted(items)
	}
}

// told marks attempts as told to the leader, those that are not over.
func (t *table) told(tell []*attempt, j *journal) []rpc.StartedItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	var items []rpc.StartedItem
	var inProcess []rpc.Ref
	for _, a := range tell {
		if a.over || t.attempts[keyOf(a.item.Ref)] != a {
			continue
		}
		a.told = true
		items = append(items, rpc.StartedItem{Ref: a.item.Ref, AtMS: a.started})
		if a.executor.Exec == nil {
			inProcess = append(inProcess, a.item.Ref)
		}
	}
	if j != nil && len(inProcess) > 0 {
		j.note(inProcess) // under the lock: before the journal is given any of their results
	}
	return items
}
