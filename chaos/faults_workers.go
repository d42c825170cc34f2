package chaos

import (
	"context"
	"encoding/json"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func killWorker(i *injector, f Fault) func() effect {
	return i.workerDown(f, "workers killed", func(w *Worker) bool { return w.Crash(false) })
}

func powerWorker(i *injector, f Fault) func() effect {
	return i.workerDown(f, "workers without power", func(w *Worker) bool { return w.Crash(true) })
}

func stopWorker(i *injector, f Fault) func() effect {
	return i.workerDown(f, "workers stopped", func(w *Worker) bool { up := w.now() != nil; w.Stop(); return up })
}

func (i *injector) workerDown(f Fault, what string, how func(*Worker) bool) func() effect {
	w := i.c.Worker(f.On[0])
	i.waitFor(func() bool { return w.now() != nil }) // an orderly stop before may have taken longer than planned
	did := effect{0, what}
	if how(w) {
		did.n++
	}
	return func() effect { w.Restart(); return did }
}

func hangWorker(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	w := i.c.Worker(f.On[0])
	heal := i.cut(both(f.On, servers))
	w.Freeze()
	return func() effect { w.Thaw(); return heal() }
}

// zombieWorker holds a worker and its handlers for longer than its lease, and lets
// it go on then: what it has to tell comes after others were given its work.
func zombieWorker(i *injector, f Fault) func() effect {
	servers, _ := i.c.hosts()
	w := i.c.Worker(f.On[0])
	did := effect{0, "attempts that came back after their lease"}
	if !i.occupy(w) {
		did.what += ", since the worker got no work"
		return func() effect { return did }
	}
	heal := i.cut(both(f.On, servers))
	w.Freeze()
	return func() effect {
		did.n = i.c.Ledger.frozen(w.Name)
		w.Thaw()
		heal()
		return did
	}
}

// occupy submits work for all workers, now and then, until one of them runs some of
// it. Its breaker may be open, and keep it from what is submitted.
func (i *injector) occupy(w *Worker) bool {
	payload, _ := json.Marshal(behaviour{RunMS: occupied.Milliseconds()}) // plain fields
	var next time.Time
	return await(job.BreakerOpenMax.Std()+i.patience, func() bool {
		if i.c.Ledger.running(w.Name) > 0 {
			return true
		}
		if time.Now().Before(next) {
			return false
		}
		next = time.Now().Add(2 * occupied)
		for range 2 * len(i.c.Workers) {
			ctx, cancel := context.WithTimeout(i.c.ctx, callLimit)
			_, _ = i.operator.Submit(ctx, client.SubmitRequest{Job: plainJob, Payload: payload})
			cancel()
		}
		return false
	})
}

const occupied = 4 * time.Second // for which a worker has work

// twinWorker starts a second worker of a name. One of the two works; the other one
// is told after a while, and ends.
func twinWorker(i *injector, f Fault) func() effect {
	w := i.c.Worker(f.On[0])
	twin := w.Twin()
	if err := twin.Start(); err != nil {
		i.c.Problem("%v", err)
	}
	return func() effect {
		i.within(memberLimit, func() bool { return w.Told()+twin.Told() > 0 }) // each change of the leader delays it
		told := w.Told() + twin.Told()
		twin.Stop()
		w.Stop()
		w.Forgive()
		w.Restart()
		return effect{told, "workers told that their name is taken"}
	}
}

// running counts a worker's attempts that have not ended.
func (l *Ledger) running(worker string) int {
	return l.count(func(a *Attempt) bool { return a.Worker == worker && a.End.IsZero() })
}

// frozen counts a worker's attempts that are held.
func (l *Ledger) frozen(worker string) int {
	return l.count(func(a *Attempt) bool { return a.Worker == worker && a.End.IsZero() && a.Frozen })
}

func (l *Ledger) count(is func(*Attempt) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if is(a) {
			n++
		}
	}
	return n
}
