package expression

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/axd-project/axd/job"
)

// CheckWorkflow compiles all expressions of a valid workflow and checks what they
// read: parameters must be declared, and a step may read only those that come before
// it. An error names the field of the step, as in steps[3].when.
func CheckWorkflow(w *job.WorkflowSpec) *job.Error {
	c := &workflowCheck{params: map[string]job.ParamType{}, sectionOf: map[string]int{}}
	for i := range w.Params {
		c.params[w.Params[i].Name] = w.Params[i].TypeOrDefault()
	}
	sections := w.Sections()
	for i, s := range sections {
		for j := range s.Steps {
			c.sectionOf[s.Steps[j].Name] = i
		}
	}
	for i := range sections {
		c.section, c.at, c.before = &sections[i], i, nil
		for j := range sections[i].Steps {
			if err := c.step(j); err != nil {
				return err.At(job.StepPath(sections[i].Name, j))
			}
		}
	}
	return c.outputs(w)
}

type workflowCheck struct {
	params    map[string]job.ParamType
	sectionOf map[string]int

	section *job.Section // that is being checked
	at      int          // its number
	number  map[string]int
	before  []bitset // by step: all that it needs, near and far; nil: not yet computed
}

func (c *workflowCheck) step(n int) *job.Error {
	step := &c.section.Steps[n]
	made, refs, err := compileStep(step)
	if err != nil {
		return err
	}
	for i := range refs {
		if err := c.ref(n, &refs[i]); err != nil {
			return err
		}
	}
	if made.When == nil {
		return nil
	}
	if kind := c.whenKind(made.When); kind != "" {
		return broken("when", step.When, &Error{Rule: "must be true or false, not " + kind})
	}
	return nil
}

// ref checks what the step of a number reads.
func (c *workflowCheck) ref(n int, r *stepRef) *job.Error {
	switch r.Root {
	case RootParams:
		if r.Name != "" && c.params[r.Name] == "" {
			return r.broken("params.%s is not declared as a parameter of the workflow", r.Name)
		}
	case RootSteps:
		return c.stepRef(n, r)
	case RootRun:
		if !slices.Contains(runFields, r.Name) {
			return r.broken("run must be followed by %s", strings.Join(runFields, ", "))
		}
	}
	return nil
}

// runFields are what expressions may read of their run.
var runFields = []string{"id", "workflow", "created", "nominal"}

// stepRef checks that a step reads one that has ended by then, or had its chance to.
func (c *workflowCheck) stepRef(n int, r *stepRef) *job.Error {
	in, exists := c.sectionOf[r.Name]
	switch {
	case r.Name == "":
		return r.broken("steps must be followed by the name of a step, as in steps.extract.output")
	case !exists:
		return r.broken("there is no step %s", strconv.Quote(r.Name))
	case !slices.Contains(stepFields, r.Field):
		return r.broken("of a step may be read %s", strings.Join(stepFields, ", "))
	case in < c.at:
		return nil // the sections before have ended
	case in > c.at:
		return r.broken("step %s runs later", strconv.Quote(r.Name))
	}
	if c.before == nil {
		c.order()
	}
	if !c.before[n].has(c.number[r.Name]) {
		return r.broken("step %s is not upstream: add it to needs", strconv.Quote(r.Name))
	}
	return nil
}

// order computes for each step of the section all that comes before it.
func (c *workflowCheck) order() {
	steps := c.section.Steps
	c.number = make(map[string]int, len(steps))
	for i := range steps {
		c.number[steps[i].Name] = i
	}
	c.before = make([]bitset, len(steps))
	g := c.section.Graph()
	for _, n := range g.Order() {
		c.before[n] = make(bitset, (len(steps)+bits.UintSize-1)/bits.UintSize)
		for _, p := range g.Parents(n) {
			c.before[n].add(p)
			c.before[n].join(c.before[p])
		}
	}
}

// bitset holds small numbers: 10,000 steps, of which each follows all before it,
// would else be 50 million entries.
type bitset []uint

func (b bitset) add(n int)      { b[n/bits.UintSize] |= 1 << (n % bits.UintSize) }
func (b bitset) has(n int) bool { return b[n/bits.UintSize]&(1<<(n%bits.UintSize)) != 0 }

func (b bitset) join(other bitset) {
	for i, word := range other {
		b[i] |= word
	}
}
