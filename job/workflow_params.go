package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const maxParamName = 64 // bytes

// validateParamName checks a name that expressions can say: params.NAME.
func validateParamName(field, name string) *Error {
	if len(name) > maxParamName || !isEnvName(name) {
		return Invalid(field, "must be 1 to 64 of A-Z a-z 0-9 _ and not begin with a digit", name)
	}
	return nil
}

func (w *WorkflowSpec) validateParams() *Error {
	if len(w.Params) > MaxParams {
		return invalidNumber("params", fmt.Sprintf("must be at most %d", MaxParams), len(w.Params))
	}
	seen := make(map[string]bool, len(w.Params))
	for i := range w.Params {
		p := &w.Params[i]
		path := StepPath("params", i)
		if e := validateParamName(path+".name", p.Name); e != nil {
			return e
		}
		if seen[p.Name] {
			return Invalid(path+".name", "must not be the name of two parameters", p.Name)
		}
		seen[p.Name] = true
		if e := p.validate(); e != nil {
			return e.At(path)
		}
	}
	return nil
}

func (p *Param) validate() *Error {
	if e := validateText("description", p.Description, MaxDescription, "\n\t"); e != nil {
		return e
	}
	if p.Type != "" && !slices.Contains(paramTypes, p.Type) {
		return Invalid("type", "must be string, int, number, bool, list or object", string(p.Type))
	}
	if len(p.Default) == 0 {
		return nil
	}
	if p.Required {
		return Invalid("default", "must not be given beside required", string(p.Default))
	}
	return p.check("default", p.Default)
}

var paramTypes = []ParamType{ParamString, ParamInt, ParamNumber, ParamBool, ParamList, ParamObject}

var paramRules = map[ParamType]string{
	ParamString: "must be a string", ParamInt: "must be a whole number", ParamNumber: "must be a number",
	ParamBool: "must be true or false", ParamList: "must be a list", ParamObject: "must be an object",
}

// check tells whether a value has the parameter's type.
func (p *Param) check(field string, v JSON) *Error {
	if e := validateJSON(field, v, MaxParamBytes); e != nil {
		return e
	}
	kind, want := kindOf(v), p.TypeOrDefault()
	if kind == want || kind == ParamInt && want == ParamNumber {
		return nil
	}
	return Invalid(field, paramRules[want], string(v))
}

// kindOf tells the type of a valid JSON value; empty: null, or none.
func kindOf(v JSON) ParamType {
	v = bytes.TrimLeft(v, " \t\r\n")
	if len(v) == 0 {
		return ""
	}
	switch v[0] {
	case '"':
		return ParamString
	case '[':
		return ParamList
	case '{':
		return ParamObject
	case 't', 'f':
		return ParamBool
	case 'n':
		return ""
	}
	if bytes.ContainsAny(v, ".eE") {
		return ParamNumber
	}
	return ParamInt
}

// ResolveParams checks the parameters that a run is given, a JSON object, and
// returns all that it has: those, and the defaults of the others. A parameter
// that has neither is absent.
func (w *WorkflowSpec) ResolveParams(given JSON) (map[string]JSON, *Error) {
	if len(given) > MaxParamBytes {
		return nil, tooLarge("params", MaxParamBytes, len(given))
	}
	var values map[string]JSON
	if len(given) > 0 {
		if err := json.Unmarshal(given, &values); err != nil {
			return nil, Invalid("params", "must be an object", string(given))
		}
	}
	out := make(map[string]JSON, len(w.Params))
	for i := range w.Params {
		p := &w.Params[i]
		v, ok := values[p.Name]
		switch {
		case ok:
			if e := p.check("params."+p.Name, v); e != nil {
				return nil, e
			}
			out[p.Name] = v
		case p.Required:
			return nil, &Error{Code: CodeInvalid, Field: "params." + p.Name, Rule: "is required: " + strings.TrimPrefix(paramRules[p.TypeOrDefault()], "must be ")}
		case len(p.Default) > 0:
			out[p.Name] = p.Default
		}
		delete(values, p.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		return nil, Invalid("params", "must be parameters of the workflow", name)
	}
	return out, nil
}
