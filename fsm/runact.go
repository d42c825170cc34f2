package fsm

import "github.com/axd-project/axd/job"

// goOnAct does an act's next step; false: it is none that goes on by itself.
func (a *apply) goOnAct(h *heldRun) bool {
	a.changeRun(h)
	var done bool
	n := h.Act.At
	h.Act.At++
	switch h.Act.Kind {
	case ActOpen:
		done = n >= h.graph.first[h.Phase+1]
		if !done {
			a.open(h, n)
		}
	case ActRerun:
		done = int(n) >= len(h.graph.steps)
		if !done {
			a.rerunStep(h, n)
		}
	case ActStop:
		done = n >= h.graph.first[h.StopTo]
		if !done && a.stopStep(h, n) {
			h.Act.At = n
		} else {
			h.Act.Item = 0 // of the next step, also where this one ended with its last item
		}
	default:
		h.Act.At = n
		return false
	}
	if done {
		h.Act, h.reached = RunAct{}, nil
	}
	return true
}

// createNext makes the task of the next step. When all are there, those begin that
// need none.
func (a *apply) createNext(h *heldRun) {
	a.changeRun(h)
	n := h.Act.At
	if int(n) == len(h.graph.steps) {
		h.Act = RunAct{Kind: ActOpen}
		if h.Stop != 0 {
			h.Act.Kind = ActStop
		}
		return
	}
	h.Act.At++
	step := h.graph.steps[n]
	t, err := a.stepTask(h, step, step.Payload)
	if len(step.Payload) > 0 && step.ForEach == nil && !job.HoldsExpression(step.Payload) {
		a.putBody(t, &Body{Payload: step.Payload})
	}
	s := &heldStep{Step: Step{Task: t.ID}, number: n}
	h.steps[n] = s
	a.heldSteps++
	a.change(h, s)
	a.write(nil, t)
	if err != nil {
		a.moveStep(h, s, job.Failed, cut("it could not be made: "+err.Error()))
	}
}

// stepTask returns a new task of a step, which is blocked. What its job refuses is an
// error, and the task is there all the same.
func (a *apply) stepTask(h *heldRun, step *job.Step, payload []byte) (*Task, *job.Error) {
	t := new(Task)
	spec := job.TaskSpec{Job: step.Job, Policy: step.Policy, Payload: payload}
	var err *job.Error
	if step.Workflow == "" {
		err = a.plan(h.Namespace, &spec, t)
	}
	if err == nil && t.IsBroadcast() {
		err = noBroadcast()
	}
	if step.Workflow != "" || err != nil { // the job has changed since
		*t = Task{Namespace: h.Namespace, Job: step.Job, Policy: step.Policy, Due: a.now, Created: a.now}
		t.Policy.Priority = step.PriorityOrDefault()
	}
	t.ID = job.NewID(a.now, a.at.Index, a.next())
	t.State, t.Run, t.Step, t.QueueBy, t.EndBy = job.Blocked, h.ID, step.Name, 0, 0
	if h.Priority != 0 {
		t.Policy.Priority = h.Priority
	}
	a.nameOwner(h, t)
	return t, err
}

// nameOwner gives a task the app and owner of its workflow, where its job has none.
func (a *apply) nameOwner(h *heldRun, t *Task) {
	w := &h.graph.spec
	if w.App == "" && w.Owner == "" {
		return
	}
	p := a.policy(t)
	if p.App == "" {
		t.Policy.App = w.App
	}
	if p.Owner == "" {
		t.Policy.Owner = w.Owner
	}
}

// open visits a step of the section whose time has come, if that may change it.
func (a *apply) open(h *heldRun, n uint32) {
	if h.Phase == sectionMain && len(h.graph.parents[n]) > 0 && h.graph.steps[n].Rule != job.Always {
		return
	}
	a.toVisit(h, n, a.step(h, n))
}

// stopStep cancels a step that has not ended; true: there is more of it to cancel.
func (a *apply) stopStep(h *heldRun, n uint32) bool {
	s := a.step(h, n)
	if s.Now != NoOutcome {
		return false
	}
	if s.Fan != nil && s.Phase == StepBegun {
		return a.stopFan(h, n, s)
	}
	if !s.Child.IsZero() && s.Phase == StepBegun {
		a.stopChild(h, s.Child)
		return false
	}
	if t := a.taskOf(h, s); !t.CancelRequested {
		a.cancelTask(t, h.Error)
	}
	return false
}

// rerunStep has a step run again, where the rerun is about it.
func (a *apply) rerunStep(h *heldRun, n uint32) {
	act := &h.Act
	if h.graph.section(n) == sectionMain && act.Mode != RerunFailed {
		if h.reached == nil {
			h.reached = h.graph.below(act.From)
		}
		if !h.reached[n] {
			return
		}
	}
	s := a.step(h, n)
	switch {
	case s.Now == NoOutcome: // it has begun since, or is about to
	case h.graph.section(n) != sectionMain, act.Mode == RerunFrom, s.Now == FailedOutcome:
		a.resetStep(h, s)
	}
}

// resetStep takes a step back to where it had not begun, with all its retries. Its
// attempts stay, and the next ones get higher numbers and tokens.
func (a *apply) resetStep(h *heldRun, s *heldStep) {
	s.Fixed, s.Alone, s.Judged, s.Phase = false, false, false, StepWaits
	s.Child = job.ID{}
	if f := s.Fan; f != nil { // the tasks of its items stay, and the next ones get higher numbers
		s.Fan = &Fan{First: f.First + f.Made}
	}
	a.change(h, s)
	a.moveStep(h, s, job.Blocked, "")
}

// nextPhase opens the next section of a run when the one before has ended, and ends
// the run after the last; false: there is nothing left to do.
func (a *apply) nextPhase(h *heldRun) bool {
	switch {
	case h.State.Terminal(), h.Open[h.Phase] > 0:
		return false
	case h.Phase == sectionFinally:
		a.endRun(h)
		return false
	}
	a.changeRun(h)
	h.Phase++
	h.Act = RunAct{Kind: ActOpen, At: h.graph.first[h.Phase]}
	if h.Phase == sectionOnFailure {
		h.OnFailure = h.Stop == job.RunTimedOut || h.Stop == 0 && h.Failed > 0
	}
	return true
}

// endRun ends a run whose steps have ended; see job.RunState for the rule.
func (a *apply) endRun(h *heldRun) {
	a.changeRun(h)
	switch {
	case h.Stop != 0:
		h.State = h.Stop
	case h.Failed > 0:
		h.State = job.RunFailed
	default:
		h.State = job.RunSuccess
	}
	h.Ended, h.EndBy = a.now, 0
	a.event(Event{Kind: EventRunEnded, Run: new(h.Run)})
	a.childEnded(h)
	if h.Trigger.Schedule != "" {
		a.runMoved(&h.Run)
	}
	if h.State == job.RunSuccess && len(a.awaited) > 0 {
		a.runSucceeded(&h.Run)
	}
}

// reopen notes that a step of a section is open again.
func (a *apply) reopen(h *heldRun, section int) {
	h.Phase = min(h.Phase, uint8(section)) //nolint:gosec // of three
	if h.State.Terminal() {
		a.runAgain(h)
	}
}

// runAgain takes a run back to running.
func (a *apply) runAgain(h *heldRun) {
	a.touch(h)
	again := h.State.Terminal()
	h.State, h.Ended, h.Error = job.RunRunning, 0, ""
	if again && h.Trigger.Schedule != "" {
		a.runMoved(&h.Run)
	}
	h.Stop, h.StopTo = 0, 0
	if d := h.graph.spec.Timeout; d != nil && *d > 0 {
		h.EndBy = d.Until(a.now)
	}
}
