package fsm

import (
	"strconv"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// MaxEarly is how long before its due time a task may be assigned, in
// milliseconds: the largest horizon of arming ahead.
const MaxEarly int64 = 10_000

func (a *apply) assign(c *Assign) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	results := make([]AssignResult, len(c.Items))
	for i := range c.Items {
		results[i] = a.assignOne(&c.Items[i])
	}
	return Result{Assigned: results}
}

// checkTerm refuses what a leader of another term decided: an entry carries the
// term in which it was logged.
func (a *apply) checkTerm(term uint64) *job.Error {
	if term != a.at.Term && !mutant.AnyTerm {
		return stale("term", "is not the term of this log entry, "+strconv.FormatUint(a.at.Term, 10), strconv.FormatUint(term, 10))
	}
	return nil
}

func (a *apply) assignOne(item *AssignItem) AssignResult {
	old, w, err := a.assignable(item)
	if err != nil {
		return AssignResult{Err: err}
	}
	t := new(Task)
	*t = *old
	if c, r := a.limitsOf(t); c != nil || r != nil {
		if err := a.takeLimits(t, c, r); err != nil {
			return AssignResult{Err: err}
		}
	}
	a.give(old, t, w)
	return AssignResult{Attempt: t.Attempt, Token: t.Token, Version: t.Version}
}

// give writes t, which was old before (nil: it is new), as the worker's.
func (a *apply) give(old, t *Task, w *Worker) {
	t.State = job.Dispatched
	t.Attempt++
	t.Token = job.Token{Epoch: a.meta.RestoreEpoch, Index: a.at.Index, Offset: a.next()}
	t.LastToken = t.Token
	t.Worker = w.Name
	t.Dispatched, t.Started, t.Retry, t.TooLate = a.now, 0, false, false
	a.write(old, t)
	a.putActive(t, w.Boot)
	at := &Attempt{Number: t.Attempt, Worker: w.Name, Boot: w.Boot, Address: w.Address, Token: t.Token, Assigned: a.now}
	if t.Job != "" {
		if j, ok := a.job(t.Namespace, t.Job); ok {
			at.JobVersion = j.Version
		}
	}
	a.putAttempt(t.Ref(), at)
	if t.Attempt > MaxAttempts {
		a.key = a.key.attempt(t.Ref(), t.Attempt-MaxAttempts)
		a.delete(a.key)
	}
	a.event(Event{Kind: EventAssigned, Task: t, Worker: t.Worker, Token: t.Token, JobVersion: at.JobVersion})
}

// assignable checks that what the leader saw when it decided still holds.
func (a *apply) assignable(item *AssignItem) (*Task, *Worker, *job.Error) {
	t, ok := a.task(item.Ref)
	switch {
	case !ok:
		return nil, nil, stale("task", "does not exist", item.Ref.ID.String())
	case t.State != job.Pending:
		return nil, nil, stale("task", "is "+t.State.String()+", not pending", item.Ref.ID.String())
	case t.Version != item.Version && !mutant.AnyVersion:
		return nil, nil, stale("version", "is not the task's version, "+strconv.FormatUint(t.Version, 10), strconv.FormatUint(item.Version, 10))
	case a.isPaused(t):
		return nil, nil, stale("job", "is paused", t.Job)
	case t.IsBroadcast():
		return nil, nil, stale("task", "is a broadcast, which no worker is given", item.Ref.ID.String())
	case t.Bound() != "" && t.Bound() != item.Worker:
		return nil, nil, stale("worker", "is not the one that the task is for, "+t.Bound(), item.Worker)
	case t.Due > a.now+MaxEarly:
		return nil, nil, stale("task", "is due only at "+job.FormatTime(t.Due), item.Ref.ID.String())
	}
	w, err := a.takesWork(item.Worker, item.Boot)
	return t, w, err
}

// takesWork reads a worker's life that may be given attempts.
func (a *apply) takesWork(name, boot string) (*Worker, *job.Error) {
	w, ok := a.worker(name)
	switch {
	case !ok:
		return nil, stale("worker", "is not registered", name)
	case w.Boot != boot:
		return nil, stale("worker", "was restarted since", name)
	case w.Lost:
		return nil, stale("worker", "is lost", name)
	case w.Draining:
		return nil, stale("worker", "is draining", name)
	}
	return w, nil
}
