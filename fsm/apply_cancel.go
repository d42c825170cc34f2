package fsm

import (
	"cmp"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

func (a *apply) cancel(c *Cancel) Result {
	old, ok := a.task(c.Ref)
	switch {
	case !ok:
		return rejected(job.NotFound("task", c.Ref.ID.String()))
	case old.State.Terminal() && !mutant.EndedAgain:
		return rejected(job.Conflict("task", "has ended: "+old.State.String(), c.Ref.ID.String()))
	case a.standsIn(old):
		return rejected(job.Conflict("state", "is a step that others are at work for: cancel the tasks of its items, or the run", old.Step))
	case old.CancelRequested:
		return Result{Task: old}
	}
	return Result{Task: a.cancelTask(old, a.byHand("cancelled", c.Actor, c.Reason)), Changed: true}
}

// cancelTask ends a task that has not ended, or asks its worker to.
func (a *apply) cancelTask(old *Task, why string) *Task {
	if old.IsBroadcast() && old.State == job.Blocked {
		return a.cancelBroadcast(old, why)
	}
	t := new(Task)
	*t = *old
	t.CancelRequested = true
	t.WantDue, t.WantPriority = 0, 0
	t.Error = why
	if !old.State.Active() {
		t.end(job.Cancelled, a.now)
		a.write(old, t)
		a.event(Event{Kind: EventEnded, Task: t})
		return t
	}
	a.write(old, t)
	a.event(Event{Kind: EventCancelWanted, Task: t, Worker: t.Worker, Token: t.Token})
	return t
}

// byHand says in words what was done, by whom and why: who gives the command, else who sent it.
func (a *apply) byHand(what, actor, reason string) string {
	if actor = cmp.Or(actor, plain(a.actor, MaxActorBytes)); actor != "" {
		what += " by " + actor
	}
	if reason != "" {
		what += ": " + reason
	}
	return cut(what)
}
