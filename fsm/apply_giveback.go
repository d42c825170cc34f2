package fsm

import (
	"strings"

	"github.com/axd-project/axd/job"
)

// givenBack begins the text that tells why a task waits although it was
// assigned; it never hides what a real attempt left.
const givenBack = "given back by worker "

func (a *apply) giveBack(c *GiveBack) Result {
	results := make([]*job.Error, len(c.Attempts))
	for i, ref := range c.Attempts {
		results[i] = a.giveBackOne(ref, c.Reason)
	}
	return Result{Attempts: results}
}

// giveBackOne undoes an assign: no retry is spent, and the task waits again. Of
// an attempt that was not started the record goes too, and the next attempt
// takes its number; one that a draining worker had to end keeps its record, as
// refused. Its token is never used again: LastToken stays, and every token is
// higher than the one before.
func (a *apply) giveBackOne(ref AttemptRef, reason string) *job.Error {
	old, err := a.held(ref)
	if err != nil {
		return err
	}
	t := new(Task)
	*t = *old
	t.Token = job.Token{}
	if old.State == job.Running {
		at := a.currentAttempt(old)
		at.Ended, at.Outcome = a.now, job.OutcomeRefused
		at.Result = AttemptResult{Outcome: job.OutcomeRefused, Error: cut(reason)}
		a.putAttempt(ref.Ref, at)
	} else {
		a.forgetAttempt(t)
	}
	if t.CancelRequested {
		t.end(job.Cancelled, a.now)
	} else {
		t.State, t.Retry = job.Pending, t.Retries > 0
	}
	if reason != "" && (t.Error == "" || strings.HasPrefix(t.Error, givenBack)) {
		t.Error = cut(givenBack + old.Worker + ": " + reason)
	}
	a.write(old, t)
	a.event(Event{Kind: EventAttemptEnded, Task: t, Outcome: job.OutcomeRefused, Worker: old.Worker, Token: old.Token})
	a.settled(t)
	return nil
}

// forgetAttempt deletes the record of an attempt that did not happen; the task
// shows the one before again.
func (a *apply) forgetAttempt(t *Task) {
	ref := t.Ref()
	a.key = a.key.attempt(ref, t.Attempt)
	a.delete(a.key)
	t.Attempt--
	t.Worker, t.Dispatched, t.Started = "", 0, 0
	if at, ok := a.attempt(ref, t.Attempt); ok {
		t.Worker, t.Dispatched, t.Started = at.Worker, at.Assigned, at.Started
	}
}
