package fsm

import "github.com/axd-project/axd/job"

func (a *apply) workerState(c *WorkerState) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	if w, ok := a.worker(c.Name); ok && c.Boot != "" && w.Boot != c.Boot {
		return rejected(stale("boot", "is not the worker's present life", c.Boot))
	}
	return a.changeWorker(c.Name, func(w *Worker) { w.Lost = !c.Alive })
}

func (a *apply) changeWorker(name string, change func(*Worker)) Result {
	old, ok := a.worker(name)
	if !ok {
		return rejected(job.NotFound("worker", name))
	}
	w := new(Worker)
	*w = *old
	change(w)
	if w.Lost == old.Lost && w.Draining == old.Draining && w.DrainBy == old.DrainBy {
		return Result{}
	}
	a.putWorker(w)
	return Result{Changed: true}
}
