package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

const diamond = `{"owner":"data","params":[{"name":"day","required":true},{"name":"n","type":"int","default":3}],` +
	`"steps":[{"name":"a","job":"j","owner":"ann"},{"name":"b","job":"j","needs":["a"]},{"name":"c","job":"j","needs":["a"],"allow_failure":true},` +
	`{"name":"d","job":"j","needs":["b","c"]}],"finally":[{"name":"z","job":"j"}]}`

func newFlowWorld(t *testing.T) *world {
	w := newWorld(t)
	expect[client.Job](w, http.StatusCreated, "PUT", "/v1/jobs/j", `{`+execTrue+`,"retry":{"max_retries":0}}`)
	return w
}

func TestWorkflows(t *testing.T) {
	w := newFlowWorld(t)
	wf := expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond)
	if wf.Version != 1 || wf.Name != "etl" || len(wf.Steps) != 4 || wf.CreatedAt == nil || wf.Warnings != nil {
		t.Errorf("%+v", wf)
	}
	if again := expect[client.Workflow](w, http.StatusOK, "PUT", "/v1/workflows/etl", diamond); again.Version != 1 {
		t.Errorf("an equal definition is version %d", again.Version)
	}
	// What GET answers can be put back, and changes nothing.
	got := w.do("GET", "/v1/workflows/etl", "")
	if back := expect[client.Workflow](w, http.StatusOK, "PUT", "/v1/workflows/etl", got.Body.String()); back.Version != 1 {
		t.Errorf("put back it is version %d", back.Version)
	}
	changed := strings.Replace(diamond, `"finally"`, `"max_parallel":2,"finally"`, 1)
	changed = strings.Replace(changed, `{"name":"d"`, `{"name":"lone","job":"j"},{"name":"d"`, 1)
	wf = expect[client.Workflow](w, http.StatusOK, "PUT", "/v1/workflows/etl", changed)
	if wf.Version != 2 || len(wf.Warnings) != 1 || !strings.Contains(wf.Warnings[0], `"lone" is isolated`) {
		t.Errorf("%+v", wf)
	}
	if old := expect[client.Workflow](w, http.StatusOK, "GET", "/v1/workflows/etl?version=1", ""); old.Version != 1 || len(old.Steps) != 4 {
		t.Errorf("%+v", old)
	}
	versions := expect[client.WorkflowVersionList](w, http.StatusOK, "GET", "/v1/workflows/etl/versions", "")
	if len(versions.Versions) != 2 || versions.Versions[0].Version != 2 {
		t.Errorf("%+v", versions)
	}
	list := expect[client.WorkflowList](w, http.StatusOK, "GET", "/v1/workflows", "")
	if len(list.Workflows) != 1 || list.Workflows[0].StepCount != 6 || list.Workflows[0].Owner != "data" {
		t.Errorf("%+v", list)
	}
	if rec := w.do("DELETE", "/v1/workflows/etl", ""); rec.Code != http.StatusNoContent {
		t.Errorf("%d %s", rec.Code, rec.Body)
	}
	wantProblem(t, w.do("GET", "/v1/workflows/etl", ""), http.StatusNotFound, job.CodeNotFound, "name")
	wantProblem(t, w.do("GET", "/v1/workflows/etl/versions", ""), http.StatusNotFound, job.CodeNotFound, "name")
}

// A set of files is noted with a workflow; that alone makes no version, and who
// puts the workflow without one leaves it.
func TestWorkflowFileSet(t *testing.T) {
	w := newFlowWorld(t)
	in := func(set string) string {
		return strings.Replace(diamond, `{"owner"`, `{"file_set":"`+set+`","owner"`, 1)
	}
	for _, c := range []struct {
		status int
		body   string
		set    string
	}{{201, diamond, ""}, {200, in("shop"), "shop"}, {200, diamond, "shop"}, {200, in("other"), "other"}} {
		expect[client.Workflow](w, c.status, "PUT", "/v1/workflows/etl", c.body)
		if got := expect[client.Workflow](w, http.StatusOK, "GET", "/v1/workflows/etl", ""); got.FileSet != c.set || got.Version != 1 {
			t.Errorf("set %q, version %d; want %q, 1", got.FileSet, got.Version, c.set)
		}
	}
	if list := expect[client.WorkflowList](w, http.StatusOK, "GET", "/v1/workflows", ""); list.Workflows[0].FileSet != "other" {
		t.Errorf("%+v", list)
	}
	wantProblem(t, w.do("PUT", "/v1/workflows/etl", in("a b")), http.StatusBadRequest, job.CodeInvalid, "file_set")
	if rec := w.do("DELETE", "/v1/workflows/etl", ""); rec.Code != http.StatusNoContent {
		t.Error(rec.Code)
	}
	if back := expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond); back.FileSet != "" {
		t.Errorf("a deleted one's set %q came back", back.FileSet)
	}
}

func TestBadWorkflows(t *testing.T) {
	w := newFlowWorld(t)
	for _, c := range []struct{ body, field, text string }{
		{`{"steps":[{"name":"a","job":"j","needs":["b"]},{"name":"b","job":"j","needs":["a"]}]}`, "steps[0].needs[0]", "a → b → a"},
		{`{"steps":[{"name":"a","job":"j","needs":["a"]}]}`, "steps[0].needs[0]", "itself"},
		{`{"steps":[{"name":"a","job":"nope"}]}`, "steps[0].job", "exists"},
		{`{"steps":[{"name":"a","job":"j","need":[]}]}`, "steps[0].need", "not a field"},
		{`{"steps":[{"name":"a","job":"j","rule":"most"}]}`, "steps[0].rule", "all_success"},
		{`{"steps":[{"name":"a","job":"j","when":"nope.x"}]}`, "steps[0].when", ""},
		{`{"steps":[]}`, "steps", "at least one"},
		{`{"steps":[{"name":"a","job":"j"}],"version":"x"}`, "version", "integer"},
		{`{"name":"other","steps":[{"name":"a","job":"j"}]}`, "name", "path"},
		{`{"namespace":"other","steps":[{"name":"a","job":"j"}]}`, "namespace", "namespace"},
	} {
		p := wantProblem(t, w.do("PUT", "/v1/workflows/w", c.body), http.StatusBadRequest, job.CodeInvalid, c.field)
		if !strings.Contains(p.Detail, c.text) {
			t.Errorf("%s: %s", c.body, p.Detail)
		}
	}
	large := `{"steps":[{"name":"a","job":"j","payload":"` + strings.Repeat("x", job.MaxWorkflowBytes) + `"}]}`
	wantProblem(t, w.do("PUT", "/v1/workflows/w", large), http.StatusRequestEntityTooLarge, job.CodeTooLarge, "body")
	wantProblem(t, w.do("PUT", "/v1/workflows/a%20b", diamond), http.StatusBadRequest, job.CodeInvalid, "name")
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/w", diamond)
	for _, c := range []struct{ query, field string }{{"version=0", "version"}, {"version=x", "version"}} {
		wantProblem(t, w.do("GET", "/v1/workflows/w?"+c.query, ""), http.StatusBadRequest, job.CodeInvalid, c.field)
	}
	wantProblem(t, w.do("GET", "/v1/workflows/w?version=2", ""), http.StatusNotFound, job.CodeNotFound, "name")
	wantProblem(t, w.do("DELETE", "/v1/workflows/x", ""), http.StatusNotFound, job.CodeNotFound, "workflow")
}

// A cycle by an update is refused, and the version that is there stays.
func TestK6_01_CycleByUpdate(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/w", diamond)
	bad := strings.Replace(diamond, `{"name":"a","job":"j"`, `{"name":"a","job":"j","needs":["d"]`, 1)
	p := wantProblem(t, w.do("PUT", "/v1/workflows/w", bad), http.StatusBadRequest, job.CodeInvalid, "steps[0].needs[0]")
	if !strings.Contains(p.Detail, "a → b → d → a") {
		t.Error(p.Detail)
	}
	if wf := expect[client.Workflow](w, http.StatusOK, "GET", "/v1/workflows/w", ""); wf.Version != 1 || len(wf.Steps[0].Needs) != 0 {
		t.Errorf("%+v", wf)
	}
	w.startedRun("w", `{"params":{"day":"x"}}`)
}

// A step that others need can't be left out by an update.
func TestK6_03_StepMissingAfterUpdate(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/w", diamond)
	bad := strings.Replace(diamond, `{"name":"b","job":"j","needs":["a"]},`, "", 1)
	p := wantProblem(t, w.do("PUT", "/v1/workflows/w", bad), http.StatusBadRequest, job.CodeInvalid, "steps[2].needs[0]")
	if !strings.Contains(p.Detail, `"b"`) || !strings.Contains(p.Detail, `"d"`) {
		t.Error(p.Detail)
	}
}

// 10,000 steps in a chain go through the API; 250,000 needs are refused.
func TestK6_05_LargeWorkflows(t *testing.T) {
	w := newFlowWorld(t)
	var b strings.Builder
	b.WriteString(`{"steps":[{"name":"s0","job":"j"}`)
	for i := 1; i < job.MaxSteps; i++ {
		fmt.Fprintf(&b, `,{"name":"s%d","job":"j","needs":["s%d"]}`, i, i-1)
	}
	b.WriteString(`]}`)
	wf := expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/chain", b.String())
	if len(wf.Steps) != job.MaxSteps {
		t.Errorf("%d steps", len(wf.Steps))
	}
	needs := `"` + strings.Join(strings.Fields(strings.Repeat("x ", 500)), `","`) + `"`
	b.Reset()
	b.WriteString(`{"steps":[{"name":"x","job":"j"}`)
	for i := range 500 {
		fmt.Fprintf(&b, `,{"name":"s%d","job":"j","needs":[%s]}`, i, needs)
	}
	b.WriteString(`]}`)
	p := wantProblem(t, w.do("PUT", "/v1/workflows/dense", b.String()), http.StatusBadRequest, job.CodeInvalid, "needs")
	if !strings.Contains(p.Detail, "100000") {
		t.Error(p.Detail)
	}
}

func (w *world) startedRun(workflow, body string) client.Run {
	w.t.Helper()
	return expect[client.Run](w, http.StatusCreated, "POST", "/v1/workflows/"+workflow+"/runs", body)
}

func (w *world) runOf(id string) client.RunDetail {
	w.t.Helper()
	return expect[client.RunDetail](w, http.StatusOK, "GET", "/v1/runs/"+id, "")
}

// finishStep runs a step's task to its end.
func (w *world) finishStep(run, step string, outcome job.Outcome) {
	w.t.Helper()
	for _, s := range w.runOf(run).Steps {
		if s.Name == step {
			attempt := w.assign(s.Task, "w1")
			code := 0
			if outcome != job.OutcomeSuccess {
				code = 1
			}
			w.must(fsm.Finished{AttemptRef: attempt, Result: fsm.AttemptResult{Outcome: outcome, ExitCode: &code, Started: w.now, Ended: w.now}})
			return
		}
	}
	w.t.Fatalf("no step %s", step)
}

// states are the states of a run's steps by name.
func states(d client.RunDetail) string {
	var parts []string
	for _, s := range d.Steps {
		parts = append(parts, s.Name+"="+s.State)
	}
	return strings.Join(parts, " ")
}
