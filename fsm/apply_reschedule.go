package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

func (a *apply) reschedule(c *Reschedule) Result {
	due, err := a.rescheduledTo(c)
	if err != nil {
		return rejected(err)
	}
	old, ok := a.task(c.Ref)
	switch {
	case !ok:
		return rejected(job.NotFound("task", c.Ref.ID.String()))
	case old.CancelRequested && !old.State.Terminal():
		return rejected(job.Conflict("task", "is being cancelled", c.Ref.ID.String()))
	case old.State == job.Dispatched && old.Due > a.now:
		return a.wishReschedule(old, due, c.Priority)
	case old.State != job.Pending:
		return rejected(job.Conflict("task", "is "+old.State.String()+": only a task that waits can be rescheduled", c.Ref.ID.String()))
	}
	t := new(Task)
	*t = *old
	t.TooLate = false
	if due != 0 {
		t.Due = due
		a.moved(t)
	}
	if c.Priority != 0 {
		t.Policy.Priority = c.Priority
	}
	if t.Due == old.Due && t.Policy.Priority == old.Policy.Priority {
		return Result{Task: old}
	}
	a.write(old, t)
	a.event(Event{Kind: EventPending, Task: t})
	return Result{Task: t, Changed: true}
}

// wishReschedule asks for an armed task to be given back; what the worker has
// started meanwhile stays as it was. A later wish replaces what it says anew.
func (a *apply) wishReschedule(old *Task, due int64, p job.Priority) Result {
	t := new(Task)
	*t = *old
	if due != 0 {
		t.WantDue = due
	}
	if p != 0 {
		t.WantPriority = p
	}
	if t.WantDue == old.WantDue && t.WantPriority == old.WantPriority {
		return Result{Task: old}
	}
	a.write(old, t)
	a.event(Event{Kind: EventRevokeWanted, Task: t, Worker: t.Worker, Token: t.Token})
	return Result{Task: t, Changed: true}
}

// rescheduledTo resolves the new due time; 0 keeps the old one.
func (a *apply) rescheduledTo(c *Reschedule) (int64, *job.Error) {
	set := 0
	for _, given := range []bool{c.Due != 0, c.Delay != 0, c.Now} {
		if given {
			set++
		}
	}
	switch {
	case set > 1:
		return 0, job.Invalid("execute_time", "must be the only one of execute_time, delay and now", "")
	case set == 0 && c.Priority == 0:
		return 0, job.Invalid("execute_time", "or delay, now or priority must be set", "")
	case c.Priority > job.Low:
		return 0, job.Invalid("priority", "must be high, normal or low", c.Priority.String())
	case set == 0:
		return 0, nil
	case c.Due < 0 || c.Due > job.MaxTime:
		return 0, job.Invalid("execute_time", "must be a time between the years 1970 and 9999 in UTC", strconv.FormatInt(c.Due, 10))
	case c.Delay < 0:
		return 0, job.Invalid("delay", "must not be negative", c.Delay.String())
	}
	return job.TaskSpec{Due: c.Due, Delay: c.Delay}.DueAt(a.now)
}
