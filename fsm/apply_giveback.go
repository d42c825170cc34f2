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

// giveBackOne undoes an assign: the attempt did not happen, so its record goes,
// no retry is spent, and the next attempt takes its number. Its token is never
// used again: LastToken stays, and every token is higher than the one before.
func (a *apply) giveBackOne(ref AttemptRef, reason string) *job.Error {
	old, err := a.held(ref)
	if err != nil {
		return err
	}
	if old.State != job.Dispatched {
		return job.Conflict("task", "was started, so it can't be given back", ref.Ref.ID.String())
	}
	t := new(Task)
	*t = *old
	a.key = a.key.attempt(ref.Ref, t.Attempt)
	a.delete(a.key)
	t.Attempt--
	t.Token = job.Token{}
	t.Worker, t.Dispatched, t.Started = "", 0, 0
	if at, ok := a.attempt(ref.Ref, t.Attempt); ok {
		t.Worker, t.Dispatched, t.Started = at.Worker, at.Assigned, at.Started
	}
	if t.CancelRequested {
		t.end(job.Cancelled, a.now)
	} else {
		t.State, t.Retry = job.Pending, t.Retries > 0
	}
	if reason != "" && (t.Error == "" || strings.HasPrefix(t.Error, givenBack)) {
		t.Error = cut(givenBack+old.Worker+": "+reason, MaxErrorBytes)
	}
	a.write(old, t)
	a.event(Event{Kind: EventAttemptEnded, Task: t, Outcome: job.OutcomeRefused, Worker: old.Worker, Token: old.Token})
	a.settled(t)
	return nil
}
