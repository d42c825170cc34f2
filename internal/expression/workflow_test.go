package expression

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/axd-project/axd/job"
)

func workflow(t *testing.T, text string) *job.WorkflowSpec {
	t.Helper()
	var w job.WorkflowSpec
	if err := yaml.UnmarshalWithOptions([]byte(text), &w, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	if err := w.Validate(); err != nil {
		t.Fatal(err)
	}
	return &w
}

const checked = `
params: [{name: day, required: true}, {name: n, type: int, default: 3}]
steps:
- {name: a, job: j, payload: {day: "${{ params.day }}"}}
- {name: b, job: j, needs: [a], when: 'steps.a.output.ok && params.day != "sun"'}
- {name: c-d, job: j, needs: [b], payload: ["${{ steps.a.output }}", {code: "${{ steps.b.exit_code }}"}]}
- {name: e, job: j, needs: [c-d], for_each: {items: '${{ steps["c-d"].output.files }}'}, payload: {file: "${{ item }}", i: "${{ index }} of ${{ run.id }}"}}
- {name: f, workflow: other, needs: [a], params: {day: "${{ params.day }}"}}
- {name: g, job: j, for_each: {items: [1, 2]}, payload: "${{ item }}"}
on_failure:
- {name: tell, job: j, payload: "a is ${{ steps.a.state }}"}
finally:
- {name: clean, job: j, when: steps.tell.state != "success"}
`

func TestCheckWorkflow(t *testing.T) {
	w := workflow(t, checked)
	if err := CheckWorkflow(w); err != nil {
		t.Error(err)
	}
	reads := func(n int) []string {
		s, err := CompileStep(&w.Steps[n])
		if err != nil {
			t.Fatal(err)
		}
		return s.Reads
	}
	if got := fmt.Sprint(reads(2), reads(3), reads(0)); got != "[a b] [c-d] []" {
		t.Errorf("read %s", got)
	}
	for _, c := range []struct{ was, is, want string }{
		{`params.day != "sun"`, `param.day != "sun"`, `steps[1].when: must be a valid expression: column 22: unknown name "param"`},
		{`params.day != "sun"`, `params.dy != "sun"`, `steps[1].when: must be a valid expression: column 22: params.dy is not declared as a parameter of the workflow`},
		{`steps.a.output.ok`, `steps.a.result.ok`, `steps[1].when: must be a valid expression: column 1: of a step may be read output, state, exit_code`},
		{`steps.a.output.ok`, `steps.x.output.ok`, `column 1: there is no step "x"`},
		{`steps.a.output.ok`, `steps.b.output.ok`, `column 1: step "b" is not upstream: add it to needs`},
		{`steps.a.output.ok`, `steps.g.output.ok`, `column 1: step "g" is not upstream`},
		{`steps.a.output.ok`, `steps.tell.state == "x"`, `column 1: step "tell" runs later`},
		{`steps.a.output.ok`, `steps[params.day].output`, `column 1: steps must be followed by the name of a step`},
		{`steps.a.output.ok`, `item == 1`, `column 1: unknown name "item"`},
		{`${{ steps.b.exit_code }}`, `${{ steps.c.state }}`, `steps[2].payload[1].code: must be a valid expression: column 1: there is no step "c"`},
		{`${{ steps.b.exit_code }}`, `${{ steps.b.state }`, `steps[2].payload[1].code: must be a valid expression: ${{ is never closed by }}`},
		{`'${{ steps["c-d"].output.files }}'`, `'${{ steps["c-d"].output }} ${{ 1 }}'`, `steps[3].for_each.items: must be a list, or a string that is one`},
		{`'${{ steps["c-d"].output.files }}'`, `["${{ params.n }}"]`, `steps[3].for_each.items: must hold no expressions`},
		{`${{ run.id }}`, `${{ run.user }}`, `steps[3].payload.i: must be a valid expression: column 1: run must be followed by id`},
		{`{day: "${{ params.day }}"}}` + "\n- {name: g", `{day: "${{ params.x }}"}}` + "\n- {name: g", `steps[4].params.day: must be a valid expression: column 1: params.x is not declared`},
		{`${{ steps.a.state }}`, `${{ item }}`, `on_failure[0].payload: must be a valid expression: column 1: unknown name "item"`},
		{`steps.tell.state !=`, `steps.tell.state !`, `finally[0].when: must be a valid expression: column 18`},
	} {
		text := strings.Replace(checked, c.was, c.is, 1)
		if text == checked {
			t.Fatalf("nothing replaced: %s", c.was)
		}
		if err := CheckWorkflow(workflow(t, text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", c.is, err, c.want)
		}
	}
}

// The largest workflow, each step of which reads the one it needs and the first of all.
func TestCheckLargeWorkflow(t *testing.T) {
	w := &job.WorkflowSpec{Steps: make([]job.Step, job.MaxSteps)}
	for i := range w.Steps {
		s := &w.Steps[i]
		s.Name, s.Job = fmt.Sprintf("s%d", i), "j"
		if i == 0 {
			continue
		}
		for j := max(0, i-9); j < i; j++ {
			s.Needs = append(s.Needs, fmt.Sprintf("s%d", j))
		}
		s.When = fmt.Sprintf(`steps.s%d.output == "x" || steps.s0.exit_code == 0`, i-1)
	}
	start := time.Now()
	if err := CheckWorkflow(w); err != nil {
		t.Error(err)
	}
	if took := time.Since(start); took > 20*time.Second { // some 0.6 s; without sets of bits minutes
		t.Errorf("took %v", took)
	}
}
