package api

import (
	"fmt"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// explainDeadline tells when a task that waits ends by its time-outs.
func explainDeadline(q *explaining) {
	if end := q.task.Deadline(); end != 0 {
		q.add(job.Reason{
			Code: job.ReasonDeadline, Until: end,
			Text: "If it still waits at " + job.FormatTime(end) + ", it ends as timeout, by its " + q.deadlineName() + ".",
			Next: "Nothing, or see what else keeps it.",
		})
	}
}

func (q *explaining) deadlineName() string {
	if q.task.Deadline() == q.task.QueueBy {
		return "queue_timeout"
	}
	return "total_timeout"
}

// outOfTime tells whether a task ended between attempts since its time was over;
// empty: its last attempt decided.
func (q *explaining) outOfTime(attempted bool, last *fsm.Attempt) job.ReasonCode {
	t := &q.task
	between := !attempted || t.Ended > last.Ended
	switch {
	case t.State != job.TimedOut:
		return ""
	case between && t.QueueBy != 0 && t.QueueBy <= t.Ended && (t.EndBy == 0 || t.QueueBy <= t.EndBy):
		return job.ReasonQueueTimeout
	case t.EndBy != 0 && (between || t.Retries < t.MaxRetries):
		return job.ReasonTotalTimeout
	}
	return ""
}

// ranOut tells of a task that ended since its time was over.
func (q *explaining) ranOut(r *job.Reason) {
	r.Text = upper(q.task.Error) + "."
	r.Next = "Give it more time, or see why it waited: 'axd worker list', 'axd stats'."
	if q.task.Attempt == 0 {
		r.Text += " It never started."
	} else {
		r.Text += fmt.Sprintf(" %d of %d retries were spent.", q.task.Retries, q.task.MaxRetries)
	}
}

// limitRun tells until when a running attempt may take.
func (q *explaining) limitRun(r *job.Reason) {
	t := &q.task
	if r.Since == 0 {
		return
	}
	r.Until = q.policy.TimeoutOrDefault().Until(r.Since)
	if r.Until == 0 || t.EndBy != 0 && t.EndBy < r.Until {
		r.Until = t.EndBy
	}
	if r.Until != 0 {
		r.Text = fmt.Sprintf("It is running on worker %s, which ends it at %s.", t.Worker, job.FormatTime(r.Until))
	}
	if w, ok := fsm.GetWorker(q.v, t.Worker); ok && w.DrainBy != 0 && (r.Until == 0 || w.DrainBy < r.Until) {
		r.Until = w.DrainBy
		r.Text = fmt.Sprintf("It is running on worker %s, which drains and gives it back at %s, without spending a retry.",
			t.Worker, job.FormatTime(r.Until))
	}
}
