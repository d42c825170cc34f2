package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// awaitOldLeases lets nothing start for a lease's time after a restore. What the
// replaced state, or the lost end of its log, had given to workers isn't in this
// one: a task that waits here may still run at a worker that is cut off. By then
// the worker has ended it.
func (l *loop) awaitOldLeases(r fsm.Reader, now int64) {
	o, ok := fsm.ReadOrigin(r)
	if !ok {
		return
	}
	lease := (l.cfg.LeaseTTL + l.cfg.LeaseSlop).Milliseconds()
	left := min(o.At+lease-now, lease) // the restore may have been made by another clock
	if left > 0 {
		l.restored = l.cfg.Mono() + time.Duration(left)*time.Millisecond
		l.nextMatch = max(l.nextMatch, l.restored)
	}
}

func explainRestored(l *loop, q *asked) {
	if q.task.State != job.Pending || q.mono >= l.restored {
		return
	}
	q.add(job.Reason{
		Code: job.ReasonRestored, Until: q.at(l.restored),
		Text: "The state was restored a moment ago: nothing starts until what ran before has lost its lease.",
		Next: "Wait: it goes on by itself.",
	})
}
