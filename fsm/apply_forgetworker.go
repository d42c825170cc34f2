package fsm

import "github.com/axd-project/axd/job"

func (a *apply) forgetWorker(c *ForgetWorker) Result {
	w, ok := a.worker(c.Name)
	switch {
	case !ok:
		return rejected(job.NotFound("worker", c.Name))
	case !w.Lost:
		return rejected(job.Conflict("worker", "is not lost", c.Name))
	case len(ListActive(a.tx, c.Name, 1)) > 0:
		return rejected(job.Conflict("worker", "still holds attempts", c.Name))
	}
	a.forgetBreakers(func(b Breaker) bool { return b.Worker == c.Name })
	a.key = a.key.worker(c.Name)
	a.delete(a.key)
	delete(a.workers, c.Name)
	a.event(Event{Kind: EventWorkerChanged, Worker: c.Name})
	return Result{Changed: true}
}
