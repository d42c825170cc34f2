package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/axd-project/axd/job/dag"
)

// StepPath is the path of a step in the definition: steps[3].
func StepPath(section string, i int) string { return section + "[" + strconv.Itoa(i) + "]" }

// Validate checks a workflow's definition: what it says can be right, whatever
// jobs and workflows there are. Expressions are not compiled here.
func (w *WorkflowSpec) Validate() *Error {
	if e := validateText("description", w.Description, MaxDescription, "\n\t"); e != nil {
		return e
	}
	if e := validateText("app", w.App, MaxOwner, ""); e != nil {
		return e
	}
	if e := validateText("owner", w.Owner, MaxOwner, ""); e != nil {
		return e
	}
	if w.Timeout != nil && *w.Timeout < 0 {
		return Invalid("timeout", "must not be negative; 0 means no limit", w.Timeout.String())
	}
	if w.MaxParallel < 0 || w.MaxParallel > MaxRunTasks {
		return invalidNumber("max_parallel", fmt.Sprintf("must be 0 (no limit) to %d", MaxRunTasks), w.MaxParallel)
	}
	if e := w.validateParams(); e != nil {
		return e
	}
	if e := validateValues("outputs", w.Outputs); e != nil {
		return e
	}
	if e := w.validateSize(); e != nil {
		return e
	}
	names, e := w.names()
	if e != nil {
		return e
	}
	for _, s := range w.Sections() {
		for i := range s.Steps {
			if e := s.Steps[i].validate(); e != nil {
				return e.At(StepPath(s.Name, i))
			}
		}
		if e := s.validateNeeds(names); e != nil {
			return e
		}
		if e := s.validateReach(); e != nil {
			return e
		}
	}
	return nil
}

func (w *WorkflowSpec) validateSize() *Error {
	if len(w.Steps) == 0 {
		return &Error{Code: CodeInvalid, Field: SectionSteps, Rule: "must hold at least one step"}
	}
	if n := w.Count(); n > MaxSteps {
		return invalidNumber(SectionSteps, fmt.Sprintf("must be at most %d in all sections", MaxSteps), n)
	}
	edges, bytes := 0, w.Outputs.size()
	for _, s := range w.Sections() {
		for i := range s.Steps {
			edges += len(s.Steps[i].Needs)
			bytes += s.Steps[i].size()
		}
	}
	if edges > MaxEdges {
		return invalidNumber("needs", fmt.Sprintf("must be at most %d of all steps together", MaxEdges), edges)
	}
	if bytes > MaxWorkflowBytes {
		return tooLarge(SectionSteps, MaxWorkflowBytes, bytes)
	}
	return nil
}

// size bounds the encoded size of what has no bound of its own; see Executor.size.
func (s *Step) size() int {
	const each = 5
	n := len(s.Name) + len(s.Job) + len(s.Workflow) + len(s.About) + len(s.When) + len(s.Payload) + 8*each
	for _, need := range s.Needs {
		n += len(need) + each
	}
	n += s.Params.size()
	if s.ForEach != nil {
		n += len(s.ForEach.Items) + each
	}
	return n
}

func (v Values) size() (n int) {
	const each = 5
	for name, text := range v {
		n += len(name) + len(text) + 2*each
	}
	return n
}

// names maps each step's name to its section.
func (w *WorkflowSpec) names() (map[string]string, *Error) {
	names := make(map[string]string, w.Count())
	for _, s := range w.Sections() {
		for i := range s.Steps {
			name, field := s.Steps[i].Name, StepPath(s.Name, i)+".name"
			if e := ValidateName(field, name); e != nil {
				return nil, e
			}
			if names[name] != "" {
				return nil, Invalid(field, "must not be the name of two steps", name)
			}
			names[name] = s.Name
		}
	}
	return names, nil
}

// Graph returns the needs of a section's steps, by their places in it; a name that
// is none of them is left out.
func (s *Section) Graph() *dag.Graph {
	at := make(map[string]int, len(s.Steps))
	for i := range s.Steps {
		at[s.Steps[i].Name] = i
	}
	g := dag.New(len(s.Steps))
	for i := range s.Steps {
		for _, need := range s.Steps[i].Needs {
			if from, ok := at[need]; ok {
				g.Add(from, i)
			}
		}
	}
	return g
}

func (s *Section) validateNeeds(sectionOf map[string]string) *Error {
	for i := range s.Steps {
		step := &s.Steps[i]
		seen := make(map[string]bool, len(step.Needs))
		for j, need := range step.Needs {
			field := fmt.Sprintf("%s.needs[%d]", StepPath(s.Name, i), j)
			switch in := sectionOf[need]; {
			case need == step.Name:
				return Invalid(field, "must not be the step itself", need)
			case in == "":
				return Invalid(field, "must name a step; "+strconv.Quote(step.Name)+" needs one that does not exist", need)
			case in != s.Name:
				return Invalid(field, "must name a step of "+s.Name+"; those of "+in+" run at another time", need)
			case seen[need]:
				return Invalid(field, "must not be named twice", need)
			}
			seen[need] = true
		}
	}
	g := s.Graph()
	cycle := g.Cycle()
	if cycle == nil {
		return nil
	}
	last := cycle[len(cycle)-1]
	for j, need := range s.Steps[cycle[0]].Needs {
		if need == s.Steps[last].Name {
			return Invalid(fmt.Sprintf("%s.needs[%d]", StepPath(s.Name, cycle[0]), j),
				"must not close a cycle: "+s.path(append(cycle, cycle[0]))+", of which each is needed by the next", need)
		}
	}
	return nil
}

// maxPath is how many names of a path a message shows.
const maxPath = 100

// path writes the names of steps with arrows.
func (s *Section) path(steps []int) string {
	names := make([]string, len(steps))
	for i, n := range steps {
		names[i] = s.Steps[n].Name
	}
	return JoinPath(names)
}

// JoinPath writes names with arrows; of a long path it leaves out the middle.
func JoinPath(names []string) string {
	if n := len(names); n > maxPath {
		more := fmt.Sprintf("… %d more …", n-maxPath)
		names = slices.Concat(names[:maxPath/2], []string{more}, names[n-maxPath/2:])
	}
	return strings.Join(names, " → ")
}

// Warnings tells what is allowed but seldom meant.
func (w *WorkflowSpec) Warnings() []string {
	if len(w.Steps) < 2 {
		return nil
	}
	section := w.Sections()[0]
	g := section.Graph()
	var out []string
	more := 0
	for i := range w.Steps {
		switch {
		case len(g.Parents(i)) > 0 || len(g.Children(i)) > 0:
		case len(out) == maxWarnings:
			more++
		default:
			out = append(out, StepPath(SectionSteps, i)+": "+strconv.Quote(w.Steps[i].Name)+" is isolated: it needs no step, and none needs it")
		}
	}
	if more > 0 {
		out = append(out, fmt.Sprintf("%d more steps are isolated", more))
	}
	return out
}

const maxWarnings = 20
