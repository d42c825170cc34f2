package fsm

import (
	"fmt"

	"github.com/axd-project/axd/job"
)

// deleteJob refuses as long as a task of the job could still run. Tasks that
// ended stay, with the job's name. A job of the same name made later begins
// again with version 1.
func (a *apply) deleteJob(c *DeleteJob) Result {
	j, ok := a.job(c.Namespace, c.Name)
	if !ok {
		return rejected(job.NotFound("job", c.Name))
	}
	if n := a.jobCounts(c.Namespace, c.Name, func(s job.State) bool { return !s.Terminal() }); n > 0 {
		return rejected(job.Conflict("job", fmt.Sprintf("has %d tasks that have not ended", n), c.Name))
	}
	if w, ok := a.workflowOf(c.Namespace, c.Name); ok {
		return rejected(job.Conflict("job", "is named by the workflow "+w, c.Name))
	}
	if err := a.firedBy(relFiresJob, "job", c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	if err := a.notWaitedFor(relJob, c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	if err := a.namedBy(namedJob, c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	a.moveRows(namedByJob(c.Namespace, c.Name, &j.Spec), nil)
	a.forgetBreakers(func(b Breaker) bool { return b.Job == c.Name && b.Namespace == c.Namespace })
	a.key = a.key.job(c.Namespace, c.Name)
	a.delete(a.key)
	oldest := uint64(1)
	if j.Version > MaxJobVersions {
		oldest = j.Version - MaxJobVersions + 1
	}
	for v := oldest; v <= j.Version; v++ {
		a.key = a.key.jobVersion(c.Namespace, c.Name, v)
		a.delete(a.key)
	}
	delete(a.jobs, jobName{c.Namespace, c.Name})
	a.event(Event{Kind: EventJobChanged, Namespace: c.Namespace, Job: c.Name})
	return Result{Changed: true}
}
