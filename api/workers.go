package api

import (
	"net/http"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// maxHeld bounds the attempts counted for one worker.
const maxHeld = 20_000

// liveness is what is known of workers beside state; see Backend.Liveness.
type liveness = func(worker string) (state string, lastSeen time.Time)

// describeWorker joins state and liveness.
func (a *api) describeWorker(v fsm.Reader, w fsm.Worker, live liveness) client.Worker {
	opinion, seen := live(w.Name)
	running, armed, now := 0, 0, a.backend.Now()
	for _, held := range fsm.ListActive(v, w.Name, maxHeld) {
		if !held.Running && held.Due > now {
			armed++
		} else {
			running++
		}
	}
	return showWorker(w, running, armed, opinion, seen)
}

func (a *api) workerPage(v fsm.Reader, live liveness, cursor string, limit int) (client.WorkerList, error) {
	workers, next, err := fsm.ListWorkers(v, cursor, limit)
	if err != nil {
		return client.WorkerList{}, err
	}
	out := client.WorkerList{Workers: make([]client.Worker, 0, len(workers)), NextCursor: next}
	for _, w := range workers {
		out.Workers = append(out.Workers, a.describeWorker(v, w, live))
	}
	return out, nil
}

func (a *api) listWorkers(r *request) error {
	var out client.WorkerList
	live := a.backend.Liveness(r.ctx)
	return a.page(r, &out, func(v fsm.Reader, limit int) (err error) {
		out, err = a.workerPage(v, live, r.values.Get("cursor"), limit)
		return err
	})
}

func (a *api) drainWorker(r *request) error {
	var in client.DrainRequest
	if err := decode(r.body, &in); err != nil {
		return err
	}
	cmd := fsm.DrainWorker{Name: r.name("name")}
	if in.Deadline != nil {
		if cmd.Deadline = *in.Deadline; cmd.Deadline <= 0 {
			return job.Invalid("deadline", "must be more than 0 and at most 7d", in.Deadline.String())
		}
	}
	return a.setDrain(r, cmd)
}

func (a *api) resumeWorker(r *request) error {
	var none struct{}
	if err := decode(r.body, &none); err != nil {
		return err
	}
	return a.setDrain(r, fsm.DrainWorker{Name: r.name("name"), Resume: true})
}

func (a *api) setDrain(r *request, cmd fsm.DrainWorker) error {
	name := cmd.Name
	if _, err := a.propose(r.ctx, cmd); err != nil {
		return err
	}
	var out client.Worker
	live := a.backend.Liveness(r.ctx)
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		w, ok := fsm.GetWorker(v, name)
		if !ok {
			return job.NotFound("name", name) // forgotten meanwhile
		}
		out = a.describeWorker(v, w, live)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

func (a *api) forgetWorker(r *request) error {
	if _, err := a.propose(r.ctx, fsm.ForgetWorker{Name: r.name("name")}); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}
