package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// MaxJobVersions is how many versions of a job are kept.
const MaxJobVersions = 100

func (a *apply) putJob(c *PutJob) Result {
	if err := checkNames(c.Namespace, "name", c.Name); err != nil {
		return rejected(err)
	}
	if err := c.Spec.Validate(); err != nil {
		return rejected(err)
	}
	if err := a.hasSecret(c.Namespace, &c.Spec.Policy); err != nil {
		return rejected(err)
	}
	if c.FileSet != "" {
		if err := job.ValidateName("file_set", c.FileSet); err != nil {
			return rejected(err)
		}
	}
	j := &Job{Namespace: c.Namespace, Name: c.Name, Version: 1, Spec: c.Spec, Created: a.now, Updated: a.now, FileSet: c.FileSet}
	var was names
	if old, ok := a.job(c.Namespace, c.Name); ok {
		j.Paused = old.Paused
		if c.FileSet == "" {
			j.FileSet = old.FileSet
		}
		spec := bytes.Clone(mustEncode(a.codec, &c.Spec))
		if bytes.Equal(spec, mustEncode(a.codec, &old.Spec)) {
			if j.FileSet != old.FileSet {
				j.Version, j.Created, j.Updated = old.Version, old.Created, old.Updated
				a.writeJob(j)
			}
			return Result{Version: old.Version}
		}
		j.Version, j.Created = old.Version+1, old.Created
		was = namedByJob(c.Namespace, c.Name, &old.Spec)
	}
	a.moveRows(was, namedByJob(c.Namespace, c.Name, &c.Spec))
	a.writeJob(j)
	if j.Version > MaxJobVersions {
		a.key = a.key.jobVersion(j.Namespace, j.Name, j.Version-MaxJobVersions)
		a.delete(a.key)
	}
	a.event(Event{Kind: EventJobChanged, Namespace: c.Namespace, Job: c.Name})
	return Result{Version: j.Version, Changed: true}
}

// writeJob writes a job's row and that of its version.
func (a *apply) writeJob(j *Job) {
	row := mustEncode(a.codec, j)
	a.key = a.key.job(j.Namespace, j.Name)
	a.set(a.key, row)
	a.key = a.key.jobVersion(j.Namespace, j.Name, j.Version)
	a.set(a.key, row)
	a.jobs[jobName{j.Namespace, j.Name}] = j
}

// checkNames checks a namespace and a name beside it.
func checkNames(namespace, field, name string) *job.Error {
	if err := job.ValidateNamespace(namespace); err != nil {
		return err
	}
	return job.ValidateName(field, name)
}
