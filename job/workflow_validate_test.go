package job

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// steps builds steps from "name: need need" each, of the job "j".
func steps(lines ...string) (out []Step) {
	for _, line := range lines {
		name, needs, _ := strings.Cut(line, ":")
		out = append(out, Step{Name: name, Job: "j", Needs: strings.Fields(needs)})
	}
	return out
}

func TestWorkflowRules(t *testing.T) {
	step := func(change func(*Step)) WorkflowSpec {
		w := WorkflowSpec{Steps: steps("a", "b: a")}
		change(&w.Steps[1])
		return w
	}
	flow := func(change func(*WorkflowSpec)) WorkflowSpec {
		w := WorkflowSpec{Steps: steps("a", "b: a"), OnFailure: steps("f"), Finally: steps("z", "y: z")}
		change(&w)
		return w
	}
	params := func(p ...Param) WorkflowSpec { return flow(func(w *WorkflowSpec) { w.Params = p }) }
	cases := []struct {
		name  string
		in    WorkflowSpec
		field string
	}{
		{"plain", flow(func(*WorkflowSpec) {}), ""},
		{"no steps", WorkflowSpec{Finally: steps("a")}, "steps"},
		{"time-out below 0", flow(func(w *WorkflowSpec) { w.Timeout = ptr(Duration(-1)) }), "timeout"},
		{"time-out 0", flow(func(w *WorkflowSpec) { w.Timeout = ptr(Duration(0)) }), ""},
		{"max_parallel", flow(func(w *WorkflowSpec) { w.MaxParallel = -1 }), "max_parallel"},
		{"owner", flow(func(w *WorkflowSpec) { w.Owner = "a\n" }), "owner"},
		{"app", flow(func(w *WorkflowSpec) { w.App = strings.Repeat("a", 129) }), "app"},
		{"description", flow(func(w *WorkflowSpec) { w.Description = "\x00" }), "description"},
		{"name", step(func(s *Step) { s.Name = "a b" }), "steps[1].name"},
		{"name twice", step(func(s *Step) { s.Name = "a" }), "steps[1].name"},
		{"name twice in sections", flow(func(w *WorkflowSpec) { w.Finally[1].Name = "a" }), "finally[1].name"},
		{"neither job nor workflow", step(func(s *Step) { s.Job = "" }), "steps[1].job"},
		{"job and workflow", step(func(s *Step) { s.Workflow = "w" }), "steps[1].workflow"},
		{"job's name", step(func(s *Step) { s.Job = "a b" }), "steps[1].job"},
		{"workflow's name", step(func(s *Step) { s.Job, s.Workflow = "", "a b" }), "steps[1].workflow"},
		{"workflow", step(func(s *Step) { s.Job, s.Workflow, s.Params = "", "w", map[string]JSON{"x": JSON("1")} }), ""},
		{"workflow with priority", step(func(s *Step) { s.Job, s.Workflow, s.Priority = "", "w", High }), ""},
		{"workflow with policy", step(func(s *Step) { s.Job, s.Workflow, s.Timeout = "", "w", ptr(Duration(1)) }), "steps[1].workflow"},
		{"workflow with payload", step(func(s *Step) { s.Job, s.Workflow, s.Payload = "", "w", JSON("1") }), "steps[1].payload"},
		{"params of a workflow", step(func(s *Step) { s.Job, s.Workflow, s.Params = "", "w", map[string]JSON{"x-y": JSON("1")} }), `steps[1].params["x-y"]`},
		{"value of a param", step(func(s *Step) { s.Job, s.Workflow, s.Params = "", "w", map[string]JSON{"x": JSON("{")} }), `steps[1].params["x"]`},
		{"job with params", step(func(s *Step) { s.Params = map[string]JSON{"x": JSON("1")} }), "steps[1].params"},
		{"payload", step(func(s *Step) { s.Payload = JSON("{") }), "steps[1].payload"},
		{"payload too large", step(func(s *Step) { s.Payload = JSON(`"` + strings.Repeat("a", MaxPayload) + `"`) }), "steps[1].payload"},
		{"policy", step(func(s *Step) { s.Timeout = ptr(Duration(-1)) }), "steps[1].timeout"},
		{"when", step(func(s *Step) { s.When = strings.Repeat("a", MaxWhen+1) }), "steps[1].when"},
		{"rule", step(func(s *Step) { s.Rule = "most" }), "steps[1].rule"},
		{"unknown need", step(func(s *Step) { s.Needs = []string{"a", "nope"} }), "steps[1].needs[1]"},
		{"need twice", step(func(s *Step) { s.Needs = []string{"a", "a"} }), "steps[1].needs[1]"},
		{"need of another section", flow(func(w *WorkflowSpec) { w.Finally[1].Needs = []string{"a"} }), "finally[1].needs[0]"},
		{"need of finally", step(func(s *Step) { s.Needs = []string{"z"} }), "steps[1].needs[0]"},
		{"cycle in finally", flow(func(w *WorkflowSpec) { w.Finally = steps("z: y", "y: z") }), "finally[0].needs[0]"},
		{"list", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON("[1,2]"), Max: 2} }), ""},
		{"list from an expression", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON(`"${{ params.x }}"`)} }), ""},
		{"list too long", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON("[1,2]"), Max: 1} }), "steps[1].for_each.items"},
		{"no list", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON("3")} }), "steps[1].for_each.items"},
		{"no items", step(func(s *Step) { s.ForEach = &ForEach{} }), "steps[1].for_each.items"},
		{"text as items", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON(`"abc"`)} }), "steps[1].for_each.items"},
		{"max", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON("[]"), Max: MaxRunTasks + 1} }), "steps[1].for_each.max"},
		{"parallel", step(func(s *Step) { s.ForEach = &ForEach{Items: JSON("[]"), Parallel: -1} }), "steps[1].for_each.parallel"},
		{"params", params(Param{Name: "x"}, Param{Name: "y", Type: ParamInt, Default: JSON("3")}, Param{Name: "z", Required: true}), ""},
		{"param's name", params(Param{Name: "a-b"}), "params[0].name"},
		{"param twice", params(Param{Name: "x"}, Param{Name: "x"}), "params[1].name"},
		{"param's type", params(Param{Name: "x", Type: "date"}), "params[0].type"},
		{"default of another type", params(Param{Name: "x", Type: ParamInt, Default: JSON("3.5")}), "params[0].default"},
		{"default of a required one", params(Param{Name: "x", Required: true, Default: JSON(`"a"`)}), "params[0].default"},
		{"default null", params(Param{Name: "x", Default: JSON("null")}), "params[0].default"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
}

// A rule that no run can meet is refused, and the message says why.
func TestUnreachableRules(t *testing.T) {
	ruled := func(rules map[string]Rule, lines ...string) WorkflowSpec {
		w := WorkflowSpec{Steps: steps(lines...)}
		for i := range w.Steps {
			w.Steps[i].Rule = rules[w.Steps[i].Name]
		}
		return w
	}
	for _, r := range []Rule{AllFailed, OneFailed, OneSuccess, OneDone, NoneFailedMinSuccess} {
		w := ruled(map[string]Rule{"a": r}, "a", "b: a")
		wantError(t, string(r)+" without needs", w.Validate(), "steps[0].rule")
	}
	for _, r := range []Rule{AllSuccess, AllDone, NoneFailed, Always, ""} {
		w := ruled(map[string]Rule{"a": r}, "a", "b: a")
		wantError(t, string(r)+" without needs", w.Validate(), "")
	}
	diamond := []string{"a", "b: a", "x: b", "c: a x"}
	w := ruled(map[string]Rule{"b": AllFailed}, diamond...)
	err := w.Validate()
	wantError(t, "fails and succeeds", err, "steps[3].rule")
	if err != nil && !strings.Contains(err.Rule, "(a → b → x → c)") || !strings.Contains(err.Rule, "(a → c)") {
		t.Errorf("the ways are not told: %v", err)
	}
	w = ruled(map[string]Rule{"b": OneFailed, "c": NoneFailed}, diamond...)
	wantError(t, "skipped with x", w.Validate(), "") // b and x are skipped where a succeeds
	w = ruled(map[string]Rule{"b": AllFailed, "c": AllDone}, diamond...)
	wantError(t, "all_done takes both", w.Validate(), "")
	w = ruled(map[string]Rule{"b": AllFailed, "c": OneSuccess}, diamond...)
	wantError(t, "one_success takes either", w.Validate(), "")
}

func TestK6_01_CycleIsNamed(t *testing.T) {
	for _, c := range []struct {
		steps []Step
		field string
		text  string
	}{
		{steps("a: a"), "steps[0].needs[0]", "must not be the step itself"},
		{steps("s1: s4", "s2: s4", "s3: s1 s2", "s4: s3"), "steps[0].needs[0]", "s1 → s3 → s4 → s1"},
		{steps("a", "b: a d", "c: b", "d: c"), "steps[1].needs[1]", "b → c → d → b"},
	} {
		w := WorkflowSpec{Steps: c.steps}
		err := w.Validate()
		wantError(t, c.text, err, c.field)
		if err != nil && !strings.Contains(err.Rule, c.text) {
			t.Errorf("%v doesn't tell %s", err, c.text)
		}
	}
}

func TestK6_02_GraphWithoutCycleIsAccepted(t *testing.T) {
	lines := []string{"h: e g f", "e: f", "b: a", "a", "c: b", "d: b", "f: d", "g: f b", "q: b f k", "k: b"}
	w := WorkflowSpec{Steps: steps(lines...)}
	wantError(t, "several ways to a step", w.Validate(), "")
	place := map[string]int{}
	section := w.Sections()[0]
	for at, n := range section.Graph().Order() {
		place[w.Steps[n].Name] = at
	}
	for _, s := range w.Steps {
		for _, need := range s.Needs {
			if place[need] >= place[s.Name] {
				t.Errorf("%s comes before %s, which it needs", s.Name, need)
			}
		}
	}
}

func TestK6_03_MissingStepIsNamed(t *testing.T) {
	w := WorkflowSpec{Steps: steps("a", "x: a nope")}
	err := w.Validate()
	wantError(t, "missing", err, "steps[1].needs[1]")
	if text := err.Error(); !strings.Contains(text, `"nope"`) || !strings.Contains(text, `"x"`) {
		t.Errorf("%s: names not both", text)
	}
}

func chain(n int) []Step {
	out := make([]Step, n)
	for i := range out {
		out[i] = Step{Name: "s" + strconv.Itoa(i), Job: "j"}
		if i > 0 {
			out[i].Needs = []string{"s" + strconv.Itoa(i-1)}
		}
	}
	return out
}

func TestK6_05_LongChainIsChecked(t *testing.T) {
	w := WorkflowSpec{Steps: chain(MaxSteps)}
	began := time.Now()
	wantError(t, "chain", w.Validate(), "")
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("checked in %v", d)
	}
	w.Steps[0].Needs = []string{w.Steps[MaxSteps-1].Name}
	err := w.Validate()
	wantError(t, "ring", err, "steps[0].needs[0]")
	if err != nil && (len(err.Rule) > 2000 || !strings.Contains(err.Rule, "s0 → s1 → s2")) {
		t.Errorf("%d bytes of message: %v", len(err.Rule), err)
	}
	w = WorkflowSpec{Steps: chain(MaxSteps + 1)}
	wantError(t, "too long", w.Validate(), "steps")
}

func layers(width, count int) (out []Step) {
	for l := range count {
		for i := range width {
			s := Step{Name: fmt.Sprintf("l%d-%d", l, i), Job: "j"}
			for p := range width {
				if l > 0 {
					s.Needs = append(s.Needs, fmt.Sprintf("l%d-%d", l-1, p))
				}
			}
			out = append(out, s)
		}
	}
	return out
}

func TestK6_06_EdgesAreBounded(t *testing.T) {
	w := WorkflowSpec{Steps: layers(500, 2)}
	err := w.Validate()
	wantError(t, "250,000 edges", err, "needs")
	if err != nil && (err.Value != "250000" || !strings.Contains(err.Rule, "100000")) {
		t.Errorf("%v", err)
	}
	w = WorkflowSpec{Steps: layers(300, 2)}
	w.Steps[300].Rule = AllFailed
	w.Steps[301].Rule = OneFailed
	began := time.Now()
	wantError(t, "90,000 edges", w.Validate(), "")
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("checked in %v", d)
	}
}

func TestIsolatedStepsAreWarnedOf(t *testing.T) {
	w := WorkflowSpec{Steps: steps("a", "b: a", "lone"), Finally: steps("z")}
	if got := w.Warnings(); len(got) != 1 || !strings.Contains(got[0], `steps[2]: "lone" is isolated`) {
		t.Errorf("%q", got)
	}
	w = WorkflowSpec{Steps: steps("only")}
	if got := w.Warnings(); got != nil {
		t.Errorf("a single step is warned of: %q", got)
	}
	w.Steps = nil
	for i := range 50 {
		w.Steps = append(w.Steps, Step{Name: strconv.Itoa(i)})
	}
	if got := w.Warnings(); len(got) != 21 || got[20] != "30 more steps are isolated" {
		t.Errorf("%q", got)
	}
}

func TestParamsOfARun(t *testing.T) {
	w := WorkflowSpec{Params: []Param{
		{Name: "day", Required: true}, {Name: "n", Type: ParamInt, Default: JSON("7")}, {Name: "f", Type: ParamNumber},
		{Name: "b", Type: ParamBool}, {Name: "l", Type: ParamList}, {Name: "o", Type: ParamObject},
	}}
	got, err := w.ResolveParams(JSON(`{"day":"sun","f":9007199254740993,"b":false,"l":[1],"o":{}}`))
	if err != nil || len(got) != 6 || string(got["n"]) != "7" || string(got["f"]) != "9007199254740993" {
		t.Errorf("%s: %v", got, err)
	}
	for in, field := range map[string]string{
		``: "params.day", `{}`: "params.day", `{"day":null}`: "params.day", `{"day":1}`: "params.day", `[]`: "params", `{`: "params",
		`{"day":"a","n":1.5}`: "params.n", `{"day":"a","n":1e3}`: "params.n", `{"day":"a","n":"1"}`: "params.n", `{"day":"a","b":"x"}`: "params.b",
		`{"day":"a","x":1}`: "params", `{"day":"a","l":{}}`: "params.l", `{"day":"a","o":[]}`: "params.o",
		`{"day":"` + strings.Repeat("a", MaxParamBytes) + `"}`: "params",
	} {
		_, err := w.ResolveParams(JSON(in))
		wantError(t, Shorten(in), err, field)
	}
	if none, err := (&WorkflowSpec{}).ResolveParams(nil); err != nil || len(none) != 0 {
		t.Errorf("%v: %v", none, err)
	}
}
