package scheduler

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

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

	// The items of the step that was looked at last, whose tasks are made part by part.
	listOf  fsm.WantedStep
	listFor uint64 // Step.Want
	list    []any
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

	outputs *expression.Outputs // nil: it has none
	wrong   error               // why they can't be compiled
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
	if outputs, err := expression.CompileOutputs(w.Spec); err != nil {
		f.wrong = err
	} else {
		f.outputs = outputs
	}
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
	if !ok || !step.WaitsForVerdict() || f == nil || int(w.Number) >= len(f.steps) {
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
	s := f.steps[w.Number]
	if step.Phase == fsm.StepWanted && !when(&v, s, made.step, env) {
		return v, true
	}
	if s.ForEach != nil {
		c.fanOut(&v, w, &step, s, made.step, env)
		return v, true
	}
	if s.Workflow != "" {
		if v.Params, err = paramsOf(made.step, env); err != nil {
			v.Fail = err.Error()
		}
		return v, true
	}
	if made.step.Payload == nil || !job.HoldsExpression(s.Payload) {
		return v, true
	}
	if v.Payload, err = payloadOf(made.step, env); err != nil {
		v.Fail = err.Error()
	}
	return v, true
}

// when computes whether a step runs at all; false: the verdict says why not.
func when(v *fsm.StepVerdict, s *job.Step, made *expression.Step, env expression.Env) bool {
	if made.When == nil {
		return true
	}
	switch is, err := made.When.EvalBool(env); {
	case err != nil:
		v.Fail = fmt.Sprintf("when: %v (of %s)", err, job.Shorten(s.When))
	case !is:
		v.Skip = "when is false: " + job.Shorten(s.When)
	default:
		return true
	}
	return false
}

func payloadOf(made *expression.Step, env expression.Env) ([]byte, error) {
	payload, err := made.Payload.Render(env)
	switch {
	case err != nil:
		return nil, fmt.Errorf("payload: %w", err)
	case len(payload) > job.MaxPayload:
		return nil, fmt.Errorf("payload: is %d bytes long once it is computed, more than %d", len(payload), job.MaxPayload)
	}
	return payload, nil
}

// paramsOf are those of the run that a step is.
func paramsOf(made *expression.Step, env expression.Env) ([]byte, error) {
	if len(made.Params) == 0 {
		return nil, nil
	}
	params := make(map[string]json.RawMessage, len(made.Params))
	for name, t := range made.Params {
		v, err := t.Render(env)
		if err != nil {
			return nil, fmt.Errorf("params.%s: %w", name, err)
		}
		params[name] = v
	}
	b, err := json.Marshal(params)
	switch {
	case err != nil:
		return nil, fmt.Errorf("params: %w", err)
	case len(b) > job.MaxParamBytes:
		return nil, fmt.Errorf("params: are %d bytes long once they are computed, more than %d", len(b), job.MaxParamBytes)
	}
	return b, nil
}

// The bounds of the items that one verdict hands in.
const (
	maxItemsBytes = 256 << 10
	maxItemsTime  = 300 * time.Millisecond
)

// fanOut computes the next items of a step.
func (c *computer) fanOut(v *fsm.StepVerdict, w fsm.WantedStep, step *fsm.Step, s *job.Step, made *expression.Step, env expression.Env) {
	f, payloadOfItem := s.ForEach, itemPayload
	if s.Workflow != "" {
		payloadOfItem = itemParams
	}
	if c.listOf != w || c.listFor != step.Want {
		list, err := made.List, error(nil)
		if made.Items != nil {
			list, err = made.Items.EvalList(env)
		}
		switch {
		case err != nil:
			v.Fail = fmt.Sprintf("for_each.items: %v (of %s)", err, job.Shorten(made.Items.String()))
			return
		case len(list) > f.MaxOrDefault():
			v.Fail = fmt.Sprintf("for_each.items: are %d, more than max, %d", len(list), f.MaxOrDefault())
			return
		}
		c.listOf, c.listFor, c.list = w, step.Want, list
	}
	v.Total, v.Made = uint32(len(c.list)), step.Made() //nolint:gosec // at most job.MaxRunTasks
	size, begin := 0, time.Now()
	for i := int(v.Made); i < len(c.list) && len(v.Items) < fsm.MaxItemsPart; i++ {
		payload, err := payloadOfItem(made, env, c.list[i], i)
		if err != nil {
			v.Fail, v.Items = fmt.Sprintf("item %d: %v", i+1, err), nil
			return
		}
		if size += len(payload); len(v.Items) > 0 && (size > maxItemsBytes || time.Since(begin) > maxItemsTime) {
			return
		}
		v.Items = append(v.Items, payload)
	}
}

// itemPayload is the payload of an item's task: what the step says, or else the item.
func itemPayload(made *expression.Step, env expression.Env, item any, index int) ([]byte, error) {
	if made.Payload == nil {
		payload, err := expression.ToJSON(item)
		if err == nil && len(payload) > job.MaxPayload {
			err = fmt.Errorf("is %d bytes long, more than %d", len(payload), job.MaxPayload)
		}
		return payload, err
	}
	env[expression.RootItem], env[expression.RootIndex] = item, index
	return payloadOf(made, env)
}

// itemParams are the parameters of an item's run: what the step says, or else the item.
func itemParams(made *expression.Step, env expression.Env, item any, index int) ([]byte, error) {
	if made.Params != nil {
		env[expression.RootItem], env[expression.RootIndex] = item, index
		return paramsOf(made, env)
	}
	params, err := itemPayload(made, env, item, index)
	if _, is := item.(map[string]any); !is && err == nil {
		err = fmt.Errorf("must be an object, the parameters of its run, where the step gives no params (got %s)", job.Shorten(string(params)))
	}
	return params, err
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
	known := c.params // outputs of other runs are computed below, which makes theirs the remembered ones
	steps := make(map[string]any, len(reads))
	left := maxRunOutput
	for _, name := range reads {
		n, ok := f.number[name]
		if !ok {
			continue // as the step's field of a misspelt one: null
		}
		v, size, err := c.readStep(r, run, f.steps[n], n)
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
		expression.RootParams: known,
		expression.RootSteps:  steps,
		expression.RootRun: map[string]any{
			"id": run.ID.String(), "workflow": run.Workflow, "created": job.FormatTime(run.Created), "nominal": nominal,
		},
	}, nil
}

// readStep is what others may read of a step.
func (c *computer) readStep(r fsm.Reader, run *fsm.Run, s *job.Step, n uint32) (v map[string]any, size int, err error) {
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
	var output any
	switch {
	case step.Fan != nil:
		output, size, err = c.outputsOf(r, run.Ref(), n, &step)
	case s.Workflow != "":
		output, size, err = c.outputOfRun(r, &t, step.Child)
	default:
		output, size, err = outputOf(r, &t)
	}
	v[expression.StepOutput] = output
	return v, size, err
}

// outputOfRun are the outputs of a run that a task stands for, and that succeeded; nil:
// there are none.
func (c *computer) outputOfRun(r fsm.Reader, t *fsm.Task, child job.ID) (v any, size int, err error) {
	if t.State != job.Success || child.IsZero() {
		return nil, 0, nil
	}
	run, ok := fsm.GetRun(r, fsm.RunRef{Namespace: t.Namespace, ID: child})
	if !ok {
		return nil, 0, fmt.Errorf("run %s is gone, since its retention is over", child)
	}
	f := c.flow(r, &run)
	switch {
	case f == nil:
		return nil, 0, fmt.Errorf("the version of its run %s is gone", child)
	case f.wrong != nil:
		return nil, 0, f.wrong
	case f.outputs == nil:
		return nil, 0, nil
	}
	env, err := c.env(r, &run, f, f.outputs.Reads)
	if err != nil {
		return nil, 0, err
	}
	b, err := f.outputs.Render(env)
	if err != nil {
		return nil, 0, fmt.Errorf("run %s: %w", child, err)
	}
	v, err = expression.FromJSON(b)
	return v, len(b), err
}

// outputsOf are those of a step's items, in their order.
func (c *computer) outputsOf(r fsm.Reader, run fsm.RunRef, n uint32, step *fsm.Step) (list []any, size int, err error) {
	const page = 500
	list = make([]any, 0, step.Fan.Made)
	for {
		items := fsm.Items(r, run, n, step, uint32(len(list)), page) //nolint:gosec // at most job.MaxRunTasks
		for i := range items {
			v, bytes, err := c.outputOfItem(r, &items[i])
			if size += bytes; err == nil && size > maxRunOutput {
				err = fmt.Errorf("the outputs of its items are more than %d bytes long", maxRunOutput)
			}
			if err != nil {
				return nil, 0, err
			}
			list = append(list, v)
		}
		if len(items) < page {
			return list, size, nil
		}
	}
}

func (c *computer) outputOfItem(r fsm.Reader, it *fsm.StepItem) (v any, size int, err error) {
	if !it.Run.IsZero() {
		return c.outputOfRun(r, &it.Record, it.Run)
	}
	return outputOf(r, &it.Record)
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
