package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// submitNow creates tasks as their Submit says, and assigns those that the leader
// has placed, where what it saw still holds. The others wait as usual.
func (a *apply) submitNow(c *SubmitNow) Result {
	inner, err := decodeCommand(a.codec, c.Submit)
	if err != nil {
		return rejected(job.Errorf(job.CodeInvalid, err.Error()))
	}
	submit, ok := inner.(*Submit)
	if !ok {
		return rejected(job.Invalid("submit", "must be a submit", strconv.Itoa(int(inner.Code()))))
	}
	return a.submit(submit, a.placed(c, len(submit.Tasks)))
}

// placed returns the worker of each task, nil where it has none.
func (a *apply) placed(c *SubmitNow, tasks int) []*Worker {
	placed := make([]*Worker, tasks)
	if a.checkTerm(c.Term) != nil {
		return placed
	}
	workers := make([]*Worker, len(c.Workers))
	for i, at := range c.Workers {
		if w, err := a.takesWork(at.Name, at.Boot); err == nil {
			workers[i] = w
		}
	}
	for i, to := range c.To[:min(len(c.To), tasks)] {
		if to > 0 && to <= len(workers) {
			placed[i] = workers[to-1]
		}
	}
	return placed
}
