package api

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// explainTimes tells of a task that waits for its time, and of one that runs.
func explainTimes(q *explaining) {
	t := &q.task
	switch {
	case t.State == job.Running:
		r := job.Reason{Code: job.ReasonRunning, Worker: t.Worker, Since: t.Started, Text: "It is running on worker " + t.Worker + "."}
		q.limitRun(&r)
		r.Next = "Follow its output: 'axd task logs $ID --follow'."
		q.add(r)
	case t.State != job.Pending:
		return
	}
	q.paused()
	switch {
	case t.Due <= q.now:
	case t.Retry:
		q.add(job.Reason{
			Code: job.ReasonRetrying, Until: t.Due, RetriesUsed: t.Retries, ExitCode: t.ExitCode,
			Text: fmt.Sprintf("%s: retry %d of %d comes at %s.", how(t, "did not succeed (%s)"), t.Retries, t.MaxRetries, job.FormatTime(t.Due)),
			Next: "Wait, or let it go at once: 'axd task reschedule $ID --delay 0s'.",
		})
	default:
		q.add(job.Reason{
			Code: job.ReasonNotDue, Until: t.Due,
			Text: "It is due at " + job.FormatTime(t.Due) + ".",
			Next: "Wait, or move it: 'axd task reschedule $ID --delay 0s'.",
		})
	}
}

// paused tells of a task whose job is.
func (q *explaining) paused() {
	p := q.pause
	if p == nil {
		return
	}
	r := job.Reason{
		Code: job.ReasonPaused, Since: p.At, Text: "Its job " + q.task.Job + " is paused",
		Next: "Let its tasks go on: 'axd job resume " + q.task.Job + "'.",
	}
	if p.Actor != "" {
		r.Text += " by " + p.Actor
	}
	if p.Reason != "" {
		r.Text += ": " + p.Reason
	}
	r.Text += "."
	q.add(r)
}

// explainWishes tells what was asked of a task and has not happened.
func explainWishes(q *explaining) {
	t := &q.task
	if t.State.Active() && t.CancelRequested {
		q.add(job.Reason{
			Code: job.ReasonCancelRequested, Worker: t.Worker,
			Text: upper(t.Error) + "; worker " + t.Worker + " has yet to confirm that the attempt has ended.",
			Next: "Wait: it ends after its grace at the latest, or with the worker's lease.",
		})
	}
	if t.State.Active() && t.Wished() {
		var to []string
		if t.WantDue != 0 {
			to = append(to, "to "+job.FormatTime(t.WantDue))
		}
		if t.WantPriority != 0 {
			to = append(to, "to priority "+t.WantPriority.String())
		}
		q.add(job.Reason{
			Code: job.ReasonMoveRequested, Worker: t.Worker,
			Text: "It is to be moved " + strings.Join(to, " and ") + " once worker " + t.Worker + " has given it back.",
			Next: "Wait: if it starts before that, it stays as it was.",
		})
	}
	if t.TooLate && !t.State.Terminal() {
		q.add(job.Reason{
			Code: job.ReasonMoveTooLate, Text: "A reschedule came too late: the attempt had started.",
			Next: "Cancel it if it must not end.",
		})
	}
}

// explainEnd tells which rule ended a task.
func explainEnd(q *explaining) {
	t := &q.task
	if !t.State.Terminal() {
		return
	}
	r := job.Reason{Since: t.Ended, Worker: t.Worker, ExitCode: t.ExitCode, RetriesUsed: t.Retries}
	last, attempted := fsm.GetAttempt(q.v, t.Ref(), t.Attempt)
	if attempted {
		r.Outcome = last.Outcome
	}
	if q.endOfBroadcast(&r) {
		q.add(r)
		return
	}
	switch t.State {
	case job.Success:
		r.Code = job.ReasonSucceeded
		r.Text = fmt.Sprintf("Attempt %d succeeded on worker %s%s.", t.Attempt, t.Worker, q.exit(true))
	case job.Cancelled:
		r.Code = job.ReasonCancelled
		r.Text = upper(t.Error) + ". It never started."
		if attempted {
			r.Text = upper(t.Error) + "." + attemptOfCancelled(t, &last)
		}
	case job.Failed, job.TimedOut:
		if r.Code = q.outOfTime(attempted, &last); r.Code != "" {
			q.ranOut(&r)
		} else {
			q.failed(&r, &last)
		}
	case job.Skipped, job.UpstreamFailed:
		q.notRun(&r)
	default:
		r.Code = job.ReasonEnded
		r.Text = "It ended: " + t.State.String() + "."
	}
	q.add(r)
}

// attemptOfCancelled tells what became of a cancelled task's last attempt.
func attemptOfCancelled(t *fsm.Task, last *fsm.Attempt) string {
	unstarted := last.Started == 0 && (last.Outcome == job.OutcomeCancelled || last.Outcome == job.OutcomeRefused)
	switch {
	case unstarted && t.Attempt == 1:
		return " It never started."
	case unstarted:
		return fmt.Sprintf(" Attempt %d never started.", t.Attempt)
	case last.Outcome == job.OutcomeCancelled:
		return fmt.Sprintf(" Attempt %d was ended for it on worker %s.", t.Attempt, t.Worker)
	case last.Ended < t.Ended:
		return fmt.Sprintf(" Attempt %d had ended before; no other starts.", t.Attempt)
	}
	return fmt.Sprintf(" Attempt %d ended meanwhile (%s); no other starts.", t.Attempt, last.Outcome)
}

// failed tells why no further attempt was made.
func (q *explaining) failed(r *job.Reason, last *fsm.Attempt) {
	t := &q.task
	r.Text = how(t, "ended: %s") + q.exit(false) + ". "
	r.Next = "See what it wrote: 'axd task logs $ID'."
	if !t.CompensatedBy.IsZero() {
		r.Next += " Task " + t.CompensatedBy.String() + " makes good for it."
	}
	if t.Dead {
		r.Next += " It is a dead letter: 'axd deadletter replay $ID' lets it run again."
	}
	if t.MaxRetries == 0 {
		r.Code = job.ReasonNoRetries
		r.Text += "It asks for no retries."
		return
	}
	if t.Retries < t.MaxRetries {
		r.Code = job.ReasonNotRetryable
		r.Text += fmt.Sprintf("%d of %d retries are left, but its retry rule says (non_retryable) that another attempt would fail alike.",
			t.MaxRetries-t.Retries, t.MaxRetries)
		if last.Result.RetryMS < 0 {
			r.Text = strings.Replace(r.Text, "its retry rule says (non_retryable)", "its worker says", 1)
		}
		return
	}
	r.Code = job.ReasonRetriesSpent
	r.Text += fmt.Sprintf("%d of %d retries are spent.", t.Retries, t.MaxRetries)
}

// how says what became of the last attempt. The error of one that was lost says it in full.
func how(t *fsm.Task, otherwise string) string {
	attempt := fmt.Sprintf("attempt %d ", t.Attempt)
	if strings.HasPrefix(t.Error, attempt+"was lost ") {
		return upper(t.Error)
	}
	return upper(attempt) + fmt.Sprintf(otherwise, t.Error)
}

// exit says how an exit code or HTTP status was judged.
func (q *explaining) exit(good bool) string {
	if q.task.ExitCode == nil {
		return ""
	}
	name, codes := "exit code", "0"
	if q.kind == job.KindHTTP {
		name, codes = "status", "200 to 299"
	}
	code := *q.task.ExitCode
	if good {
		return fmt.Sprintf(" with %s %d", name, code)
	}
	if q.policy.IsSuccess(q.kind, code) { // as the job is now: it was judged otherwise, or something else went wrong
		return fmt.Sprintf(", %s %d", name, code)
	}
	if len(q.policy.SuccessCodes) > 0 {
		parts := make([]string, len(q.policy.SuccessCodes))
		for i, c := range q.policy.SuccessCodes {
			parts[i] = strconv.Itoa(c)
		}
		codes = strings.Join(parts, ", ")
	}
	if strings.Contains(q.task.Error, name+" "+strconv.Itoa(code)) {
		return " (success is " + codes + ")"
	}
	return fmt.Sprintf(" (%s %d; success is %s)", name, code, codes)
}

// upper begins a sentence with what was a phrase.
func upper(s string) string {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
