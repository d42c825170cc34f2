package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/axd-project/axd/job"
)

// What the expressions of a workflow may read.
const (
	RootParams = "params" // the run's parameters
	RootSteps  = "steps"  // output, state and exit_code of steps that come before
	RootRun    = "run"    // id, workflow, created, nominal
	RootItem   = "item"   // of a for_each: the item
	RootIndex  = "index"  // and its place, from 0
)

// The fields of a step that others may read.
const (
	StepOutput   = "output"
	StepState    = "state"
	StepExitCode = "exit_code"
)

var stepFields = []string{StepOutput, StepState, StepExitCode}

// Step is a step with its expressions compiled. What it has none of is nil.
type Step struct {
	When    *Expr
	Items   *Expr                // of a for_each that gives an expression
	List    []any                // of one that gives a list
	Payload *Template            // may read item and index where the step has a for_each
	Params  map[string]*Template // likewise
	Reads   []string             // the steps that these read
}

// CompileStep compiles what a step says. An error names the field within the step.
func CompileStep(s *job.Step) (*Step, *job.Error) {
	c, refs, err := compileStep(s)
	if err != nil {
		return nil, err
	}
	c.Reads = stepsOf(refs)
	return c, nil
}

// stepsOf are the steps that are read.
func stepsOf(refs []stepRef) []string {
	names := map[string]bool{}
	for _, r := range refs {
		if r.Root == RootSteps {
			names[r.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// stepRef is what a step reads, and in which of its fields.
type stepRef struct {
	Ref
	field string
	text  string
}

func compileStep(s *job.Step) (*Step, []stepRef, *job.Error) {
	roots := []string{RootParams, RootSteps, RootRun}
	made := &Step{}
	var refs []stepRef
	var err error
	if s.When != "" {
		if made.When, err = Compile(s.When, roots...); err == nil {
			err = checkBool(made.When)
		}
		if err != nil {
			return nil, nil, broken("when", s.When, err)
		}
		for _, r := range made.When.Refs() {
			refs = append(refs, stepRef{r, "when", s.When})
		}
	}
	if s.ForEach != nil {
		found, err := made.forEach(s.ForEach, roots)
		if err != nil {
			return nil, nil, err
		}
		refs = append(refs, found...)
		roots = append(roots, RootItem, RootIndex)
	}
	add := func(field string, text job.JSON) (*Template, *job.Error) {
		t, found, err := compileField(field, text, roots)
		refs = append(refs, found...)
		return t, err
	}
	if len(s.Payload) > 0 {
		var e *job.Error
		if made.Payload, e = add("payload", s.Payload); e != nil {
			return nil, nil, e
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		t, e := add("params."+name, s.Params[name])
		if e != nil {
			return nil, nil, e
		}
		if made.Params == nil {
			made.Params = map[string]*Template{}
		}
		made.Params[name] = t
	}
	return made, refs, nil
}

// compileField compiles a JSON text that may hold expressions.
func compileField(field string, text job.JSON, roots []string) (*Template, []stepRef, *job.Error) {
	t, err := CompileTemplate(text, roots...)
	if err != nil {
		return nil, nil, broken(field, string(text), err)
	}
	var refs []stepRef
	for _, r := range t.Refs() {
		refs = append(refs, stepRef{r.Ref, within(field, r.Path), r.Text})
	}
	return t, refs, nil
}

// forEach compiles the items: a list, which holds no expressions, or a string of one.
func (s *Step) forEach(f *job.ForEach, roots []string) ([]stepRef, *job.Error) {
	const field = "for_each.items"
	v, err := FromJSON(f.Items)
	if err != nil {
		return nil, job.Invalid(field, "must be JSON", string(f.Items))
	}
	if list, ok := v.([]any); ok {
		if Holds(f.Items) {
			return nil, job.Invalid(field, "must hold no expressions: make the whole one, as in ${{ [1, params.n] }}", string(f.Items))
		}
		s.List = list
		return nil, nil
	}
	t, err := CompileTemplate(f.Items, roots...)
	if err != nil {
		return nil, broken(field, string(f.Items), err)
	}
	if s.Items = t.only(); s.Items == nil {
		return nil, job.Invalid(field, "must be a list, or a string that is one ${{ expression }} and nothing else", string(f.Items))
	}
	var refs []stepRef
	for _, r := range s.Items.Refs() {
		refs = append(refs, stepRef{r, field, s.Items.String()})
	}
	return refs, nil
}

// only returns the expression of a template that is one string of one expression.
func (t *Template) only() *Expr {
	var found *Expr
	for _, p := range t.parts {
		switch {
		case p.pieces == nil && len(trimSpace(p.raw)) == 0:
		case p.pieces != nil && p.path == "" && len(p.pieces) == 1 && p.pieces[0].expr != nil:
			found = p.pieces[0].expr
		default:
			return nil
		}
	}
	return found
}

func trimSpace(b []byte) json.RawMessage { return slices.DeleteFunc(slices.Clone(b), isSpace) }

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func within(field, path string) string {
	switch {
	case path == "":
		return field
	case path[0] == '[':
		return field + path
	}
	return field + "." + path
}

// broken says which field holds an expression that is none.
func broken(field, text string, err error) *job.Error {
	var in *TemplateError
	if errors.As(err, &in) {
		field, err = within(field, in.Path), in.Err
		if in.Text != "" {
			text = in.Text
		}
	}
	return job.Invalid(field, "must be a valid expression: "+err.Error(), text)
}

func (r *stepRef) broken(format string, args ...any) *job.Error {
	at := &Error{Pos: r.Pos, Rule: fmt.Sprintf(format, args...)}
	return job.Invalid(r.field, "must be a valid expression: "+at.Error(), r.text)
}
