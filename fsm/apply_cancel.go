package fsm

import "github.com/axd-project/axd/job"

func (a *apply) cancel(c *Cancel) Result {
	old, ok := a.task(c.Ref)
	switch {
	case !ok:
		return rejected(job.NotFound("task", c.Ref.ID.String()))
	case old.State.Terminal():
		return rejected(job.Conflict("task", "has ended: "+old.State.String(), c.Ref.ID.String()))
	case old.CancelRequested:
		return Result{Task: old}
	}
	t := new(Task)
	*t = *old
	t.CancelRequested = true
	t.WantDue, t.WantPriority = 0, 0
	t.Error = cancelled(c)
	if !old.State.Active() {
		t.end(job.Cancelled, a.now)
		a.write(old, t)
		a.event(Event{Kind: EventEnded, Task: t})
		return Result{Task: t}
	}
	a.write(old, t)
	a.event(Event{Kind: EventCancelWanted, Task: t, Worker: t.Worker, Token: t.Token})
	return Result{Task: t}
}

// cancelled says in words who ended the task and why.
func cancelled(c *Cancel) string {
	s := "cancelled"
	if c.Actor != "" {
		s += " by " + c.Actor
	}
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	return cut(s)
}
