package scheduler

import (
	"math"
	"time"

	"github.com/axd-project/axd/fsm"
)

// timeOut proposes to end the pending tasks whose deadline has passed. It goes on
// from the first row that may be left, since those before were deleted and cost
// time to pass over.
func (l *loop) timeOut(now int64) {
	if l.timingOut || l.deadlinesFrom > now {
		return
	}
	r, release := l.cfg.State.Read()
	defer release()
	refs, next := fsm.ScanDeadlines(r, l.deadlinesFrom, now+1, maxTimeOut)
	if len(refs) == 0 {
		l.deadlinesFrom = next
		return
	}
	cmd := fsm.TimeOut{Term: l.term}
	for _, ref := range refs {
		if t, ok := fsm.GetTask(r, ref); ok {
			cmd.Tasks = append(cmd.Tasks, fsm.TaskVersion{Ref: ref, Version: t.Version})
		}
	}
	l.timingOut = true
	more := next <= now
	l.cfg.Log.ProposeAsync(cmd, func(_ fsm.Result, err error) {
		l.later(func(l *loop) {
			l.timingOut = false
			if more && err == nil {
				l.nextHouse = 0
			}
		})
	})
}

// sawDeadline makes the next look find a deadline that has passed already.
func (l *loop) sawDeadline(t *fsm.Task) {
	if at := t.Deadline(); at != 0 && at < l.deadlinesFrom {
		l.deadlinesFrom = at
	}
}

// armBackstop notes when the leader itself asks for the end of an attempt that
// its worker should have ended: after time-out, grace and backstopMargin.
func (l *loop) armBackstop(r fsm.Reader, w *workerState, t *fsm.Task) {
	a := w.active[t.Ref()]
	if a == nil {
		return
	}
	policy, _, _ := l.assignedWith(r, t)
	limit := policy.TimeoutOrDefault().Std()
	if t.EndBy != 0 {
		left := max(time.Duration(t.EndBy-l.cfg.Now())*time.Millisecond, time.Millisecond)
		if limit == 0 || left < limit {
			limit = left
		}
	}
	if limit > 0 {
		margin := l.cfg.Mono() + policy.GraceOrDefault().Std() + backstopMargin
		a.backstop = margin + min(limit, math.MaxInt64-margin)
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
					"task_id", a.ref.Ref.ID, "worker", w.name, "attempt", a.attempt)
				l.kill(w, a, KillTimeout)
			}
		}
	}
}
