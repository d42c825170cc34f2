package fsm

import (
	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/job"
)

// WorkflowVersion is a kept version of a workflow.
type WorkflowVersion struct {
	Version uint64
	Created int64 // Unix ms
}

// ListWorkflowVersions reads which versions are kept of a workflow, the oldest
// first.
func ListWorkflowVersions(r Reader, namespace, name string) (versions []WorkflowVersion) {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	prefix := key{tableWorkflowVersions}.name(namespace).name(name)
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		var row struct {
			Created int64              `msgpack:"c"`
			Spec    msgpack.RawMessage `msgpack:"s"`
		}
		mustDecode(c, k, v, &row)
		versions = append(versions, WorkflowVersion{(&keyReader{rest: k[len(prefix):]}).u64(), row.Created})
		return true
	})
	return versions
}

// RunGraph is a run's workflow with the steps' numbers.
type RunGraph struct{ graph *graph }

// GetRunGraph reads the version of the workflow that a run has.
func GetRunGraph(r Reader, run *Run) (RunGraph, bool) {
	w, ok := GetWorkflowVersion(r, run.Namespace, run.Workflow, run.WorkflowVersion)
	if !ok {
		return RunGraph{}, false
	}
	return RunGraph{newGraph(w.Spec)}, true
}

// Spec returns the definition.
func (g RunGraph) Spec() *job.WorkflowSpec { return &g.graph.spec }

// Step returns a step's definition and its section, by its number.
func (g RunGraph) Step(n uint32) (step *job.Step, section string) {
	return g.graph.steps[n], g.graph.spec.Sections()[g.graph.section(n)].Name
}

// Number finds a step by its name.
func (g RunGraph) Number(name string) (uint32, bool) {
	n, ok := g.graph.number[name]
	return n, ok
}

// GetRunStep reads a step of a run with its task.
func GetRunStep(r Reader, ref RunRef, number uint32) (RunStep, bool) {
	s, ok := getRow[Step](r, key{}.step(ref, number))
	if !ok {
		return RunStep{}, false
	}
	t, ok := GetTask(r, TaskRef{ref.Namespace, s.Task})
	return RunStep{Number: number, Step: s, Record: t}, ok
}
