package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/expression"
	"github.com/axd-project/axd/job"
)

// computer computes verdicts from a view of the state. It remembers what it has
// compiled, and the parameters of the run that it looked at last.
type computer struct {
	flows    map[flowKey]*flow
	compiled int // steps in flows

	run    fsm.RunRef
	params any
}

type flowKey struct {
	namespace, name string
	version         uint64
}

// flow is a version of a workflow with those of its steps that were looked at.
type flow struct {
	steps  []*job.Step
	number map[string]uint32
	made   map[uint32]compiledStep
}

type compiledStep struct {
	step *expression.Step
	err  *job.Error
}

// flow reads a version of a workflow through the cache.
func (c *computer) flow(r fsm.Reader, run *fsm.Run) *flow {
	k := flowKey{run.Namespace, run.Workflow, run.WorkflowVersion}
	if f, ok := c.flows[k]; ok {
		return f
	}
	w, ok := fsm.GetWorkflowVersion(r, run.Namespace, run.Workflow, run.WorkflowVersion)
	if !ok {
		return nil
	}
	if c.flows == nil || len(c.flows) >= maxGraphs || c.compiled >= maxCompiled {
		c.flows, c.compiled = map[flowKey]*flow{}, 0
	}
	f := &flow{made: map[uint32]compiledStep{}}
	f.steps, f.number = fsm.OrderedSteps(w.Spec)
	c.flows[k] = f
	return f
}

func (c *computer) step(f *flow, n uint32) compiledStep {
	if s, ok := f.made[n]; ok {
		return s
	}
	var s compiledStep
	s.step, s.err = expression.CompileStep(f.steps[n])
	if c.compiled++; c.compiled <= 2*maxCompiled { // of one large workflow not all
		f.made[n] = s
	}
	return s
}

// verdict computes what a step waits for; false: it waits no more.
func (c *computer) verdict(r fsm.Reader, w fsm.WantedStep) (fsm.StepVerdict, bool) {
	v := fsm.StepVerdict{Ref: w.Run, Step: w.Number}
	run, ok := fsm.GetRun(r, w.Run)
	if !ok {
		return v, false
	}
	step, ok := fsm.GetStep(r, w.Run, w.Number)
	f := c.flow(r, &run)
	if !ok || step.Phase != fsm.StepWanted || f == nil || int(w.Number) >= len(f.steps) {
		return v, false
	}
	v.Want = step.Want
	made := c.step(f, w.Number)
	if made.err != nil {
		v.Fail = made.err.Error()
		return v, true
	}
	env, err := c.env(r, &run, f, made.step.Reads)
	if err != nil {
		v.Fail = err.Error()
		return v, true
	}
	c.judge(&v, f.steps[w.Number], made.step, env)
	return v, true
}

// judge fills in a verdict by what a step says.
func (c *computer) judge(v *fsm.StepVerdict, s *job.Step, made *expression.Step, env expression.Env) {
	if made.When != nil {
		switch is, err := made.When.EvalBool(env); {
		case err != nil:
			v.Fail = fmt.Sprintf("when: %v (of %s)", err, job.Shorten(s.When))
			return
		case !is:
			v.Skip = "when is false: " + job.Shorten(s.When)
			return
		}
	}
	if made.Payload == nil || !job.HoldsExpression(s.Payload) {
		return
	}
	payload, err := made.Payload.Render(env)
	switch {
	case err != nil:
		v.Fail = "payload: " + err.Error()
	case len(payload) > job.MaxPayload:
		v.Fail = fmt.Sprintf("payload: is %d bytes long once it is computed, more than %d", len(payload), job.MaxPayload)
	default:
		v.Payload = payload
	}
}

// env is what the expressions of a step may read.
func (c *computer) env(r fsm.Reader, run *fsm.Run, f *flow, reads []string) (expression.Env, error) {
	if c.run != run.Ref() {
		params := any(map[string]any{})
		if b := fsm.RunParams(r, run); len(b) > 0 {
			var err error
			if params, err = expression.FromJSON(b); err != nil {
				return nil, fmt.Errorf("params: %w", err)
			}
		}
		c.run, c.params = run.Ref(), params
	}
	steps := make(map[string]any, len(reads))
	left := maxRunOutput
	for _, name := range reads {
		n, ok := f.number[name]
		if !ok {
			continue // as the step's field of a misspelt one: null
		}
		v, size, err := readStep(r, run, n)
		if left -= size; err == nil && left < 0 {
			err = fmt.Errorf("the outputs that it reads are more than %d bytes long", maxRunOutput)
		}
		if err != nil {
			return nil, fmt.Errorf("steps.%s: %w", name, err)
		}
		steps[name] = v
	}
	var nominal any
	if run.Trigger.Nominal != 0 {
		nominal = job.FormatTime(run.Trigger.Nominal)
	}
	return expression.Env{
		expression.RootParams: c.params,
		expression.RootSteps:  steps,
		expression.RootRun: map[string]any{
			"id": run.ID.String(), "workflow": run.Workflow, "created": job.FormatTime(run.Created), "nominal": nominal,
		},
	}, nil
}

// readStep is what others may read of a step.
func readStep(r fsm.Reader, run *fsm.Run, n uint32) (v map[string]any, size int, err error) {
	step, ok := fsm.GetStep(r, run.Ref(), n)
	if !ok {
		return nil, 0, nil
	}
	t, ok := fsm.GetTask(r, fsm.TaskRef{Namespace: run.Namespace, ID: step.Task})
	if !ok {
		return nil, 0, nil
	}
	v = map[string]any{expression.StepState: t.State.String(), expression.StepOutput: nil, expression.StepExitCode: nil}
	if t.ExitCode != nil {
		v[expression.StepExitCode] = *t.ExitCode
	}
	v[expression.StepOutput], size, err = outputOf(r, &t)
	return v, size, err
}

// outputOf is what the last attempt of a task that succeeded has returned: the value
// of its JSON, or its text where it is none; nil: nothing.
func outputOf(r fsm.Reader, t *fsm.Task) (v any, size int, err error) {
	if t.State != job.Success || t.Attempt == 0 {
		return nil, 0, nil
	}
	at, ok := fsm.GetAttempt(r, t.Ref(), t.Attempt)
	b := at.Result.Output
	if !ok || len(b) == 0 || at.Outcome != job.OutcomeSuccess {
		return nil, 0, nil
	}
	if !json.Valid(b) {
		return strings.ToValidUTF8(string(b), "\uFFFD"), len(b), nil
	}
	v, err = expression.FromJSON(b)
	return v, len(b), err
}
