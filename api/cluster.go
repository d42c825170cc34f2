package api

import (
	"errors"
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// getCluster answers from what this server has, so that it also works while
// there is no leader: that is when it is asked for.
func (a *api) getCluster(r *request) error {
	out, err := a.backend.Cluster(r.ctx)
	if err != nil {
		return err
	}
	live := a.backend.Liveness(r.ctx)
	err = a.backend.Read(r.ctx, true, func(v fsm.Reader) error {
		page, err := a.workerPage(v, live, "", fsm.MaxPage)
		out.Workers = page.Workers
		out.Alerts = alertSummary(v)
		out.Settings = fsm.ReadSettings(v)
		return err
	})
	if err != nil {
		return err
	}
	if out.Servers == nil {
		out.Servers = []client.Server{}
	}
	return write(r, http.StatusOK, out)
}

// setSettings changes what the body sets of the cluster's settings.
func (a *api) setSettings(r *request) error {
	var in job.Settings
	if err := decode(r.body, &in); err != nil {
		return err
	}
	if err := in.Validate(); err != nil {
		return err
	}
	if _, err := a.propose(r.ctx, fsm.Configure{Settings: &in}); err != nil {
		return err
	}
	var out job.Settings
	err := a.backend.Read(r.ctx, false, func(v fsm.Reader) error {
		out = fsm.ReadSettings(v)
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

// getStats counts tasks, of one namespace where that is given, and what the
// workers have.
func (a *api) getStats(r *request) error {
	out := client.Stats{Ready: a.backend.ReadyTasks(), Workers: map[string]int{}}
	if r.hasNamespace {
		out.Namespace = r.namespace
	}
	live := a.backend.Liveness(r.ctx)
	return a.answer(r, &out, func(v fsm.Reader) error {
		out.Tasks = showCounts(fsm.CountTasks(v, out.Namespace))
		out.DeadLetters = fsm.CountDead(v, out.Namespace, "")
		return eachWorker(v, func(w fsm.Worker) {
			shown := a.describeWorker(v, w, live)
			out.Workers[shown.State]++
			out.Busy += shown.Running
			if !w.Lost {
				out.Slots += w.Slots
			}
		})
	})
}

// eachWorker calls fn for every worker, page by page.
func eachWorker(v fsm.Reader, fn func(fsm.Worker)) error {
	for cursor := ""; ; {
		workers, next, err := fsm.ListWorkers(v, cursor, fsm.MaxPage)
		if err != nil {
			return err
		}
		for _, w := range workers {
			fn(w)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// health is what the probes answer.
type health struct {
	Status string `json:"status"`
}

func (a *api) live(r *request) error { return write(r, http.StatusOK, health{"alive"}) }

// ready tells whether this server can take requests. Why it can't is for the
// operator, so even an unexpected reason is shown.
func (a *api) ready(r *request) error {
	err := a.backend.Serving(r.ctx)
	if err == nil {
		return write(r, http.StatusOK, health{"ready"})
	}
	var e *job.Error
	if errors.As(err, &e) && answers[e.Code].status == http.StatusServiceUnavailable {
		return e
	}
	return &job.Error{Code: job.CodeNoLeader, Rule: "not ready: " + err.Error()}
}

func (a *api) openAPI(r *request) error {
	return r.Blob(http.StatusOK, "application/json", a.document)
}
