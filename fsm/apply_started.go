package fsm

import "github.com/axd-project/axd/job"

func (a *apply) started(c *Started) Result {
	old, err := a.held(c.AttemptRef)
	if err != nil {
		return rejected(err)
	}
	if old.State == job.Running { // reported twice
		return Result{Task: old}
	}
	return Result{Task: a.running(old, c.At)}
}

// running notes that the active attempt of a task runs, since about a time.
func (a *apply) running(old *Task, since int64) *Task {
	at := a.currentAttempt(old)
	at.Started = within(since, max(at.Assigned, old.Due), a.now)
	t := new(Task)
	*t = *old
	t.State, t.Started = job.Running, at.Started
	t.dropWish()
	a.write(old, t)
	a.putActive(t, at.Boot)
	a.putAttempt(t.Ref(), at)
	a.event(Event{Kind: EventRunning, Task: t, Worker: t.Worker, Token: t.Token})
	return t
}

// within moves a time that a worker claims into what is possible by the
// cluster's clock.
func within(ms, from, to int64) int64 { return max(from, min(ms, to)) }
