package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// dispatch appends what a worker needs to run a task's current attempt.
func (l *loop) dispatch(items []Dispatch, r fsm.Reader, t *fsm.Task) []Dispatch {
	policy, executor, version := l.assignedWith(r, t)
	return append(items, l.newDispatch(r, t, policy, executor, version))
}

func (l *loop) newDispatch(r fsm.Reader, t *fsm.Task, p job.Policy, x job.Executor, version uint64) Dispatch {
	d := Dispatch{Task: *t, Policy: p, Executor: x, JobVersion: version, Nominal: t.Nominal}
	if !t.Run.IsZero() {
		o := l.runs.originOf(r, t.RunRef())
		d.Nominal, d.Schedule = o.nominal, o.schedule
	} else {
		d.Schedule = t.Schedule
	}
	if body, ok := fsm.BodyOf(r, t); ok {
		d.Payload = body.Payload
		if t.Job == "" {
			d.Executor = body.Executor
		}
	}
	return d
}

// assignedWith is policy as of the version that the current attempt was assigned
// with. Its job may have changed since, and what runs, what is recorded and how
// long the leader waits for it must be of one version.
func (l *loop) assignedWith(r fsm.Reader, t *fsm.Task) (job.Policy, job.Executor, uint64) {
	if t.Job == "" {
		return l.policy(r, t)
	}
	at, ok := fsm.GetAttempt(r, t.Ref(), t.Attempt)
	if !ok {
		return l.policy(r, t)
	}
	return l.ofVersion(r, t, at.JobVersion)
}

// ofVersion is policy as of a version of the task's job.
func (l *loop) ofVersion(r fsm.Reader, t *fsm.Task, of uint64) (job.Policy, job.Executor, uint64) {
	policy, executor, version := l.policy(r, t)
	if t.Job == "" || of == version {
		return policy, executor, version
	}
	j, ok := fsm.GetJobVersion(r, t.Namespace, t.Job, of)
	if !ok {
		return policy, executor, version
	}
	return j.Spec.Policy.Merge(t.Policy), j.Spec.Executor, j.Version
}

// appendDispatch is dispatch for a task that is still at the given token.
func (l *loop) appendDispatch(items []Dispatch, r fsm.Reader, ref fsm.TaskRef, token job.Token) []Dispatch {
	t, ok := fsm.GetTask(r, ref)
	if !ok || t.Token != token {
		return items
	}
	return l.dispatch(items, r, &t)
}

// send queues dispatches for a worker; they leave together when the turn's
// messages are handled, or before the next kill.
func (l *loop) send(w *workerState, items []Dispatch) {
	if len(items) == 0 || w.session == nil {
		return
	}
	mono := l.cfg.Mono()
	for i := range items {
		if a := w.active[items[i].Task.Ref()]; a != nil {
			a.sent = mono
			if w.kept > 0 && a.priority != job.High && (a.armed || w.armedLesser > 0) { // else an armed one may take its slot meanwhile
				items[i].MostLesser = w.slots - w.kept
			}
		}
	}
	if len(w.outbox) == 0 {
		l.outgoing = append(l.outgoing, w)
	}
	w.outbox = append(w.outbox, items...)
}

// flush hands queued dispatches to the sessions.
func (l *loop) flush() {
	for _, w := range l.outgoing {
		w.flush(l.term)
	}
	l.outgoing = l.outgoing[:0]
}

func (w *workerState) flush(term uint64) {
	if len(w.outbox) > 0 && w.session != nil {
		w.session.Dispatch(term, w.outbox)
	}
	w.outbox = nil
}

// kill tells a worker to end an attempt, after what it was sent before.
func (l *loop) kill(w *workerState, a *active, reason KillReason) {
	w.flush(l.term)
	w.session.Kill(a.ref, a.attempt, reason)
}

// redispatch sends again what a connected worker should have started long ago:
// a dispatch may be lost although the connection is not. Workers drop what they
// already hold.
func (l *loop) redispatch(mono time.Duration) {
	var r fsm.Reader
	for _, w := range l.workers {
		if w.session == nil {
			continue
		}
		var items []Dispatch
		for ref, a := range w.active {
			if a.running || a.armed || a.losing || a.ref.Token.IsZero() || mono < a.sent+redispatchAfter || len(items) == maxRaise {
				continue
			}
			if r == nil {
				var release func()
				r, release = l.cfg.State.Read()
				defer release()
			}
			a.sent = mono // also where there is nothing to send any more
			items = l.appendDispatch(items, r, ref, a.ref.Token)
		}
		l.send(w, items)
	}
}
