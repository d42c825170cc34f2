package scheduler

import (
	"slices"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// expireLeases declares lost what workers held whose lease has ended.
func (l *loop) expireLeases(now int64, mono time.Duration) {
	for _, b := range l.leases.expired(mono, l.cfg.LeaseSlop) {
		w := l.workers[b.worker]
		if w == nil {
			continue
		}
		l.log.Warn("worker's lease ended", "worker", b.worker, "boot", b.id, "attempts", len(w.active)+len(w.earlier))
		if w.boot == b.id {
			w.session = nil
		}
	}
	for _, w := range l.workers {
		l.markLost(w)
		l.loseEnded(w, now, mono)
		l.moveIdempotent(w, now, mono)
	}
}

// markLost proposes to count a worker as lost that has neither a session nor a
// lease. It is called again until state says so. A worker that is registering is
// left alone: it would be marked after it registered.
func (l *loop) markLost(w *workerState) {
	if w.lost || w.joining || w.session != nil || w.boot == "" || l.leases.running(boot{w.name, w.boot}) {
		return
	}
	l.cfg.Log.ProposeAsync(fsm.WorkerState{Term: l.term, Name: w.name, Boot: w.boot}, func(fsm.Result, error) {})
}

// loseEnded proposes to lose the attempts of a worker's lives without a lease.
// It is called again until they are gone, so a failed proposal only costs time.
//
// A worker whose lease ended has killed what it ran, but not what a job lets go
// on without one (on_disconnect: continue). That is lost once it must have met
// its own time-out, with half as much again for safety.
//
// What was armed for a time after the end of the lease never started: the worker
// starts nothing without one. It was over LeaseSlop ago when it is found here.
func (l *loop) loseEnded(w *workerState, now int64, mono time.Duration) {
	var lost, unstarted []fsm.AttemptRef
	ended := now - l.cfg.LeaseSlop.Milliseconds() + clockMargin
	for _, held := range []map[fsm.TaskRef]*active{w.active, w.earlier} {
		for _, a := range held {
			if len(lost)+len(unstarted) == maxLose || a.losing || a.ref.Token.IsZero() {
				continue
			}
			if l.leases.running(boot{w.name, a.boot}) {
				a.lostAt = 0
				continue
			}
			if a.lostAt == 0 {
				a.lostAt, a.unstarted = mono, !a.running && a.due > ended
				if !a.unstarted {
					a.lostAt += l.goesOn(w, a.ref.Ref)
				}
			}
			switch {
			case mono < a.lostAt:
				continue
			case a.unstarted && !a.running: // a report of its start may have been on its way
				unstarted = append(unstarted, a.ref)
			default:
				lost = append(lost, a.ref)
			}
			a.losing = true
		}
	}
	l.proposeLost(w, lost, unstarted, "worker "+w.name+" lost its lease")
}

func (l *loop) proposeLost(w *workerState, lost, unstarted []fsm.AttemptRef, reason string) {
	if len(lost)+len(unstarted) == 0 {
		return
	}
	cmd := fsm.LoseAttempts{
		Term: l.term, Attempts: lost, Unstarted: unstarted, Outcome: job.OutcomeLost,
		Reason: reason,
	}
	name := w.name
	l.cfg.Log.ProposeAsync(cmd, func(res fsm.Result, err error) {
		if refused := notLost(cmd, res, err); len(refused) > 0 {
			l.later(func(l *loop) { l.loseAgain(name, refused) })
		}
	})
}

// notLost returns what a command to lose attempts has left as it was.
func notLost(cmd fsm.LoseAttempts, res fsm.Result, err error) (refused []fsm.AttemptRef) {
	all := slices.Concat(cmd.Attempts, cmd.Unstarted) // as results are
	if err != nil || len(res.Attempts) != len(all) {
		return all
	}
	for i, ref := range all {
		if res.Attempts[i] != nil {
			refused = append(refused, ref)
		}
	}
	return refused
}

// loseAgain lets loseEnded look again at attempts that are held still.
func (l *loop) loseAgain(worker string, refs []fsm.AttemptRef) {
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

// goesOn returns how long an attempt may run on after its lease has ended: one and
// a half of its time-out from when its worker was last heard of, but always for as
// long as one needs that has started at the very end of the lease.
func (l *loop) goesOn(w *workerState, ref fsm.TaskRef) time.Duration {
	r, release := l.read()
	defer release()
	t, ok := fsm.GetTask(r, ref)
	if !ok {
		return 0
	}
	policy, _, _ := l.assignedWith(r, &t)
	if policy.OnDisconnectOrDefault() != job.DisconnectContinue {
		return 0
	}
	timeout, lease := policy.TimeoutOrDefault().Std(), w.lease+l.cfg.LeaseSlop
	return max(timeout*3/2-lease, timeout+policy.GraceOrDefault().Std()+backstopMargin)
}
