package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// workerState is a worker in the loop's memory.
type workerState struct {
	name     string
	boot     string // names its present life
	slots    int
	labels   map[string]string
	draining bool
	drainBy  int64 // see fsm.Worker.DrainBy
	lost     bool
	session  Session // nil: not connected
	offers   map[string]bool
	active   map[fsm.TaskRef]*active // of this life
	earlier  map[fsm.TaskRef]*active // of earlier lives: they hold no slot, and end with their lease
	room     int                     // free slots as last reported, where fewer than computed; -1: trust the computation
	suspect  bool                    // it is silent, and work was moved from it: it gets none before it is heard again
	parted   bool                    // its session ended, and it has not come back
	joining  bool                    // its registration is proposed, not yet answered
	lease    time.Duration           // the longest that a leader granted it
	outbox   []Dispatch              // to be sent at the end of the turn
	settled  uint64                  // log index of the state that its session was settled by

	priorities     prioritySet   // that it takes
	lesser         int           // slots held by attempts of less than high priority
	promisedLesser int           // of promised: for less than high priority
	promised       int           // slots held for submits on their way, see Place
	armed          int           // of active: not yet due, so that they hold no slot
	armedLesser    int           // of armed: of less than high priority
	soon           armedHeap     // the armed ones, and some that no longer are
	pace           pace          // of attempts that ended
	doubt          int           // how often the pace is halved for what may be armed
	doubtful       time.Duration // until when room holds whatever else is known, by Mono; 0: it isn't limited
	distrusted     bool          // nothing is armed until it reports again
	kept           int           // slots of it that armed attempts of less than high priority leave free; see keepSlots
	crowded        bool          // none of those is armed until it reports again
	gaveFree       int           // slots that were free when it gave something back last
	gap            int           // between the free slots that it reported last and those that should have been
}

// active is an attempt that a worker holds, or will once its assign commits.
type active struct {
	ref      fsm.AttemptRef // Token is zero until committed
	attempt  uint32
	boot     string // the worker's life that it was assigned to
	due      int64  // of the task, Unix ms
	priority job.Priority
	lesser   bool // counted in workerState.lesser
	armed    bool // not yet due; see workerState.comeDue
	revoked  bool // the worker was asked to give it back
	running  bool
	losing   bool          // a lose is proposed
	sent     time.Duration // when it was last dispatched, by Mono
	missing  time.Duration // when its worker declared first not to hold it, by Mono; 0: it holds it
	reported int64         // when its worker declared first that it has ended, Unix ms; 0: it has not
	drained  time.Duration // when the worker is asked again to give it back, by Mono; 0: it was not asked
	backstop time.Duration // when to kill it, by Mono; 0: never
	// lostAt is when an attempt that goes on without a lease is lost, by Mono; 0:
	// its lease has not ended. See loseEnded.
	lostAt time.Duration
	// stays: it was looked at, and is not moved before its lease ends.
	stays bool
	// unstarted: when its lease ended it was surely not yet due.
	unstarted bool
}

// unused is how many slots hold no attempt that is known of.
func (w *workerState) unused() int { return w.slots - (len(w.active) - w.armed) - w.promised }

func (w *workerState) free() int {
	free := w.unused()
	if w.room >= 0 {
		free = min(free, w.room)
	}
	return free
}

// connected reports whether the worker has a session, as far as is known.
func (w *workerState) connected() bool { return w.session != nil && !gone(w.session) }

// present reports whether the worker takes work.
func (w *workerState) present() bool {
	return w.session != nil && !w.draining && !w.lost && !w.joining && !w.suspect
}

func (w *workerState) usable() bool { return w.present() && w.free() > 0 }

// shares reports whether an attempt of a priority may take a slot without those that
// the worker keeps.
func (w *workerState) shares(p job.Priority) bool {
	return p == job.High || w.lesser+w.promisedLesser < w.slots-w.kept
}

func (l *loop) anyUsable() bool {
	for _, w := range l.workers {
		if w.usable() {
			return true
		}
	}
	return false
}

// fits reports whether the worker may run tasks of a shape and priority.
func (w *workerState) fits(s shape, n *needs, p job.Priority) bool {
	if s.paused || !w.offers[s.offer] || !w.priorities.has(p) || s.sticky && w.name != s.worker {
		return false
	}
	for k, v := range n.selector {
		if w.labels[k] != v {
			return false
		}
	}
	for i := range n.require {
		if !n.require[i].Holds(w.labels) {
			return false
		}
	}
	return true
}

// worker returns the memory of a worker, made from its record where it is new.
func (l *loop) worker(r fsm.Reader, name string) *workerState {
	w := l.workers[name]
	if w == nil {
		w = &workerState{
			name: name, active: map[fsm.TaskRef]*active{}, earlier: map[fsm.TaskRef]*active{}, room: -1,
			lease: l.cfg.LeaseTTL,
		}
		l.workers[name] = w
		if rec, ok := fsm.GetWorker(r, name); ok {
			w.take(&rec)
		}
	}
	return w
}

// hold files an attempt under this life of the worker or the earlier ones.
func (w *workerState) hold(a *active, now int64) {
	if a.boot != w.boot {
		w.earlier[a.ref.Ref] = a
		return
	}
	w.file(a, now)
}

// file files an attempt under this life of the worker.
func (w *workerState) file(a *active, now int64) {
	w.enter(a)
	if a.due > now && !a.running {
		w.setArmed(a)
	}
}

// clear forgets all attempts.
func (w *workerState) clear() {
	for _, a := range w.active {
		w.count(a, false)
	}
	clear(w.active)
	clear(w.earlier)
	w.armed, w.armedLesser, w.soon = 0, 0, nil
}

func (w *workerState) take(rec *fsm.Worker) {
	w.boot, w.slots, w.labels = rec.Boot, rec.Slots, rec.Labels
	w.priorities = setOf(rec.Priorities)
	w.draining, w.drainBy, w.lost = rec.Draining, rec.DrainBy, rec.Lost
	w.lease = max(w.lease, time.Duration(rec.LeaseMS)*time.Millisecond)
}

// recoverWorkers loads workers and what they hold. Every life in state gets a
// lease from now on: the previous leader may have renewed it a moment ago.
func (l *loop) recoverWorkers(r fsm.Reader, old map[string]*workerState) {
	now, mono := l.cfg.Now(), l.cfg.Mono()
	grant := func(b boot, w *workerState) { // leases outlive a rebuild: one that has ended stays so
		if old == nil {
			l.leases.grant(b, mono, w.lease)
		}
	}
	if old == nil {
		l.leases.reset()
	}
	for cursor := ""; ; {
		page, next, err := fsm.ListWorkers(r, cursor, fsm.MaxPage)
		if err != nil {
			l.log.Error("listing workers failed", "error", err)
			return
		}
		for i := range page {
			w := l.worker(r, page[i].Name)
			w.take(&page[i])
			if !w.lost {
				grant(boot{w.name, w.boot}, w)
			}
			if was := old[w.name]; was != nil && was.boot == w.boot && was.session != nil && !gone(was.session) {
				w.session, w.offers, w.pace = was.session, was.offers, was.pace
			} else if was != nil && was.boot == w.boot {
				w.parted = was.parted || was.session != nil
			}
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	for name, was := range old { // the answer to a registration may yet come
		if was.joining {
			l.worker(r, name).joining = true
		}
	}
	for name, w := range l.workers {
		for _, a := range fsm.ListActive(r, name, maxInbox) {
			w.hold(&active{ref: a.AttemptRef, attempt: a.Attempt, boot: a.Boot, running: a.Running, due: a.Due, priority: a.Priority}, now)
			grant(boot{name, a.Boot}, w)
			if t, ok := fsm.GetTask(r, a.Ref); ok && a.Running {
				l.armBackstop(r, w, &t)
			}
		}
	}
	if old != nil {
		l.resend(r)
	}
}

// resend dispatches again what connected workers may not know of, after hints
// were lost. Workers drop what they already hold.
func (l *loop) resend(r fsm.Reader) {
	for _, w := range l.workers {
		if w.session == nil {
			continue
		}
		var items []Dispatch
		for ref, a := range w.active {
			if !a.running && !a.ref.Token.IsZero() {
				items = l.appendDispatch(items, r, ref, a.ref.Token)
			}
		}
		l.send(w, items)
		for _, a := range w.active {
			l.remind(r, w, a)
		}
	}
}

// remind repeats a wish to cancel or to move that the worker may have missed.
func (l *loop) remind(r fsm.Reader, w *workerState, a *active) {
	t, ok := fsm.GetTask(r, a.ref.Ref)
	switch {
	case !ok || t.Token != a.ref.Token:
	case t.CancelRequested:
		l.kill(w, a, KillCancelled)
	case t.Wished() || a.armed && (w.draining || l.isPaused(r, &t)):
		l.revoke(w, a)
	}
}
