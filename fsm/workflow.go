package fsm

import (
	"bytes"
	"cmp"

	"github.com/axd-project/axd/job"
)

// MaxWorkflowVersions is how many versions of a workflow are kept, besides those
// that runs still use.
const MaxWorkflowVersions = 100

// Workflow is a definition in its newest version, or as of another one.
type Workflow struct {
	Namespace   string `msgpack:"n"`
	Name        string `msgpack:"N"`
	Version     uint64 `msgpack:"v"`
	Created     int64  `msgpack:"c"`
	Updated     int64  `msgpack:"u"`
	Steps       int    `msgpack:"s"` // in all sections
	Description string `msgpack:"d,omitempty"`
	App         string `msgpack:"a,omitempty"`
	Owner       string `msgpack:"o,omitempty"`
	FileSet     string `msgpack:"f,omitempty"` // whose files describe it; empty: no file does
	// Deleted: only versions that runs use are left of it.
	Deleted bool `msgpack:"x,omitempty"`

	Spec *job.WorkflowSpec `msgpack:"-"` // a row of its own; lists leave it out
}

// workflowRow is the value of tableWorkflowVersions.
type workflowRow struct {
	Created int64            `msgpack:"c"`
	Spec    job.WorkflowSpec `msgpack:"s"`
}

func (k key) workflow(namespace, name string) key {
	return k.table(tableWorkflows).name(namespace).name(name)
}

func (k key) workflowVersion(namespace, name string, version uint64) key {
	return k.table(tableWorkflowVersions).name(namespace).name(name).u64(version)
}

// GetWorkflow reads a workflow in its newest version.
func GetWorkflow(r Reader, namespace, name string) (Workflow, bool) {
	w, ok := getRow[Workflow](r, key{}.workflow(namespace, name))
	if !ok || w.Deleted {
		return Workflow{}, false
	}
	return GetWorkflowVersion(r, namespace, name, w.Version)
}

// GetWorkflowVersion reads a workflow as of a version that is kept.
func GetWorkflowVersion(r Reader, namespace, name string, version uint64) (Workflow, bool) {
	w, ok := getRow[Workflow](r, key{}.workflow(namespace, name))
	if !ok {
		return Workflow{}, false
	}
	row, ok := getRow[workflowRow](r, key{}.workflowVersion(namespace, name, version))
	if !ok {
		return Workflow{}, false
	}
	w.describe(&row.Spec)
	w.Version, w.Updated, w.Spec = version, row.Created, &row.Spec
	return w, true
}

// describe notes what lists show of a definition.
func (w *Workflow) describe(spec *job.WorkflowSpec) {
	w.Steps, w.Description, w.App, w.Owner = spec.Count(), spec.Description, spec.App, spec.Owner
}

// ListWorkflows reads a page of at most limit workflows by name, without their
// definitions; an empty namespace means all of them.
func ListWorkflows(r Reader, namespace, cursor string, limit int) (workflows []Workflow, next string, err error) {
	prefix := key{tableWorkflows}
	if namespace != "" {
		prefix = prefix.name(namespace)
	}
	rows, next, err := listRows[Workflow](r, prefix, cursor, limit)
	for _, w := range rows {
		if !w.Deleted {
			workflows = append(workflows, w)
		}
	}
	return workflows, next, err
}

func (a *apply) workflow(namespace, name string) (*Workflow, bool) {
	a.key = a.key.workflow(namespace, name)
	return stored[Workflow](a, a.key)
}

func (a *apply) writeWorkflow(w *Workflow) {
	a.key = a.key.workflow(w.Namespace, w.Name)
	a.set(a.key, mustEncode(a.codec, w))
}

// putWorkflow gives a workflow a new version; an equal definition changes nothing.
func (a *apply) putWorkflow(c *PutWorkflow) Result {
	if err := checkNames(c.Namespace, "name", c.Name); err != nil {
		return rejected(err)
	}
	if err := a.validWorkflow(c.Namespace, c.Name, &c.Spec); err != nil {
		return rejected(err)
	}
	if err := a.leadsBackToWorkflow(c.Namespace, c.Name, &c.Spec); err != nil {
		return rejected(err)
	}
	if c.FileSet != "" {
		if err := job.ValidateName("file_set", c.FileSet); err != nil {
			return rejected(err)
		}
	}
	row := workflowRow{Created: a.now, Spec: c.Spec}
	w := &Workflow{Namespace: c.Namespace, Name: c.Name, Version: 1, Created: a.now, Updated: a.now, FileSet: c.FileSet}
	var before *job.WorkflowSpec
	if old, ok := a.workflow(c.Namespace, c.Name); ok {
		w.Version = old.Version + 1
		if !old.Deleted {
			w.Created, w.FileSet = old.Created, cmp.Or(c.FileSet, old.FileSet)
			before = &a.graph(w.Namespace, w.Name, old.Version).spec
		}
		if !old.Deleted && a.sameWorkflow(old, &c.Spec) {
			if old.FileSet != w.FileSet {
				old.FileSet = w.FileSet
				a.writeWorkflow(old)
			}
			return Result{Version: old.Version}
		}
	}
	a.moveNames(w, before, &c.Spec)
	w.describe(&c.Spec)
	a.writeWorkflow(w)
	value := mustEncode(a.codec, &row)
	a.key = a.key.workflowVersion(w.Namespace, w.Name, w.Version)
	a.set(a.key, value)
	if w.Version > MaxWorkflowVersions {
		a.dropVersion(w, w.Version-MaxWorkflowVersions)
	}
	return Result{Version: w.Version, Changed: true}
}

// moveNames notes what a workflow names now; nil: nothing.
func (a *apply) moveNames(w *Workflow, was, is *job.WorkflowSpec) {
	a.moveRows(workflowJobs(w, was), workflowJobs(w, is))
	a.moveRows(namedByWorkflow(w.Namespace, w.Name, was), namedByWorkflow(w.Namespace, w.Name, is))
}

// workflowJobs are the rows of tableWorkflowJobs that a workflow has.
func workflowJobs(w *Workflow, spec *job.WorkflowSpec) map[string]bool {
	rows := map[string]bool{}
	if spec != nil {
		for _, name := range jobsOf(spec) {
			rows[string(key{}.workflowJob(w.Namespace, name, w.Name))] = true
		}
	}
	return rows
}

// jobsOf are the jobs that a definition names, each once.
func jobsOf(spec *job.WorkflowSpec) (jobs []string) {
	seen := map[string]bool{"": true}
	for _, section := range spec.Sections() {
		for i := range section.Steps {
			if name := section.Steps[i].Job; !seen[name] {
				seen[name] = true
				jobs = append(jobs, name)
			}
		}
	}
	return jobs
}

// workflowOf finds a workflow that names a job.
func (a *apply) workflowOf(namespace, name string) (workflow string, found bool) {
	p := key{tableWorkflowJobs}.name(namespace).name(name)
	a.tx.Ascend(p, prefixEnd(p), func(k, _ []byte) bool {
		kr := keyReader{rest: k[len(p):]}
		workflow, found = kr.name(), true
		return false
	})
	return workflow, found
}

func (a *apply) sameWorkflow(old *Workflow, spec *job.WorkflowSpec) bool {
	a.key = a.key.workflowVersion(old.Namespace, old.Name, old.Version)
	row, ok := stored[workflowRow](a, a.key)
	if !ok {
		damaged(a.key)
	}
	was := bytes.Clone(mustEncode(a.codec, &row.Spec))
	return bytes.Equal(was, mustEncode(a.codec, spec))
}

// runsOf is how many runs, ended ones included, use a version.
func (a *apply) runsOf(namespace, name string, version uint64) int64 {
	a.key = a.key.counter(countRunVersion).name(namespace).name(name).u64(version)
	return a.counter(a.key).value
}

// dropVersion deletes a version, unless runs use it: then the last of them does.
func (a *apply) dropVersion(w *Workflow, version uint64) {
	if a.runsOf(w.Namespace, w.Name, version) > 0 {
		return
	}
	a.key = a.key.workflowVersion(w.Namespace, w.Name, version)
	a.delete(a.key)
	delete(a.graphs, graphKey{w.Namespace, w.Name, version})
}

// deleteWorkflow removes a workflow; of its versions those stay that runs use.
func (a *apply) deleteWorkflow(c *DeleteWorkflow) Result {
	w, ok := a.workflow(c.Namespace, c.Name)
	if !ok || w.Deleted {
		return rejected(job.NotFound("workflow", c.Name))
	}
	if err := a.firedBy(relFiresWorkflow, "workflow", c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	if err := a.notWaitedFor(relWorkflow, c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	if err := a.namedBy(namedWorkflow, c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	a.moveNames(w, &a.graph(w.Namespace, w.Name, w.Version).spec, nil)
	w.Deleted = true
	for _, v := range a.workflowVersions(w) {
		a.dropVersion(w, v)
	}
	a.keepDeleted(w)
	return Result{Changed: true}
}

// keepDeleted writes a deleted workflow as long as runs use a version of it.
func (a *apply) keepDeleted(w *Workflow) {
	if len(a.workflowVersions(w)) > 0 {
		a.writeWorkflow(w)
		return
	}
	a.key = a.key.workflow(w.Namespace, w.Name)
	a.delete(a.key)
}

// workflowVersions lists the versions that are kept.
func (a *apply) workflowVersions(w *Workflow) (versions []uint64) {
	prefix := key{tableWorkflowVersions}.name(w.Namespace).name(w.Name)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		kr := keyReader{rest: k[len(prefix):]}
		versions = append(versions, kr.u64())
		return true
	})
	return versions
}

// releaseVersion drops a version that was kept for a run alone, after that run is
// gone.
func (a *apply) releaseVersion(namespace, name string, version uint64) {
	if a.runsOf(namespace, name, version) > 0 {
		return
	}
	w, ok := a.workflow(namespace, name)
	switch {
	case !ok:
	case w.Deleted:
		a.dropVersion(w, version)
		a.keepDeleted(w)
	case version+MaxWorkflowVersions <= w.Version:
		a.dropVersion(w, version)
	}
}
