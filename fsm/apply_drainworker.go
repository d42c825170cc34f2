package fsm

func (a *apply) drainWorker(c *DrainWorker) Result {
	return a.changeWorker(c.Name, func(w *Worker) { w.Draining = !c.Resume })
}
