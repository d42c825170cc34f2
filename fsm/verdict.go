package fsm

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job"
)

// A step of which something must be computed waits for a verdict of the leader once
// its rule holds: apply runs no expressions. What the verdict was computed from is
// what the step saw when it began to wait; where that has changed since, the step
// has gone back and waits under another number, so an old verdict is refused.

// want has a step wait for a verdict.
func (a *apply) want(h *heldRun, n uint32, s *heldStep) {
	if s.Now != NoOutcome {
		a.moveStep(h, s, job.Blocked, "")
	}
	h.Wants++
	s.Phase, s.Want = StepWanted, h.Wants
	a.change(h, s)
	a.key = a.key.stepWanted(h.Ref(), n)
	a.set(a.key, nil)
	a.event(Event{Kind: EventStepWanted, Run: new(h.Run)})
}

// stepVerdict does with a step what was computed.
func (a *apply) stepVerdict(c *StepVerdict) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	h, err := a.runFor(c.Ref)
	switch {
	case err != nil:
		return rejected(err)
	case int(c.Step) >= len(h.graph.steps) || h.Act.Kind == ActCreate:
		return rejected(stale("step", "is none of the run", strconv.Itoa(int(c.Step))))
	}
	s := a.step(h, c.Step)
	switch {
	case h.stopped(c.Step):
		return rejected(stale("step", "begins no more, since the run is being ended", strconv.Itoa(int(c.Step))))
	case !s.WaitsForVerdict() || s.Want != c.Want || s.Made() != c.Made:
		return rejected(stale("want", "is not what the step waits for", strconv.FormatUint(c.Want, 10)))
	}
	if err := c.check(h.graph.steps[c.Step]); err != nil {
		return rejected(err)
	}
	// Nothing is written before here.
	early := h.early(c.Step, s)
	a.holdBack(h, c.Step, s)
	if early {
		return Result{Run: new(h.Run)}
	}
	s.Judged = true
	switch {
	case s.making() && (c.Fail != "" || c.Skip != "" || c.Total != s.Fan.Total):
		a.stopMaking(h, c.Step, s, cmp.Or(c.Fail, c.Skip, "its items have changed while they were made"))
	case s.making():
		a.key = a.key.stepWanted(h.Ref(), c.Step)
		a.delete(a.key)
		a.fanOut(h, c, s)
	case c.Fail != "":
		a.moveStep(h, s, job.Failed, cut(c.Fail))
	case c.Skip != "":
		a.moveStep(h, s, job.Skipped, cut(c.Skip))
	case h.graph.steps[c.Step].ForEach != nil:
		a.fanOut(h, c, s)
	case h.graph.steps[c.Step].Workflow != "":
		a.startChild(h, c, s)
	default:
		a.beginJudged(h, c, s)
	}
	a.touch(h)
	a.advance()
	return Result{Run: new(h.Run)}
}

// early reports whether a step waits to begin whose section's time has gone again:
// one before it has been opened by hand. It is looked at when its time comes back.
func (h *heldRun) early(n uint32, s *heldStep) bool {
	return s.Phase == StepWanted && !s.Fixed && h.verdict(n, &s.Step) != job.DecideBegin
}

// Made is how many items a step has that waits for more of them.
func (s *Step) Made() uint32 {
	if s.making() {
		return s.Fan.Made
	}
	return 0
}

// check refuses a verdict that can't be one of the step's.
func (c *StepVerdict) check(s *job.Step) *job.Error {
	fan := s.ForEach != nil && c.Fail == "" && c.Skip == ""
	left := int(c.Total) - int(c.Made)
	switch {
	case len(c.Items) > MaxItemsPart, len(c.Items) > 0 && !fan, fan && (left < len(c.Items) || left > 0 && len(c.Items) == 0):
		return job.Invalid("items", fmt.Sprintf("must be the next of %d, at most %d", c.Total, MaxItemsPart), strconv.Itoa(len(c.Items)))
	case len(c.Payload) > job.MaxPayload:
		return job.Invalid("payload", "must be at most "+strconv.Itoa(job.MaxPayload)+" bytes", strconv.Itoa(len(c.Payload)))
	}
	for _, payload := range c.Items {
		if len(payload) > job.MaxPayload {
			return job.Invalid("items", "must be at most "+strconv.Itoa(job.MaxPayload)+" bytes each", strconv.Itoa(len(payload)))
		}
	}
	return nil
}

// beginJudged begins a step with what was computed for it.
func (a *apply) beginJudged(h *heldRun, c *StepVerdict, s *heldStep) {
	if len(c.Payload) > 0 {
		if err := a.setPayload(a.taskOf(h, s), c.Payload); err != nil {
			a.moveStep(h, s, job.Failed, cut("its payload: "+err.Error()))
			return
		}
	}
	a.ready(h, c.Step, s)
}

// setPayload gives a task that has not begun another payload.
func (a *apply) setPayload(old *Task, payload []byte) *job.Error {
	t := new(Task)
	*t = *old
	if policy := a.policy(t); policy.Concurrency != nil || policy.Rate != nil {
		if err := t.keyLimits(&policy, payload); err != nil {
			return err
		}
	}
	t.Body, t.HasBody = nil, false
	a.putBody(t, &Body{Payload: payload})
	if old.HasBody && !t.HasBody {
		a.key = a.key.body(t.Ref())
		a.delete(a.key)
	}
	a.write(old, t)
	return nil
}

// WantedStep names a step that waits for a verdict.
type WantedStep struct {
	Run    RunRef
	Number uint32
}

// ListWantedSteps reads up to limit steps that wait for a verdict, after one of them;
// nil: from the first.
func ListWantedSteps(r Reader, after *WantedStep, limit int) (steps []WantedStep) {
	from := key{tableStepWanted}
	if after != nil {
		from = append(key{}.stepWanted(after.Run, after.Number), 0)
	}
	r.Ascend(from, tableEnd(tableStepWanted), func(k, _ []byte) bool {
		kr := readKey(k)
		steps = append(steps, WantedStep{kr.runRef(), kr.u32()})
		return len(steps) < limit
	})
	return steps
}

// GetStep reads what a run knows of a step.
func GetStep(r Reader, run RunRef, n uint32) (Step, bool) {
	return getRow[Step](r, key{}.step(run, n))
}

// OrderedSteps are the steps of a workflow by the numbers that its runs give them.
func OrderedSteps(spec *job.WorkflowSpec) (steps []*job.Step, number map[string]uint32) {
	g := newGraph(spec)
	return g.steps, g.number
}
