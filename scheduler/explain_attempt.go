package scheduler

import (
	"fmt"
	"time"

	"github.com/axd-project/axd/job"
)

// explainAttempt tells what the leader knows of an attempt that a worker holds.
func explainAttempt(l *loop, q *asked) {
	if !q.task.State.Active() {
		return
	}
	w := l.workers[q.task.Worker]
	if w == nil {
		return
	}
	a := w.active[q.task.Ref()]
	if a == nil {
		a = w.earlier[q.task.Ref()]
	}
	if a == nil || a.ref.Token != q.task.Token {
		return
	}
	l.explainLease(q, w, a)
	if a.reported != 0 {
		q.add(job.Reason{
			Code: job.ReasonUnacknowledged, Worker: w.name, Since: a.reported,
			Text: "It has ended on worker " + w.name + ", but its result is not recorded yet.",
			Next: "Wait: the worker sends it until a quorum has it. If it takes long, 'axd cluster status' tells how the servers are.",
		})
	}
	if q.task.State != job.Dispatched || !w.connected() {
		return
	}
	if q.task.Due > q.now {
		text := "It was sent ahead of its time to worker " + w.name + ", which starts it when it is due."
		if q.task.Retries > 0 && q.task.Error != "" {
			text += fmt.Sprintf(" It is retry %d of %d; before: %s.", q.task.Retries, q.task.MaxRetries, q.task.Error)
		}
		q.add(job.Reason{
			Code: job.ReasonArmed, Worker: w.name, Until: q.task.Due,
			Text: text, Next: "Nothing: it can still be cancelled or rescheduled.",
		})
		return
	}
	reason := job.Reason{
		Code: job.ReasonNotStarted, Worker: w.name, Since: q.task.Dispatched,
		Text: "It was sent to worker " + w.name + ", which has not reported its start. A task that ends soon is reported with its end only.",
		Next: "Wait a moment.",
	}
	if a.sent != 0 && !a.running {
		reason.Until = q.at(a.sent + redispatchAfter)
		reason.Next = "Wait: what was sent and not started is sent again after " + redispatchAfter.String() + "."
	}
	q.add(reason)
}

const goesOnText = ". Its job lets it go on without contact (on_disconnect: continue) until it must have met its time-out."

// explainLease tells of an attempt that only a lease keeps: until it ends nobody
// else may run the task.
func (l *loop) explainLease(q *asked, w *workerState, a *active) {
	earlier := a.boot != w.boot
	if w.connected() && !earlier {
		return
	}
	reason := job.Reason{Code: job.ReasonWorkerSuspect, Worker: w.name}
	who := "Worker " + w.name + " holds it and is not connected"
	if earlier {
		reason.Code = job.ReasonWorkerRestarted
		who = "An earlier life of worker " + w.name + " held it, and has not said that it ended"
	}
	end, runs := l.leases.until(boot{w.name, a.boot})
	end += l.cfg.LeaseSlop
	silent, _ := l.leases.silent(boot{w.name, a.boot}, q.mono)
	goesOn := l.goesOn(w, a.ref.Ref)
	switch {
	case runs && !w.joining && a.due <= q.now && l.mayMove(a, q.now):
		reason.Until = q.at(max(q.mono-silent+l.suspectAfter(), q.mono))
		reason.Text = who + ". Its job is idempotent: unless the worker is heard of before, it goes to another one."
	case runs && goesOn > 0:
		reason.Until = q.at(end + goesOn)
		reason.Text = who + goesOnText
	case runs:
		reason.Until = q.at(end)
		reason.Text = who + ": until its lease has ended, it may still run there and nobody else may start it."
	case a.lostAt > q.mono:
		reason.Until = q.at(a.lostAt)
		reason.Text = who + goesOnText
	default:
		reason.Until = q.now
		reason.Text = who + ", and its lease has ended: the attempt is about to be declared lost."
	}
	reason.Next = fmt.Sprintf("Wait, or bring worker %s back: what it runs then goes on.", w.name)
	if earlier {
		reason.Next = "Wait: the next attempt starts when that lease has ended."
	}
	q.add(reason)
}

// until returns when a life's lease ends, slop not included.
func (l *leases) until(b boot) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	is, ok := l.mu.lives[b]
	return is.answered + is.ttl, ok
}
