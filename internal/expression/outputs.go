package expression

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/axd-project/axd/job"
)

// Outputs are what a workflow's runs tell others, compiled.
type Outputs struct {
	made  map[string]*Template
	Reads []string // the steps that these read
}

// CompileOutputs compiles what a workflow's runs tell others; nil: nothing.
func CompileOutputs(w *job.WorkflowSpec) (*Outputs, *job.Error) {
	o, refs, err := compileOutputs(w)
	if o != nil {
		o.Reads = stepsOf(refs)
	}
	return o, err
}

func compileOutputs(w *job.WorkflowSpec) (*Outputs, []stepRef, *job.Error) {
	if len(w.Outputs) == 0 {
		return nil, nil, nil
	}
	o := &Outputs{made: map[string]*Template{}}
	var refs []stepRef
	for _, name := range slices.Sorted(maps.Keys(w.Outputs)) {
		t, found, err := compileField("outputs."+name, w.Outputs[name], []string{RootParams, RootSteps, RootRun})
		if err != nil {
			return nil, nil, err
		}
		o.made[name] = t
		refs = append(refs, found...)
	}
	return o, refs, nil
}

// Render computes them, as an object.
func (o *Outputs) Render(env Env) (json.RawMessage, error) {
	out := make(map[string]json.RawMessage, len(o.made))
	for _, name := range slices.Sorted(maps.Keys(o.made)) {
		v, err := o.made[name].Render(env)
		if err != nil {
			return nil, fmt.Errorf("outputs.%s: %w", name, err)
		}
		out[name] = v
	}
	return json.Marshal(out)
}

// outputs checks what a workflow's runs tell others: they may read every step.
func (c *workflowCheck) outputs(w *job.WorkflowSpec) *job.Error {
	_, refs, err := compileOutputs(w)
	if err != nil {
		return err
	}
	c.section, c.at, c.before = nil, len(w.Sections()), nil
	for i := range refs {
		if err := c.ref(0, &refs[i]); err != nil {
			return err
		}
	}
	return nil
}
