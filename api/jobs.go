package api

import (
	"net/http"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// putJob creates a job or gives it a new version.
func (a *api) putJob(r *request) error {
	var in client.Job
	name, err := r.readDefinition(&in, head{&in.Name, &in.Namespace, &in.FileSet})
	if err != nil {
		return err
	}
	if err := in.Spec.Validate(); err != nil {
		return err
	}
	out := client.Job{Namespace: r.namespace, Name: name, Spec: in.Spec}
	put := fsm.PutJob{Namespace: r.namespace, Name: name, Spec: in.Spec, FileSet: in.FileSet}
	status, err := a.storeDefinition(r, put, &out.Version, func(v fsm.Reader) {
		if j, ok := fsm.GetJob(v, r.namespace, name); ok && j.Version == out.Version {
			out = showJob(j)
		}
	})
	if err != nil {
		return err
	}
	return write(r, status, out)
}

func (a *api) pauseJob(r *request) error {
	reason, err := r.pauseReason()
	if err != nil {
		return err
	}
	name := r.name("name")
	if _, err := a.propose(r.ctx, fsm.PauseJob{Namespace: r.namespace, Name: name, Reason: reason, Actor: actorOf(r.ctx)}); err != nil {
		return err
	}
	return a.answerJob(r, a.fresh)
}

func (a *api) resumeJob(r *request) error {
	if err := decode(r.body, &struct{}{}); err != nil {
		return err
	}
	if _, err := a.propose(r.ctx, fsm.PauseJob{Namespace: r.namespace, Name: r.name("name"), Resume: true}); err != nil {
		return err
	}
	return a.answerJob(r, a.fresh)
}

func (a *api) getJob(r *request) error { return a.answerJob(r, a.read) }

// answerJob answers with a job and the number of its tasks.
func (a *api) answerJob(r *request, read func(*request, func(fsm.Reader) error) error) error {
	name := r.name("name")
	var out client.Job
	err := read(r, func(v fsm.Reader) error {
		j, ok := fsm.GetJob(v, r.namespace, name)
		if !ok {
			return job.NotFound("name", name)
		}
		out = showJob(j)
		out.Tasks = showCounts(fsm.CountJobTasks(v, r.namespace, name))
		dead := fsm.CountDead(v, r.namespace, name)
		out.DeadLetters = &dead
		return nil
	})
	if err != nil {
		return err
	}
	return write(r, http.StatusOK, out)
}

func (a *api) listJobs(r *request) error {
	var out client.JobList
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		jobs, next, err := fsm.ListJobs(v, r.namespace, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		out = client.JobList{Jobs: make([]client.Job, 0, len(jobs)), NextCursor: next}
		for _, j := range jobs {
			out.Jobs = append(out.Jobs, showJob(j))
		}
		return nil
	})
}

func (a *api) deleteJob(r *request) error {
	if _, err := a.propose(r.ctx, fsm.DeleteJob{Namespace: r.namespace, Name: r.name("name")}); err != nil {
		return err
	}
	return r.NoContent(http.StatusNoContent)
}

// showCounts names counters by their stored state, those that are zero too.
func showCounts(counts fsm.Counts) map[string]int64 {
	out := make(map[string]int64, len(job.States))
	for _, state := range job.States {
		out[state.String()] = counts[state]
	}
	return out
}
