package fsm

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/axd-project/axd/job"
)

// A step that names a workflow is a run of it, or one for each item of a list. The
// step's own task, or that of the item, stands for that run: it is never given to a
// worker, is blocked while the run goes on, and ends as it does. A child that is run
// again later changes what has become of the step.

// The limits of workflows within each other.
const (
	MaxRunDepth     = 16  // runs that are each a step of the one before
	maxSubWorkflows = 200 // that one may reach
)

// childKind is the RunTrigger.Kind of a run that is a step of another.
const childKind = "run"

// startChild starts the run that a step is.
func (a *apply) startChild(h *heldRun, c *StepVerdict, s *heldStep) {
	child, why := a.newChild(h, c.Step, 0, c.Params)
	if why != "" {
		a.moveStep(h, s, job.Failed, why)
		return
	}
	s.Phase, s.Fixed, s.Child = StepBegun, false, child
	a.change(h, s)
	a.markStarted(a.taskOf(h, s))
}

// startItemRun starts the run that an item of a step is.
func (a *apply) startItemRun(h *heldRun, n uint32, s *heldStep, t *Task) {
	body, _ := BodyOf(a.tx, t)
	child, why := a.newChild(h, n, t.Item, body.Payload)
	if why != "" {
		a.moveTask(t, job.Failed, why, false)
		return
	}
	a.key = a.key.items(h.Ref(), n).u32(t.Item)
	a.set(a.key, slices.Concat(t.ID[:], child[:]))
	s.Fan.Running++
	a.change(h, s)
	a.markStarted(t)
}

// newChild starts a run of the workflow that a step names, or says why it can't.
func (a *apply) newChild(h *heldRun, n, item uint32, params []byte) (id job.ID, why string) {
	step := h.graph.steps[n]
	if h.Depth+1 >= MaxRunDepth {
		return id, fmt.Sprintf("its run would be the %dth within another, of at most %d", h.Depth+2, MaxRunDepth)
	}
	trigger := RunTrigger{Kind: childKind, Run: h.ID, Step: step.Name, Item: item, Nominal: h.Trigger.Nominal}
	child, err := a.startRun(h.Namespace, step.Workflow, params, trigger, cmp.Or(step.Priority, h.Priority))
	if err != nil {
		return id, cut("its run could not be started: " + err.Error())
	}
	child.Depth = h.Depth + 1
	a.rows += maxRunRows // they are written when the entry ends
	return child.ID, ""
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
	state := map[job.RunState]job.State{
		job.RunSuccess: job.Success, job.RunFailed: job.Failed, job.RunTimedOut: job.TimedOut, job.RunCancelled: job.Cancelled,
	}[child.State]
	s, t := a.standIn(h, child)
	if t == nil || t.State == state {
		return
	}
	if t.State.Terminal() { // the child was run again
		h.Touched = true
		if h.State.Terminal() {
			a.runAgain(h)
		}
	}
	why := ""
	if state != job.Success {
		why = "its run " + child.ID.String() + " ended " + child.State.String()
		if child.Error != "" {
			why += ": " + child.Error
		}
	}
	if child.Trigger.Item != 0 && !t.State.Terminal() {
		s.Fan.Running--
		a.change(h, s)
	}
	a.moveTask(t, state, cut(why), false)
	a.touch(h)
}

// standIn finds the task that stands for a run; nil: none does any more.
func (a *apply) standIn(h *heldRun, child *heldRun) (*heldStep, *Task) {
	n := h.graph.number[child.Trigger.Step]
	s := a.step(h, n)
	item := child.Trigger.Item
	switch {
	case s.Phase != StepBegun:
	case item == 0 && s.Child == child.ID:
		return s, a.taskOf(h, s)
	case item != 0 && s.Fan != nil && item > s.Fan.First:
		if t, run := a.itemTask(h, n, item); run == child.ID {
			return s, t
		}
	}
	return s, nil
}

// stopChild cancels the run that a step is, or an item. That ends with it.
func (a *apply) stopChild(h *heldRun, id job.ID) {
	child, ok := a.heldRun(RunRef{h.Namespace, id})
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
