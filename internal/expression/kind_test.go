package expression

import (
	"strings"
	"testing"
)

// What can't be true or false by its text is refused where it decides; what may be is not.
func TestWhenMustBeBool(t *testing.T) {
	const head = "params: [{name: day}, {name: n, type: int}, {name: on, type: bool}, {name: list, type: list}]\n" +
		"steps:\n- {name: a, job: j}\n- {name: b, job: j, needs: [a], when: '"
	for when, want := range map[string]string{
		"1+1": "a number or a string", "-params.n": "a number", `"yes"`: "a string", "nil": "null", "[true]": "a list", "{}": "an object",
		"1..3": "a list", "params.n * 2": "a number", "len(params.list)": "a number", "lower(params.day)": "a string",
		"map(params.list, # > 1)": "a list", "params.list | filter(# > 1)": "a list", "let x = true; 1": "a number",
		"params.on ? 1 : \"x\"": "a number or a string", "nil ?? 1": "a number", "params.day": "a string", "params.n": "an int",
		"steps.a.state": "a string", "steps.a.exit_code": "a number", "run.id": "a string", `steps["a"].state`: "a string",
		"fromJSON(params.day)": "", "params.on": "", "params.on ? true : 1": "", "steps.a.output": "", "steps.a.output.ok": "",
		"steps.a.output?.ok ?? false": "", "!params.on": "", "params.n > 1": "", "params.day contains \"x\"": "", "any(params.list, # > 1)": "",
		"find(params.list, # == true)": "", "params.list[0]": "", "first(params.list)": "", "let x = params.on; x": "", "true": "",
	} {
		err := CheckWorkflow(workflow(t, head+when+"'}\n"))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", when, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), "steps[1].when: must be a valid expression: must be true or false, not "+want+" (got")):
			t.Errorf("%s: %v, want %s", when, err, want)
		}
	}
}

// What a workflow tells others may read its parameters and all of its steps.
func TestCheckOutputs(t *testing.T) {
	const head = "params: [{name: day}]\nsteps:\n- {name: a, job: j}\non_failure:\n- {name: f, job: j}\nfinally:\n- {name: z, job: j}\noutputs:\n  x: "
	for text, want := range map[string]string{
		`"${{ steps.a.output }} of ${{ params.day }}"`:          "",
		`["${{ steps.f.state }}", {b: "${{ steps.z.state }}"}]`: "",
		`"${{ run.id }}"`:        "",
		`7`:                      "",
		`"${{ steps.b.state }}"`: `outputs.x: must be a valid expression: column 1: there is no step "b"`,
		`["${{ params.n }}"]`:    `outputs.x[0]: must be a valid expression: column 1: params.n is not declared`,
		`"${{ item }}"`:          `outputs.x: must be a valid expression: column 1: unknown name "item"`,
	} {
		err := CheckWorkflow(workflow(t, head+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
