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

func (a *api) getJob(r *request) error {
	name := r.name("name")
	var out client.Job
	return a.answer(r, &out, func(v fsm.Reader) error {
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
