package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// validate checks a step by itself. Its fields are named without its path.
func (s *Step) validate() *Error {
	if (s.Job == "") == (s.Workflow == "") {
		field := "job"
		if s.Job != "" {
			field = "workflow"
		}
		return Invalid(field, "exactly one of job and workflow must be given", s.Workflow)
	}
	if e := validateText("description", s.About, MaxDescription, "\n\t"); e != nil {
		return e
	}
	if e := s.Policy.Validate(); e != nil {
		return e
	}
	if e := validateText("when", s.When, MaxWhen, "\n\t"); e != nil {
		return e
	}
	if e := s.validateRule(); e != nil {
		return e
	}
	if s.ForEach != nil {
		if e := s.ForEach.validate(); e != nil {
			return e.At("for_each")
		}
	}
	if s.Workflow != "" {
		return s.validateSub()
	}
	if e := ValidateName("job", s.Job); e != nil {
		return e
	}
	if len(s.Params) > 0 {
		return &Error{Code: CodeInvalid, Field: "params", Rule: "are of a workflow; give a job's task a payload"}
	}
	return validateJSON("payload", s.Payload, MaxPayload)
}

// validateSub checks a step that is a run of another workflow.
func (s *Step) validateSub() *Error {
	if e := ValidateName("workflow", s.Workflow); e != nil {
		return e
	}
	if len(s.Payload) > 0 {
		return &Error{Code: CodeInvalid, Field: "payload", Rule: "is of a job's task; give a workflow params"}
	}
	if !s.Policy.PriorityOnly() {
		return Invalid("workflow", "takes no policy beside it but a priority: its own steps have theirs", s.Workflow)
	}
	return validateValues("params", s.Params)
}

// validateValues checks values that expressions name.
func validateValues(field string, values Values) *Error {
	if len(values) > MaxParams {
		return invalidNumber(field, fmt.Sprintf("must be at most %d", MaxParams), len(values))
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if e := validateParamName(at(field, name), name); e != nil {
			return e
		}
		if e := validateJSON(at(field, name), values[name], MaxParamBytes); e != nil {
			return e
		}
	}
	return nil
}

// validateRule checks that the rule is one, and can hold of a step without needs.
func (s *Step) validateRule() *Error {
	if s.Rule != "" && !slices.Contains(Rules, s.Rule) {
		names := make([]string, len(Rules))
		for i, r := range Rules {
			names[i] = string(r)
		}
		last := len(names) - 1
		return Invalid("rule", "must be "+strings.Join(names[:last], ", ")+" or "+names[last], string(s.Rule))
	}
	if len(s.Needs) > 0 {
		return nil
	}
	switch s.RuleOrDefault() {
	case AllSuccess, AllDone, NoneFailed, Always:
		return nil
	}
	return Invalid("rule", "can never hold: the step needs no other", string(s.Rule))
}

func (f *ForEach) validate() *Error {
	if f.Max < 0 || f.Max > MaxRunTasks {
		return invalidNumber("max", fmt.Sprintf("must be 0 (which is %d) to %d", DefaultForEach, MaxRunTasks), f.Max)
	}
	if f.Parallel < 0 || f.Parallel > MaxRunTasks {
		return invalidNumber("parallel", fmt.Sprintf("must be 0 (no limit) to %d", MaxRunTasks), f.Parallel)
	}
	if e := validateJSON("items", f.Items, MaxPayload); e != nil {
		return e
	}
	const rule = "must be a list, or one ${{ expression }} that gives one"
	switch kindOf(f.Items) {
	case ParamList:
		var items []json.RawMessage
		if err := json.Unmarshal(f.Items, &items); err != nil {
			return Invalid("items", rule, string(f.Items))
		}
		if len(items) > f.MaxOrDefault() {
			return invalidNumber("items", fmt.Sprintf("must be at most max, %d", f.MaxOrDefault()), len(items))
		}
		return nil
	case ParamString:
		var text string
		if err := json.Unmarshal(f.Items, &text); err == nil && strings.HasPrefix(text, "${{") && strings.HasSuffix(text, "}}") {
			return nil
		}
	}
	return Invalid("items", rule, string(f.Items))
}

// validateJSON checks an opaque value; absent is right.
func validateJSON(field string, v JSON, limit int) *Error {
	switch {
	case len(v) > limit:
		return tooLarge(field, limit, len(v))
	case len(v) > 0 && !json.Valid(v):
		return Invalid(field, "must be a JSON value", string(v))
	}
	return nil
}
