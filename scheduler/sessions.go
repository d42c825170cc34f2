package scheduler

import (
	"context"
	"maps"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Session is a worker's connection. Its methods never block; what can't be
// queued closes the connection, and the worker declares itself anew.
type Session interface {
	Dispatch(term uint64, items []Dispatch)
	Kill(ref fsm.AttemptRef, attempt uint32, reason KillReason)
	// Revoke asks for armed attempts to be given back; of those that have started
	// nothing comes of it.
	Revoke(attempts []Held)
	// Gone is closed when the connection has ended.
	Gone() <-chan struct{}
}

// KillReason tells a worker why to end an attempt.
type KillReason string

// The reasons.
const (
	KillCancelled KillReason = "cancelled" // somebody cancelled the task
	KillTimeout   KillReason = "timeout"   // the leader's back-stop
	KillDrained   KillReason = "drain"     // its worker drains, and the deadline has come: it is given back
	KillStale     KillReason = "stale"     // its token is no longer valid
)

// Dispatch is one committed attempt for a worker to run.
type Dispatch struct {
	Task       fsm.Task
	Executor   job.Executor
	Payload    []byte
	Policy     job.Policy // the job's and the task's, merged
	JobVersion uint64
	Schedule   string // that fired the task, or its run
	Nominal    int64  // that this was planned for, Unix ms; 0: none
	// MostLesser is how many attempts of less than high priority may hold slots of the
	// worker with this one, where it or others of them are armed; 0: no limit.
	MostLesser int
}

// Hello is what a worker says of itself when its session begins.
type Hello struct {
	Worker fsm.RegisterWorker // Term is filled in by the loop
	Offers []string           // "exec", "http", "handler:NAME"
	Held   []Held
}

// Held is an attempt that the worker knows.
type Held struct {
	fsm.AttemptRef
	Attempt  uint32
	Finished bool // its result follows
}

// Attach opens a worker's session: it registers the worker in state and settles
// what the worker holds against what state says. The caller has confirmed
// leadership after the hello came. The answer is the term; the worker counts
// its lease from when it sent the hello.
func (s *Scheduler) Attach(ctx context.Context, session Session, h Hello) (term uint64, err error) {
	type answer struct {
		term uint64
		err  error
	}
	out := make(chan answer, 1)
	reply := func(term uint64, err error) { out <- answer{term, err} }
	if !s.inbox.put(func(l *loop) { l.attach(session, h, reply) }) {
		return 0, job.Errorf(job.CodeNoLeader, "this server does not lead; ask the leader")
	}
	select {
	case a := <-out:
		return a.term, a.err
	case <-ctx.Done():
		return 0, job.Errorf(job.CodeNoLeader, "the session could not be registered in time; try again")
	case <-session.Gone():
		return 0, job.Errorf(job.CodeNoLeader, "the connection ended")
	}
}

func (l *loop) attach(session Session, h Hello, reply func(uint64, error)) {
	r, release := l.read()
	w := l.worker(r, h.Worker.Name)
	release()
	if w.session != nil && w.boot != h.Worker.Boot && !gone(w.session) {
		reply(0, job.Conflict("name", "another worker of this name is connected; choose another --name, or stop it",
			h.Worker.Name))
		return
	}
	if w.joining {
		reply(0, job.Errorf(job.CodeOverloaded, "this worker's registration is under way; try again"))
		return
	}
	w.session, w.outbox, w.joining = nil, nil, true
	cmd := h.Worker
	cmd.Term, cmd.LeaseMS = l.term, l.cfg.LeaseTTL.Milliseconds()
	l.cfg.Log.ProposeAsync(cmd, func(res fsm.Result, err error) {
		term := l.term
		ended := job.Errorf(job.CodeNoLeader, "leadership ended; ask the new leader")
		ok := l.inbox.put(func(l *loop) {
			if l.term != term {
				reply(0, ended)
				return
			}
			l.attached(session, h, res, err, reply)
		})
		if !ok {
			reply(0, ended)
		}
	})
}

// attached runs once the registration is committed.
func (l *loop) attached(session Session, h Hello, res fsm.Result, err error, reply func(uint64, error)) {
	r, release := l.read()
	defer release()
	w := l.worker(r, h.Worker.Name)
	w.joining = false
	if err == nil && res.Err != nil {
		err = res.Err
	}
	if rec, ok := fsm.GetWorker(r, w.name); ok {
		w.take(&rec)
	}
	if w.boot == h.Worker.Boot && !w.lost { // also where the session fails: this life may end unheard of
		l.leases.grant(boot{w.name, w.boot}, l.cfg.Mono(), w.lease)
	}
	switch {
	case err != nil:
	case gone(session):
		err = job.Errorf(job.CodeNoLeader, "the connection ended")
	case w.boot != h.Worker.Boot || w.lost: // something was applied after it
		err = job.Errorf(job.CodeNoLeader, "the registration was overtaken; say hello again")
	}
	if err != nil {
		reply(0, err)
		return
	}
	w.session, w.room, w.suspect, w.parted = session, -1, false, false
	w.offers = make(map[string]bool, len(h.Offers))
	for _, o := range h.Offers {
		w.offers[o] = true
	}
	l.settle(r, w, h.Held)
	l.retryFitting()
	l.dirty, l.recount = true, true
	reply(l.term, nil)
}

// settle compares what the worker declares with what state says now: since the
// registration, results may have come over the old connection. What only the
// worker knows is stale: it is told to end it. What only state knows was never
// received: it is sent again with the same token, unless it belongs to an
// earlier life of the worker, whose lease must end first.
func (l *loop) settle(r fsm.Reader, w *workerState, held []Held) {
	known := make(map[fsm.AttemptRef]Held, len(held))
	for _, h := range held {
		known[h.AttemptRef] = h
	}
	before := maps.Clone(w.active)
	now := l.cfg.Now()
	w.clear()
	w.settled = fsm.ReadInfo(r).Applied
	for _, a := range before {
		a.armed = false
		if a.ref.Token.IsZero() { // its assign is in flight
			w.file(a, now)
		}
	}
	var again []Dispatch
	for _, a := range fsm.ListActive(r, w.name, maxInbox) {
		entry := &active{ref: a.AttemptRef, attempt: a.Attempt, boot: a.Boot, running: a.Running, due: a.Due, priority: a.Priority}
		if was := before[a.Ref]; was != nil && was.ref == entry.ref {
			entry = was
			entry.boot = a.Boot
		}
		h, ok := known[a.AttemptRef]
		delete(known, a.AttemptRef)
		if ok && a.Boot != w.boot && h.adopted(entry) {
			l.adopt(r, w, entry, now)
		} else {
			w.hold(entry, now)
		}
		entry.declared(h, now)
		switch {
		case ok && !h.Finished && a.Boot == fsm.RebasedBoot:
			l.kill(w, entry, KillStale) // the state is of before it, and gives the task another attempt
		case ok && !h.Finished:
			l.remind(r, w, entry)
		case !ok && a.Boot == w.boot:
			again = l.appendDispatch(again, r, a.Ref, a.Token)
		}
	}
	for _, h := range known {
		if !h.Finished {
			l.kill(w, &active{ref: h.AttemptRef, attempt: h.Attempt}, KillStale)
		}
	}
	l.send(w, again)
	for i := range again { // the wish may be older than the session
		l.remind(r, w, w.active[again[i].Task.Ref()])
	}
}

// adopted tells that a life of a worker has what an earlier one began: a command that
// went on without it.
func (h Held) adopted(a *active) bool { return !h.Finished && !a.losing && a.boot != fsm.RebasedBoot }

// adopt files an attempt of an earlier life under the present one.
func (l *loop) adopt(r fsm.Reader, w *workerState, a *active, now int64) {
	delete(w.earlier, a.ref.Ref)
	a.boot, a.lostAt = w.boot, 0
	w.hold(a, now)
	if t, ok := fsm.GetTask(r, a.ref.Ref); ok && a.running {
		l.armBackstop(r, w, &t)
	}
}

// declared notes what a worker says of an attempt that it holds.
func (a *active) declared(h Held, now int64) {
	switch {
	case !h.Finished:
		a.reported = 0
	case a.reported == 0:
		a.reported = now
	}
}

func gone(s Session) bool {
	select {
	case <-s.Gone():
		return true
	default:
		return false
	}
}

// Detach tells that a session's connection has ended. The worker's attempts go
// on until its lease ends.
func (s *Scheduler) Detach(worker string, session Session) {
	s.inbox.put(func(l *loop) {
		if w := l.workers[worker]; w != nil && w.session == session {
			w.session, w.outbox, w.parted = nil, nil, true
		}
	})
}

// Renew extends the lease of a worker's life. The caller has confirmed
// leadership after the heartbeat came, and answers it only where Renew is true.
func (s *Scheduler) Renew(worker, bootID string) bool {
	return s.leases.renew(boot{worker, bootID}, s.cfg.Mono())
}

// Heartbeat tells the free slots that a worker reported regularly.
func (s *Scheduler) Heartbeat(worker string, free int) {
	s.inbox.put(func(l *loop) {
		if w := l.workers[worker]; w != nil {
			w.suspect = false
			w.comeDue(l.cfg.Now())
			l.reported(w, free)
		}
	})
}

// Room tells the free slots that a worker reported when it gave something back.
func (s *Scheduler) Room(worker string, free int) {
	s.inbox.put(func(l *loop) {
		if w := l.workers[worker]; w != nil {
			w.comeDue(l.cfg.Now())
			w.gaveFree = free
			l.trustRoom(w, free)
		}
	})
}

func (l *loop) trustRoom(w *workerState, free int) {
	w.room, w.doubtful = -1, 0
	if free < w.free() {
		w.room = free
	} else {
		l.dirty = true
	}
}
