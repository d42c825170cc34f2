package fsm

import (
	"fmt"
	"slices"

	"github.com/axd-project/axd/job"
)

// A step that names a workflow is a run of it. The step's own task stands for that
// run: it is never given to a worker, is blocked while the run goes on, and ends as
// it does. A child that is run again later changes what has become of the step.

// The limits of workflows within each other.
const (
	MaxRunDepth     = 16  // runs that are each a step of the one before
	maxSubWorkflows = 200 // that one may reach
)

// childKind is the RunTrigger.Kind of a run that is a step of another.
const childKind = "run"

// startChild starts the run that a step is.
func (a *apply) startChild(h *heldRun, c *StepVerdict, s *heldStep) {
	step := h.graph.steps[c.Step]
	if h.Depth+1 >= MaxRunDepth {
		a.moveStep(h, s, job.Failed, fmt.Sprintf("its run would be the %dth within another, of at most %d", h.Depth+2, MaxRunDepth))
		return
	}
	priority := step.Priority
	if priority == 0 {
		priority = h.Priority
	}
	trigger := RunTrigger{Kind: childKind, Run: h.ID, Step: step.Name, Nominal: h.Trigger.Nominal}
	child, err := a.startRun(h.Namespace, step.Workflow, c.Params, trigger, priority)
	if err != nil {
		a.moveStep(h, s, job.Failed, cut("its run could not be started: "+err.Error()))
		return
	}
	child.Depth = h.Depth + 1
	s.Phase, s.Fixed, s.Child = StepBegun, false, child.ID
	a.change(h, s)
	a.markStarted(a.taskOf(h, s))
}

// childEnded ends the step that a run is.
func (a *apply) childEnded(child *heldRun) {
	if child.Trigger.Kind != childKind {
		return
	}
	h, ok := a.heldRun(RunRef{child.Namespace, child.Trigger.Run})
	if !ok || h.Act.Kind == ActDelete {
		return
	}
	s := a.step(h, h.graph.number[child.Trigger.Step])
	state := map[job.RunState]job.State{
		job.RunSuccess: job.Success, job.RunFailed: job.Failed, job.RunTimedOut: job.TimedOut, job.RunCancelled: job.Cancelled,
	}[child.State]
	if s.Child != child.ID || s.Phase != StepBegun || a.taskOf(h, s).State == state {
		return
	}
	if h.State.Terminal() { // the child was run again
		a.runAgain(h)
		h.Touched = true
	}
	why := ""
	if state != job.Success {
		why = "its run " + child.ID.String() + " ended " + child.State.String()
		if child.Error != "" {
			why += ": " + child.Error
		}
	}
	a.moveStep(h, s, state, cut(why))
	a.touch(h)
}

// stopChild cancels the run that a step is. The step ends with it.
func (a *apply) stopChild(h *heldRun, s *heldStep) {
	child, ok := a.heldRun(RunRef{h.Namespace, s.Child})
	if ok && !child.State.Terminal() && child.Stop == 0 {
		a.stopRun(child, job.RunCancelled, h.Error)
	}
}

// validSubs checks that the workflows that a definition names exist, and that none
// of them comes back to it.
func (a *apply) validSubs(namespace, name string, spec *job.WorkflowSpec) *job.Error {
	known := map[string]bool{} // that don't come back
	for _, section := range spec.Sections() {
		for i := range section.Steps {
			sub := section.Steps[i].Workflow
			if sub == "" || known[sub] {
				continue
			}
			if err := a.validSub(namespace, name, []string{name}, sub, known); err != nil {
				return err.At(job.StepPath(section.Name, i))
			}
		}
	}
	return nil
}

// validSub looks at a workflow that is reached by a path of others.
func (a *apply) validSub(namespace, name string, path []string, sub string, known map[string]bool) *job.Error {
	path = append(slices.Clone(path), sub)
	if sub == name {
		return job.Invalid("workflow", "must not lead back to itself: "+job.JoinPath(path), path[1])
	}
	w, ok := a.workflow(namespace, sub)
	if !ok || w.Deleted {
		if len(path) > 2 {
			return nil // it was deleted since; a run fails there
		}
		return job.Invalid("workflow", "must be a workflow that exists", sub)
	}
	if known[sub] = true; len(known) > maxSubWorkflows {
		return job.Invalid("workflow", fmt.Sprintf("must reach at most %d workflows, those of its steps included", maxSubWorkflows), path[1])
	}
	for _, next := range a.graph(namespace, sub, w.Version).subs {
		if !known[next] {
			if err := a.validSub(namespace, name, path, next, known); err != nil {
				return err
			}
		}
	}
	return nil
}
