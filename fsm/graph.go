package fsm

import (
	"container/heap"
	"fmt"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// graph is a version of a workflow, made ready for its runs to advance. Its steps
// are numbered so that each comes behind all that it needs, section after section.
type graph struct {
	spec     job.WorkflowSpec
	steps    []*job.Step
	number   map[string]uint32
	children [][]uint32 // that need a step, ascending
	parents  [][]uint32
	computed []bool               // a step needs a verdict of the leader
	first    [sections + 1]uint32 // of each section, and the end
	jobs     []string             // that its steps name, each once
	subs     []string             // workflows, likewise
}

// The sections of a run, in the order in which they begin.
const (
	sectionMain      = 0
	sectionOnFailure = 1
	sectionFinally   = 2
	sections         = 3
)

type graphKey struct {
	namespace, name string
	version         uint64
}

// maxGraphSteps bounds the steps and needs of the graphs that a machine remembers.
const maxGraphSteps = 1 << 18

// newGraph orders the steps of a valid workflow. Of the steps that could be next,
// the one that is defined first is: the order is part of the format.
func newGraph(spec *job.WorkflowSpec) *graph {
	n := spec.Count()
	g := &graph{
		spec: *spec, steps: make([]*job.Step, 0, n), number: make(map[string]uint32, n),
		children: make([][]uint32, n), parents: make([][]uint32, n), computed: make([]bool, n),
	}
	g.jobs = jobsOf(spec)
	for i, section := range g.spec.Sections() {
		g.first[i] = uint32(len(g.steps)) //nolint:gosec // at most job.MaxSteps
		g.order(section.Steps)
	}
	g.first[sections] = uint32(len(g.steps)) //nolint:gosec // at most job.MaxSteps
	for i, s := range g.steps {
		g.computed[i] = s.Computed()
		for _, name := range s.Needs {
			p := g.number[name]
			g.parents[i] = append(g.parents[i], p)
			g.children[p] = append(g.children[p], uint32(i))
		}
		if s.Workflow != "" && !slices.Contains(g.subs, s.Workflow) {
			g.subs = append(g.subs, s.Workflow)
		}
	}
	return g
}

// order numbers the steps of a section.
func (g *graph) order(steps []job.Step) {
	at := make(map[string]int, len(steps))
	for i := range steps {
		at[steps[i].Name] = i
	}
	missing := make([]int, len(steps))
	needed := make([][]int, len(steps))
	var ready intHeap
	for i := range steps {
		missing[i] = len(steps[i].Needs)
		for _, name := range steps[i].Needs {
			needed[at[name]] = append(needed[at[name]], i)
		}
		if missing[i] == 0 {
			ready = append(ready, i)
		}
	}
	for len(ready) > 0 {
		i := heap.Pop(&ready).(int)
		g.number[steps[i].Name] = uint32(len(g.steps)) //nolint:gosec // at most job.MaxSteps
		g.steps = append(g.steps, &steps[i])
		for _, child := range needed[i] {
			if missing[child]--; missing[child] == 0 {
				heap.Push(&ready, child)
			}
		}
	}
}

type intHeap []int

func (h intHeap) Len() int           { return len(h) }
func (h intHeap) Less(i, j int) bool { return h[i] < h[j] }
func (h intHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *intHeap) Push(x any)        { *h = append(*h, x.(int)) }
func (h *intHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// section is where a step belongs.
func (g *graph) section(n uint32) int {
	for s := range sections - 1 {
		if n < g.first[s+1] {
			return s
		}
	}
	return sectionFinally
}

// sizes are the numbers of steps by section.
func (g *graph) sizes() (n [sections]uint32) {
	for s := range n {
		n[s] = g.first[s+1] - g.first[s]
	}
	return n
}

// below are the steps that depend on a step, itself included.
func (g *graph) below(n uint32) []bool {
	reached := make([]bool, len(g.steps))
	reached[n] = true
	for i := n; int(i) < len(reached); i++ { // children have higher numbers
		if reached[i] {
			for _, c := range g.children[i] {
				reached[c] = true
			}
		}
	}
	return reached
}

func (g *graph) weight() int {
	n := len(g.steps)
	for _, c := range g.children {
		n += len(c)
	}
	return n
}

// graph reads a version of a workflow through the cache.
func (a *apply) graph(namespace, name string, version uint64) *graph {
	k := graphKey{namespace, name, version}
	if g, ok := a.graphs[k]; ok {
		return g
	}
	a.key = a.key.workflowVersion(namespace, name, version)
	row, ok := stored[workflowRow](a, a.key)
	if !ok {
		damaged(a.key)
	}
	g := newGraph(&row.Spec)
	if a.graphSteps += g.weight(); a.graphSteps > maxGraphSteps {
		a.graphs, a.graphSteps = map[graphKey]*graph{}, g.weight()
	}
	a.graphs[k] = g
	return g
}

// maxWorkflowNames bounds the rows that a workflow has in tableWorkflowJobs and
// tableNamed: a change of all of them fits an apply.
const maxWorkflowNames = 490

// validWorkflow checks a definition, and that what it names exists.
func (a *apply) validWorkflow(namespace, name string, spec *job.WorkflowSpec) *job.Error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if n := len(jobsOf(spec)) + len(namedByWorkflow(namespace, name, spec)); n > maxWorkflowNames {
		return job.Invalid("steps", "must name at most "+strconv.Itoa(maxWorkflowNames)+" different jobs, workflows and secrets", strconv.Itoa(n))
	}
	for _, section := range spec.Sections() {
		for i := range section.Steps {
			if err := a.validStep(namespace, &section.Steps[i]); err != nil {
				return err.At(fmt.Sprintf("%s[%d]", section.Name, i))
			}
		}
	}
	return a.validSubs(namespace, name, spec)
}

func (a *apply) validStep(namespace string, s *job.Step) *job.Error {
	if s.Workflow != "" {
		return nil // see validSubs
	}
	j, ok := a.job(namespace, s.Job)
	if !ok {
		return job.Invalid("job", "must be a job that exists", s.Job)
	}
	policy := j.Spec.Policy.Merge(s.Policy)
	if policy.Broadcasts() {
		return noBroadcast()
	}
	if err := policy.ValidateFor(j.Spec.Kind()); err != nil {
		return err
	}
	return a.hasSecret(namespace, &policy)
}

func noBroadcast() *job.Error {
	return job.Invalid("route.strategy", "must not be that of a step of a workflow, whose job it is: give the step a route of its own",
		string(job.Broadcast))
}
