package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// onEvent brings memory in line with what apply reports. Events of tasks carry
// the record after the change.
func (l *loop) onEvent(e *fsm.Event) {
	switch e.Kind {
	case fsm.EventPending:
		l.onPending(e.Task)
	case fsm.EventAssigned:
		l.onAssigned(e)
	case fsm.EventRunning:
		l.onRunning(e)
	case fsm.EventAttemptEnded:
		l.onAttemptEnded(e)
	case fsm.EventEnded:
		l.due.forget(refOf(e.Task))
	case fsm.EventCancelWanted:
		l.onCancelWanted(e)
	case fsm.EventWorkerChanged:
		l.onWorkerChanged(e.Worker)
	case fsm.EventJobChanged:
		l.onJobChanged()
	}
}

func refOf(t *fsm.Task) fsm.TaskRef { return fsm.TaskRef{Namespace: t.Namespace, ID: t.ID} }

// onPending places a task; one that is due goes straight to its queue, without
// reading back the record that the event carries.
func (l *loop) onPending(t *fsm.Task) {
	ref, p := refOf(t), t.Policy.Priority
	l.due.forget(ref)
	if t.Due > l.cfg.Now() {
		l.due.add(ref, p, t.Due)
		return
	}
	it := &item{ref: ref, priority: p, due: t.Due, version: t.Version}
	switch {
	case it.key().Compare(l.due.frontier[p]) >= 0:
		return
	case l.due.count[p] >= l.due.max:
		l.due.frontier[p] = it.key()
		return
	}
	l.due.known[ref] = it
	l.due.count[p]++
	var s shape
	if t.Job != "" {
		r, release := l.cfg.State.Read()
		s = l.shape(r, t)
		release()
	} else {
		s = l.shape(nil, t)
	}
	l.queues.push(it, s)
	l.dirty = true
}

// onAssigned dispatches a committed attempt, whoever proposed it.
func (l *loop) onAssigned(e *fsm.Event) {
	ref := refOf(e.Task)
	l.due.forget(ref)
	r, release := l.cfg.State.Read()
	defer release()
	w := l.worker(r, e.Worker)
	a := w.active[ref]
	if a == nil {
		a = &active{}
		w.active[ref] = a
	}
	bootID := a.boot
	if bootID == "" {
		bootID = w.boot
	}
	*a = active{ref: fsm.AttemptRef{Ref: ref, Token: e.Token}, attempt: e.Task.Attempt, boot: bootID}
	l.send(w, l.dispatch(nil, r, e.Task))
}

func (l *loop) onRunning(e *fsm.Event) {
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	ref := refOf(e.Task)
	if a := w.active[ref]; a != nil && a.ref.Token == e.Token {
		a.running = true
		r, release := l.cfg.State.Read()
		l.armBackstop(r, w, ref)
		release()
	}
}

func (l *loop) onAttemptEnded(e *fsm.Event) {
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	ref := refOf(e.Task)
	if a := w.earlier[ref]; a != nil && a.ref.Token == e.Token {
		delete(w.earlier, ref)
	}
	a := w.active[ref]
	if a == nil || a.ref.Token != e.Token {
		return
	}
	delete(w.active, ref)
	if w.room >= 0 && e.Outcome != job.OutcomeRefused {
		w.room++
	}
	if a.losing && w.session != nil { // it came back before it was lost
		w.session.Kill(a.ref, a.attempt, KillStale)
	}
	l.dirty = true
}

func (l *loop) onCancelWanted(e *fsm.Event) {
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	if a := w.active[refOf(e.Task)]; a != nil && w.session != nil && a.ref.Token == e.Token {
		a.cancelled = true
		w.session.Kill(a.ref, a.attempt, KillCancelled)
	}
}

func (l *loop) onWorkerChanged(name string) {
	r, release := l.cfg.State.Read()
	defer release()
	w := l.worker(r, name)
	rec, ok := fsm.GetWorker(r, name)
	if !ok {
		delete(l.workers, name)
		return
	}
	w.take(&rec)
	l.dirty = true
}

// onJobChanged forgets what was computed from definitions: the cache, and the
// shapes of tasks that wait.
func (l *loop) onJobChanged() {
	clear(l.jobs)
	for _, p := range job.Priorities {
		for _, q := range l.queues.heads(p) {
			for q.Len() > 0 {
				l.due.raise[p] = append(l.due.raise[p], q.pop())
			}
		}
	}
}

// dispatch appends what a worker needs to run a task's current attempt.
func (l *loop) dispatch(items []Dispatch, r fsm.Reader, t *fsm.Task) []Dispatch {
	d := Dispatch{Task: *t}
	d.Policy, d.Executor, d.JobVersion = l.policy(r, t)
	if t.HasBody {
		body, ok := fsm.GetBody(r, refOf(t))
		if !ok {
			return items
		}
		d.Payload = body.Payload
		if t.Job == "" {
			d.Executor = body.Executor
		}
	}
	return append(items, d)
}

// appendDispatch is dispatch for a task that is still at the given token.
func (l *loop) appendDispatch(items []Dispatch, r fsm.Reader, ref fsm.TaskRef, token job.Token) []Dispatch {
	t, ok := fsm.GetTask(r, ref)
	if !ok || t.Token != token {
		return items
	}
	return l.dispatch(items, r, &t)
}

func (l *loop) send(w *workerState, items []Dispatch) {
	if len(items) > 0 && w.session != nil {
		w.session.Dispatch(l.term, items)
	}
}

// expireLeases declares lost what workers held whose lease has ended.
func (l *loop) expireLeases(mono time.Duration) {
	for _, b := range l.leases.expired(mono - l.cfg.LeaseTTL - l.cfg.LeaseSlop) {
		w := l.workers[b.worker]
		if w == nil {
			continue
		}
		l.log.Warn("worker's lease ended", "worker", b.worker, "boot", b.id, "attempts", len(w.active)+len(w.earlier))
		if w.boot == b.id {
			w.session = nil
			l.cfg.Log.ProposeAsync(fsm.WorkerState{Term: l.term, Name: b.worker}, func(fsm.Result, error) {})
		}
	}
	for _, w := range l.workers {
		l.loseEnded(w, mono)
	}
}

// loseEnded proposes to lose the attempts of a worker's lives without a lease.
// It is called again until they are gone, so a failed proposal only costs time.
//
// A worker whose lease ended has killed what it ran, but not what a job lets go
// on without one (on_disconnect: continue). That is lost once it must have met
// its own time-out, with half as much again for safety.
func (l *loop) loseEnded(w *workerState, mono time.Duration) {
	var lost []fsm.AttemptRef
	for _, held := range []map[fsm.TaskRef]*active{w.active, w.earlier} {
		for _, a := range held {
			if len(lost) == maxLose || a.losing || a.ref.Token.IsZero() {
				continue
			}
			if l.leases.running(boot{w.name, a.boot}) {
				a.lostAt = 0
				continue
			}
			if a.lostAt == 0 {
				a.lostAt = mono + l.goesOn(a.ref.Ref)
			}
			if mono >= a.lostAt {
				a.losing = true
				lost = append(lost, a.ref)
			}
		}
	}
	if len(lost) == 0 {
		return
	}
	cmd := fsm.LoseAttempts{
		Term: l.term, Attempts: lost, Outcome: job.OutcomeLost,
		Reason: "worker " + w.name + " lost its lease",
	}
	name := w.name
	l.cfg.Log.ProposeAsync(cmd, func(_ fsm.Result, err error) {
		if err == nil {
			return
		}
		l.later(func(l *loop) { l.notLost(name, lost) })
	})
}

func (l *loop) notLost(worker string, refs []fsm.AttemptRef) {
	w := l.workers[worker]
	if w == nil {
		return
	}
	for _, ref := range refs {
		for _, a := range []*active{w.active[ref.Ref], w.earlier[ref.Ref]} {
			if a != nil && a.ref == ref {
				a.losing = false
			}
		}
	}
}

// goesOn returns how long an attempt may run on after its lease has ended.
func (l *loop) goesOn(ref fsm.TaskRef) time.Duration {
	r, release := l.cfg.State.Read()
	defer release()
	t, ok := fsm.GetTask(r, ref)
	if !ok {
		return 0
	}
	policy, _, _ := l.policy(r, &t)
	if policy.OnDisconnectOrDefault() != job.DisconnectContinue {
		return 0
	}
	return policy.TimeoutOrDefault().Std()*3/2 + policy.GraceOrDefault().Std()
}

// armBackstop notes when the leader itself asks for the end of an attempt that
// its worker should have ended: time-out, grace and 1.5 × the heartbeat.
func (l *loop) armBackstop(r fsm.Reader, w *workerState, ref fsm.TaskRef) {
	a := w.active[ref]
	t, ok := fsm.GetTask(r, ref)
	if a == nil || !ok {
		return
	}
	policy, _, _ := l.policy(r, &t)
	if timeout := policy.TimeoutOrDefault().Std(); timeout > 0 {
		a.backstop = l.cfg.Mono() + timeout + policy.GraceOrDefault().Std() + backstopMargin
	}
}

// backstop asks workers to end attempts that are past their time-out.
func (l *loop) backstop(mono time.Duration) {
	for _, w := range l.workers {
		if w.session == nil {
			continue
		}
		for _, a := range w.active {
			if a.backstop != 0 && mono >= a.backstop {
				a.backstop = mono + backstopRepeat
				l.log.Warn("attempt is past its time-out; asking the worker to end it",
					"task", a.ref.Ref.ID, "worker", w.name, "attempt", a.attempt)
				w.session.Kill(a.ref, a.attempt, KillTimeout)
			}
		}
	}
}
