package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// timeOut ends pending tasks that have waited, or whose attempts have taken, for
// too long.
func (a *apply) timeOut(c *TimeOut) Result {
	return a.asSeen(c.Term, c.Tasks, a.timeOutOne)
}

// asSeen does to each of some tasks what the leader decided, as long as it is as the
// leader saw it.
func (a *apply) asSeen(term uint64, tasks []TaskVersion, act func(*Task) *job.Error) Result {
	if err := a.checkTerm(term); err != nil {
		return rejected(err)
	}
	results := make([]*job.Error, len(tasks))
	for i, item := range tasks {
		switch t, ok := a.task(item.Ref); {
		case !ok:
			results[i] = stale("task", "does not exist", item.Ref.ID.String())
		case t.Version != item.Version:
			results[i] = stale("version", "is not the task's version, "+strconv.FormatUint(t.Version, 10), strconv.FormatUint(item.Version, 10))
		default:
			results[i] = act(t)
		}
	}
	return Result{Attempts: results}
}

func (a *apply) timeOutOne(old *Task) *job.Error {
	switch {
	case old.Deadline() == 0:
		return stale("task", "has no deadline", old.ID.String())
	case old.Deadline() > a.now:
		return stale("task", "has time until "+job.FormatTime(old.Deadline()), old.ID.String())
	}
	t := new(Task)
	*t = *old
	policy := a.policy(t)
	if t.Deadline() == t.QueueBy {
		t.timedOut("no worker took it within its queue_timeout of "+policy.QueueTimeoutOrDefault().String(), a.now)
	} else {
		t.outOfTime(&policy, a.now)
	}
	a.write(old, t)
	a.event(Event{Kind: EventEnded, Task: t})
	return nil
}

// outOfTime ends a task since its total time-out leaves no time for another attempt.
func (t *Task) outOfTime(p *job.Policy, at int64) {
	t.timedOut("its total_timeout of "+p.TotalTimeoutOrDefault().String()+" leaves no time for another attempt", at)
}

// timedOut ends a task; what went wrong before is told too.
func (t *Task) timedOut(why string, at int64) {
	if t.Error != "" {
		why += "; before: " + t.Error
	}
	t.Error = cut(why)
	t.end(job.TimedOut, at)
}

// Deadline is when the task ends unless it gets an attempt before; 0: never, or
// it isn't pending.
func (t *Task) Deadline() int64 {
	switch {
	case t.State != job.Pending:
		return 0
	case t.QueueBy == 0 || t.EndBy != 0 && t.EndBy < t.QueueBy:
		return t.EndBy
	}
	return t.QueueBy
}

// limit sets until when a task may wait and take that is due for the first time.
func (t *Task) limit(p *job.Policy) {
	if p.QueueTimeout != nil {
		t.QueueBy = p.QueueTimeoutOrDefault().Until(t.Due)
	}
	if p.TotalTimeout != nil {
		t.EndBy = p.TotalTimeoutOrDefault().Until(t.Due)
	}
}

// moved sets anew what depends on the due time of a task that was moved. The time
// for all attempts began with the first of them.
func (a *apply) moved(t *Task) {
	if t.QueueBy|t.EndBy == 0 {
		return
	}
	policy, endBy := a.policy(t), t.EndBy
	t.limit(&policy)
	if t.Attempt > 0 {
		t.EndBy = endBy
	}
}

// moveDeadline keeps the rows of deadlines equal to the pending tasks' deadlines.
func (a *apply) moveDeadline(old, t *Task) {
	was, is := int64(0), t.Deadline()
	if old != nil {
		was = old.Deadline()
	}
	if was == is {
		return
	}
	if was != 0 {
		a.key = a.key.deadline(was, t.Ref())
		a.delete(a.key)
	}
	if is != 0 {
		a.key = a.key.deadline(is, t.Ref())
		a.set(a.key, nil)
	}
}
