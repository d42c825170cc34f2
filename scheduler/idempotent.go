package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// suspectAfter is how long a worker may be silent before it is suspect: two of its
// heartbeats, of which there are four in a lease at least.
func (l *loop) suspectAfter() time.Duration { return min(suspectSilence, l.cfg.LeaseTTL/2) }

// moveIdempotent proposes to lose those attempts of silent lives of a worker whose
// tasks may have another one beside them. All others wait for the end of the lease.
func (l *loop) moveIdempotent(w *workerState, now int64, mono time.Duration) {
	if w.joining || len(w.active)+len(w.earlier) == 0 {
		return
	}
	after := l.suspectAfter()
	var moved []fsm.AttemptRef
	for _, held := range []map[fsm.TaskRef]*active{w.active, w.earlier} {
		for _, a := range held {
			if a.stays || a.losing || a.ref.Token.IsZero() || a.due > now || len(moved) == maxLose {
				continue
			}
			silent, running := l.leases.silent(boot{w.name, a.boot}, mono)
			if !running || silent < after {
				continue
			}
			if !l.mayMove(a, now) {
				a.stays = true
				continue
			}
			a.losing = true
			moved = append(moved, a.ref)
			w.suspect = w.suspect || a.boot == w.boot
		}
	}
	if len(moved) > 0 {
		l.log.Warn("worker is silent; its idempotent tasks are moved", "worker", w.name, "tasks", len(moved))
		l.proposeLost(w, moved, nil, "it was silent, and the job is idempotent")
	}
}

// mayMove tells whether a task takes another attempt beside one that may go on.
// What has no retry left, or is to end, loses nothing by waiting.
func (l *loop) mayMove(a *active, now int64) bool {
	r, release := l.read()
	defer release()
	t, ok := fsm.GetTask(r, a.ref.Ref)
	if !ok || t.Token != a.ref.Token || t.CancelRequested || t.EndBy != 0 && t.EndBy <= now {
		return false
	}
	policy, executor, _ := l.assignedWith(r, &t)
	if !policy.IsIdempotent() {
		return false
	}
	retry := policy.RetryOrDefault()
	final := retry.NonRetryable != nil && retry.NonRetryable.Matches(executor.Kind(), nil, job.ErrorClass(job.OutcomeLost, ""))
	return t.Retries < retry.Max() && !final
}
