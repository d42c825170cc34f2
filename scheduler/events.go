package scheduler

import (
	"maps"
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/mutant"
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
		l.due.forget(e.Task.Ref())
	case fsm.EventCancelWanted:
		l.onCancelWanted(e)
	case fsm.EventRevokeWanted:
		l.onRevokeWanted(e)
	case fsm.EventWorkerChanged:
		l.onWorkerChanged(e.Worker)
	case fsm.EventRunOwed:
		l.continueRun(e.Run.Ref())
	case fsm.EventBreaker:
		l.onBreaker(e.Breaker)
	case fsm.EventScheduleAct:
		l.nextHouse = 0
	case fsm.EventSchedule:
		l.onSchedule(e.Schedule)
	case fsm.EventSettings:
		r, release := l.read()
		l.readSettings(r)
		release()
		l.dirty, l.recount = true, true
	case fsm.EventBroadcast:
		l.onBroadcast(e.Task)
	case fsm.EventStepWanted:
		l.wakeJudge()
	case fsm.EventJobChanged:
		l.onJobChanged(jobKey{e.Namespace, e.Job})
	}
}

// onPending places a task; one that is due or can be armed goes straight to its
// queue, without reading back the record that the event carries.
func (l *loop) onPending(t *fsm.Task) {
	ref, p := t.Ref(), t.Policy.Priority
	l.due.forget(ref)
	l.sawDeadline(t)
	now := l.cfg.Now()
	if t.Due > now+l.due.horizon {
		l.due.add(t)
		return
	}
	it := &item{ref: ref, priority: p, due: t.Due, hint: t.FairHint(), version: t.Version, job: jobOf(t)}
	if !l.due.room(it) {
		return
	}
	l.due.hold(it)
	var s shape
	if t.Job != "" || len(l.gates) > 0 {
		r, release := l.read()
		s = l.shape(r, t)
		release()
	} else {
		s = l.shape(nil, t)
	}
	if t.Due > now {
		l.expect(it, s)
	} else {
		l.wait(it, s, now)
	}
}

// onAssigned dispatches a committed attempt, whoever proposed it.
func (l *loop) onAssigned(e *fsm.Event) {
	ref := e.Task.Ref()
	l.due.forget(ref)
	r, release := l.read()
	defer release()
	if e.Task.Holds != "" || len(l.limits.holders) > 0 {
		l.held(r, e.Task)
	}
	w := l.worker(r, e.Worker)
	a := w.active[ref]
	if l.at <= w.settled { // whatever has become of it, settle knew
		if a != nil && a.ref.Token.IsZero() {
			w.drop(a)
		}
		return
	}
	if a != nil && !a.ref.Token.IsZero() && a.ref.Token != e.Token {
		w.drop(a)
		a = nil
	}
	if a == nil {
		a = &active{ref: fsm.AttemptRef{Ref: ref}, boot: w.boot, due: e.Task.Due, priority: e.Task.Policy.Priority}
		w.hold(a, l.cfg.Now())
		if w.room > 0 && !a.armed {
			w.room--
		}
	}
	a.ref.Token, a.attempt = e.Token, e.Task.Attempt
	// No later entry can have ended it: nobody but settle has sent it yet.
	policy, executor, version := l.ofVersion(r, e.Task, e.JobVersion)
	l.send(w, []Dispatch{l.newDispatch(r, e.Task, policy, executor, version)})
}

func (l *loop) onRunning(e *fsm.Event) {
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	ref := e.Task.Ref()
	if a := w.active[ref]; a != nil && a.ref.Token == e.Token {
		a.running = true
		r, release := l.read()
		l.armBackstop(r, w, e.Task)
		release()
	}
}

func (l *loop) onAttemptEnded(e *fsm.Event) {
	ref := e.Task.Ref()
	l.passed(ref)
	if len(l.limits.holders) > 0 {
		l.giveBack(ref)
	}
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	if a := w.earlier[ref]; a != nil && a.ref.Token == e.Token {
		delete(w.earlier, ref)
	}
	a := w.active[ref]
	if a == nil || a.ref.Token != e.Token {
		return
	}
	l.ended(w, a, e.Outcome)
	if a.losing && w.session != nil { // it came back before it was lost
		l.kill(w, a, KillStale)
	}
	l.dirty = true
}

// ended frees what an attempt held.
func (l *loop) ended(w *workerState, a *active, o job.Outcome) {
	held := !a.armed
	w.drop(a)
	switch {
	case o == job.OutcomeRefused && !a.revoked && w.kept > 0 && w.gaveFree > 0 && a.priority != job.High:
		w.crowded = true // its free slots are kept for others, who find them all the same
		w.doubt = min(w.doubt+1, maxDoubt)
		return
	case o == job.OutcomeRefused && !a.revoked:
		l.refused(w)
		return
	case o != job.OutcomeRefused:
		w.pace.count()
	}
	if held && w.room >= 0 {
		w.room++
	}
}

// onRevokeWanted asks for an armed attempt, since its task was moved.
func (l *loop) onRevokeWanted(e *fsm.Event) {
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	if a := w.active[e.Task.Ref()]; a != nil && a.ref.Token == e.Token {
		l.revoke(w, a)
	}
}

func (l *loop) onCancelWanted(e *fsm.Event) {
	w := l.workers[e.Worker]
	if w == nil {
		return
	}
	if a := w.active[e.Task.Ref()]; a != nil && w.session != nil && a.ref.Token == e.Token && !(mutant.CancelUnsent && a.armed) {
		l.kill(w, a, KillCancelled)
	}
}

func (l *loop) onWorkerChanged(name string) {
	r, release := l.read()
	defer release()
	w := l.worker(r, name)
	rec, ok := fsm.GetWorker(r, name)
	if !ok {
		delete(l.workers, name)
		l.retryUnfit(func(k kind, _ job.Priority) bool { return k.shape.sticky })
		return
	}
	if rec.Draining && !w.draining {
		l.revokeArmed(w)
	}
	w.take(&rec)
	l.retryFitting()
	l.dirty, l.recount = true, true
}

// onJobChanged forgets what was computed from a definition: the cached job, and
// the shapes of its tasks that wait.
func (l *loop) onJobChanged(key jobKey) {
	delete(l.jobs, key)
	l.retryUnfit(func(k kind, _ job.Priority) bool { return k.job == key })
	l.reshape(func(_ *queue, it *item) bool { return it.job == key })
	l.forgetGroups(key)
	l.revokePaused(key)
}

// revokePaused takes back what is armed of a job, where that is paused.
func (l *loop) revokePaused(key jobKey) {
	r, release := l.read()
	defer release()
	if j := l.job(r, key.namespace, key.name); j == nil || j.Paused == nil {
		return
	}
	for _, w := range l.workers {
		var armed []*active
		for ref, a := range w.active {
			if !a.armed || a.ref.Token.IsZero() {
				continue
			}
			if t, ok := fsm.GetTask(r, ref); ok && jobOf(&t) == key {
				armed = append(armed, a)
			}
		}
		l.revoke(w, armed...)
	}
}

// takeOut takes tasks out of their queues.
func (q *readyQueues) takeOut(p job.Priority, which func(*queue, *item) bool) (taken []*item) {
	for _, queue := range append(q.heads(p), slices.Collect(maps.Values(q.hidden[p]))...) {
		for _, it := range slices.Clone(queue.items) {
			if which(queue, it) {
				queue.remove(it)
				taken = append(taken, it)
			}
		}
	}
	return taken
}
