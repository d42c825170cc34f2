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
	a.undo(old, reason)
	return nil
}

// undo takes the active task old from its worker.
func (a *apply) undo(old *Task, reason string) {
	ref := old.Ref()
	t := new(Task)
	*t = *old
	t.Token = job.Token{}
	if old.State == job.Running {
		at := a.currentAttempt(old)
		at.Ended, at.Outcome = a.now, job.OutcomeRefused
		at.Result = AttemptResult{Outcome: job.OutcomeRefused, Error: cut(reason)}
		a.putAttempt(ref, at)
	} else {
		a.forgetAttempt(t)
	}
	moved := a.takeWish(t)
	if t.CancelRequested {
		t.end(job.Cancelled, a.now)
	} else {
		t.State, t.Retry = job.Pending, t.Retries > 0
	}
	if t.Error == "" || strings.HasPrefix(t.Error, givenBack) {
		switch {
		case moved:
			t.Error = "" // as the user wished
		case reason != "":
			t.Error = cut(givenBack + old.Worker + ": " + reason)
		}
	}
	a.write(old, t)
	a.event(Event{Kind: EventAttemptEnded, Task: t, Outcome: job.OutcomeRefused, Worker: old.Worker, Token: old.Token})
	a.settled(t)
}

// takeWish gives a task the time and priority that a Reschedule asked for while
// it was armed.
func (a *apply) takeWish(t *Task) bool {
	wished := t.Wished()
	if t.WantDue != 0 {
		t.Due = t.WantDue
		a.moved(t)
	}
	if t.WantPriority != 0 {
		t.Policy.Priority = t.WantPriority
	}
	t.WantDue, t.WantPriority = 0, 0
	return wished
}

// dropWish forgets what a Reschedule asked for, since the attempt has started.
func (t *Task) dropWish() {
	t.TooLate = t.TooLate || t.Wished()
	t.WantDue, t.WantPriority = 0, 0
}

// Wished reports whether a Reschedule waits for the task's worker to give it back.
func (t *Task) Wished() bool { return t.WantDue != 0 || t.WantPriority != 0 }

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
