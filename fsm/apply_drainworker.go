package fsm

import "github.com/axd-project/axd/job"

func (a *apply) drainWorker(c *DrainWorker) Result {
	if err := job.ValidateDrain(c.Deadline); err != nil {
		return rejected(err)
	}
	return a.changeWorker(c.Name, func(w *Worker) {
		w.Draining, w.DrainBy = !c.Resume, 0
		if !c.Resume {
			w.DrainBy = c.Deadline.Until(a.now)
		}
	})
}
