package job

// WorkflowSpec is a workflow's definition: steps, of which each is a job and
// waits for those it needs. Its namespace and name are the key it is kept under;
// a run pins the version it started with.
type WorkflowSpec struct {
	Description string `msgpack:"d,omitempty" json:"description,omitempty"`
	App         string `msgpack:"a,omitempty" json:"app,omitempty"`   // of its runs, and of steps whose job names none
	Owner       string `msgpack:"o,omitempty" json:"owner,omitempty"` // likewise

	Params []Param `msgpack:"p,omitempty" json:"params,omitempty"`
	// Timeout is of a whole run; absent or 0: no limit.
	Timeout *Duration `msgpack:"t,omitempty" json:"timeout,omitempty"`
	// MaxParallel bounds the tasks of one run that are active at once; 0: no limit.
	MaxParallel int `msgpack:"m,omitempty" json:"max_parallel,omitempty"`

	Steps []Step `msgpack:"s" json:"steps"`
	// OnFailure runs once a step has failed and no other of Steps will start.
	OnFailure []Step `msgpack:"f,omitempty" json:"on_failure,omitempty"`
	// Finally runs at the end of every run, however it went.
	Finally []Step `msgpack:"z,omitempty" json:"finally,omitempty"`
	// Outputs are what other workflows may read of a run that is a step of theirs and
	// has succeeded; strings may hold ${{ expression }}.
	Outputs Values `msgpack:"O,omitempty" json:"outputs,omitempty"`
}

// Step is a node of a workflow: a job or another workflow, and when it runs. The
// policy overrides the job's, field by field.
type Step struct {
	Name     string   `msgpack:"N" json:"name"`
	Job      string   `msgpack:"J,omitempty" json:"job,omitempty"`         // exactly one of job
	Workflow string   `msgpack:"W,omitempty" json:"workflow,omitempty"`    // and workflow: a run of its own
	About    string   `msgpack:"D,omitempty" json:"description,omitempty"` // for people
	Needs    []string `msgpack:"d,omitempty" json:"needs,omitempty"`       // steps of the same section
	Rule     Rule     `msgpack:"u,omitempty" json:"rule,omitempty"`        // default all_success
	When     string   `msgpack:"e,omitempty" json:"when,omitempty"`        // expression; false: the step is skipped
	Payload  JSON     `msgpack:"P,omitempty" json:"payload,omitempty"`     // of the job's task; strings may hold ${{ expression }}
	Params   Values   `msgpack:"v,omitempty" json:"params,omitempty"`      // of the sub-workflow; likewise
	ForEach  *ForEach `msgpack:"F,omitempty" json:"for_each,omitempty"`
	// AllowFailure: that the step failed doesn't make the run fail. To the rules of
	// the steps that need it, it has failed all the same.
	AllowFailure bool `msgpack:"A,omitempty" json:"allow_failure,omitempty"`

	Policy `msgpack:",inline" yaml:",inline"`
}

// ForEach makes a step one task, or one run of its workflow, for each item of a list.
type ForEach struct {
	Items    JSON `msgpack:"i" json:"items"`                        // a list, or a string of one ${{ expression }} that gives one
	Max      int  `msgpack:"m,omitempty" json:"max,omitempty"`      // items; default 1000; more of them fail the step
	Parallel int  `msgpack:"p,omitempty" json:"parallel,omitempty"` // tasks or runs active at once; 0: no limit
}

// Rule tells what must have become of the steps that a step needs for it to run.
type Rule string

// The rules, with the names people know. A step has failed when it ended failed,
// timeout, cancelled or upstream_failed. Empty means AllSuccess.
const (
	AllSuccess           Rule = "all_success"
	AllDone              Rule = "all_done"
	AllFailed            Rule = "all_failed"
	OneSuccess           Rule = "one_success"
	OneFailed            Rule = "one_failed"
	OneDone              Rule = "one_done"
	NoneFailed           Rule = "none_failed"                 // success or skipped
	NoneFailedMinSuccess Rule = "none_failed_min_one_success" // likewise, and not all skipped
	Always               Rule = "always"                      // whatever they do, at once
)

// Rules lists the rules in the order that messages name them.
var Rules = []Rule{
	AllSuccess, AllDone, AllFailed, OneSuccess, OneFailed, OneDone, NoneFailed, NoneFailedMinSuccess, Always,
}

// Param is a parameter of a workflow's runs.
type Param struct {
	Name        string    `msgpack:"n" json:"name"`
	Type        ParamType `msgpack:"t,omitempty" json:"type,omitempty"` // default string
	Description string    `msgpack:"d,omitempty" json:"description,omitempty"`
	Default     JSON      `msgpack:"v,omitempty" json:"default,omitempty"`
	Required    bool      `msgpack:"r,omitempty" json:"required,omitempty"` // excludes a default
}

// ParamType is what a parameter's value must be. Empty means ParamString.
type ParamType string

// The types of parameters.
const (
	ParamString ParamType = "string"
	ParamInt    ParamType = "int"
	ParamNumber ParamType = "number"
	ParamBool   ParamType = "bool"
	ParamList   ParamType = "list"
	ParamObject ParamType = "object"
)

// The limits of workflows and runs.
const (
	MaxSteps         = 10_000  // of a workflow, in all its sections
	MaxEdges         = 100_000 // needs, likewise
	MaxRunTasks      = 100_000 // tasks of a run, fan-out counted
	MaxParams        = 256
	MaxParamBytes    = 64 << 10 // the values of a run's parameters together
	MaxWorkflowBytes = 4 << 20  // of a definition, encoded
	MaxWhen          = 4 << 10  // bytes of a step's expression
	DefaultForEach   = 1000     // items of a for_each that gives no max
)

// The sections of a workflow, by which a step is found: see WorkflowSpec.Step.
const (
	SectionSteps     = "steps"
	SectionOnFailure = "on_failure"
	SectionFinally   = "finally"
)

// Section is a list of a workflow's steps that may need each other.
type Section struct {
	Name  string
	Steps []Step
}

// Sections returns the steps by section, in the order they run; every step of a
// workflow has its place in this order.
func (w *WorkflowSpec) Sections() [3]Section {
	return [3]Section{{SectionSteps, w.Steps}, {SectionOnFailure, w.OnFailure}, {SectionFinally, w.Finally}}
}

// Count returns how many steps the workflow has in all its sections.
func (w *WorkflowSpec) Count() int { return len(w.Steps) + len(w.OnFailure) + len(w.Finally) }

// RuleOrDefault returns the step's rule, all_success where unset.
func (s *Step) RuleOrDefault() Rule {
	if s.Rule == "" {
		return AllSuccess
	}
	return s.Rule
}

// MaxOrDefault returns how many items the list may have.
func (f *ForEach) MaxOrDefault() int {
	if f.Max == 0 {
		return DefaultForEach
	}
	return f.Max
}

// TypeOrDefault returns the parameter's type, string where unset.
func (p *Param) TypeOrDefault() ParamType {
	if p.Type == "" {
		return ParamString
	}
	return p.Type
}

// SubWorkflows returns the workflows that its steps run, each once, in the order of
// the steps.
func (w *WorkflowSpec) SubWorkflows() (names []string) {
	seen := map[string]bool{}
	for _, s := range w.Sections() {
		for i := range s.Steps {
			if name := s.Steps[i].Workflow; name != "" && !seen[name] {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	return names
}
