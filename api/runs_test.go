package api

import (
	"net/http"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestRuns(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond)
	rec := w.do("POST", "/v1/workflows/etl/runs", `{"params":{"day":"sun"},"priority":"high","idempotency_key":"k1"}`)
	run := decoded[client.Run](t, http.StatusCreated, rec)
	if run.State != "running" || run.Workflow != "etl" || run.WorkflowVersion != 1 || run.StepCount != 5 || run.Priority != "high" ||
		run.Trigger.Kind != "manual" || rec.Header().Get("Location") != "/v1/runs/"+run.ID || *run.Deduplicated {
		t.Errorf("%+v", run)
	}
	again := expect[client.Run](w, http.StatusOK, "POST", "/v1/workflows/etl/runs", `{"params":{"day":"sun"},"priority":"high","idempotency_key":"k1"}`)
	if again.ID != run.ID || !*again.Deduplicated {
		t.Errorf("%+v", again)
	}
	wantProblem(t, w.do("POST", "/v1/workflows/etl/runs", `{"params":{"day":"mon"},"idempotency_key":"k1"}`),
		http.StatusConflict, job.CodeIdempotencyMismatch, "idempotency_key")
	d := w.runOf(run.ID)
	if got := states(d); got != "a=waiting b=blocked c=blocked d=blocked z=blocked" {
		t.Errorf("%s", got)
	}
	if string(d.Params) != `{"day":"sun","n":3}` || d.Steps[3].Section != "steps" || d.Steps[4].Section != "finally" ||
		strings.Join(d.Steps[3].Needs, ",") != "b,c" || !d.Steps[2].AllowFailure || d.Steps[0].Job != "j" {
		t.Errorf("%+v", d)
	}
	task := expect[client.Task](w, http.StatusOK, "GET", "/v1/tasks/"+d.Steps[1].Task, "")
	if task.Run != run.ID || task.Step != "b" || task.State != "blocked" {
		t.Errorf("%+v", task)
	}
	list := expect[client.TaskList](w, http.StatusOK, "GET", "/v1/tasks?run="+run.ID, "")
	if len(list.Tasks) != 5 || list.Tasks[0].Step != "a" {
		t.Errorf("%+v", list)
	}
	list = expect[client.TaskList](w, http.StatusOK, "GET", "/v1/tasks?state=blocked&limit=2&run="+run.ID, "")
	if len(list.Tasks) != 2 || list.NextCursor == "" {
		t.Errorf("%+v", list)
	}
	list = expect[client.TaskList](w, http.StatusOK, "GET", "/v1/tasks?state=blocked&limit=5&run="+run.ID+"&cursor="+list.NextCursor, "")
	if len(list.Tasks) != 2 || list.NextCursor != "" {
		t.Errorf("%+v", list)
	}
	w.finishStep(run.ID, "a", job.OutcomeSuccess)
	w.finishStep(run.ID, "b", job.OutcomeSuccess)
	w.finishStep(run.ID, "c", job.OutcomeFailed)
	if got := states(w.runOf(run.ID)); got != "a=success b=success c=failed d=upstream_failed z=waiting" {
		t.Errorf("%s", got)
	}
	w.finishStep(run.ID, "z", job.OutcomeSuccess)
	d = w.runOf(run.ID)
	if d.State != "failed" || d.FinishedAt == nil || d.Tasks["success"] != 3 || d.DeadLetters != 1 {
		t.Errorf("%+v", d.Run)
	}
	page := expect[client.RunDetail](w, http.StatusOK, "GET", "/v1/runs/"+run.ID+"?limit=3", "")
	rest := expect[client.RunDetail](w, http.StatusOK, "GET", "/v1/runs/"+run.ID+"?limit=3&cursor="+page.NextCursor, "")
	if len(page.Steps) != 3 || len(rest.Steps) != 2 || rest.NextCursor != "" {
		t.Errorf("%d and %d steps", len(page.Steps), len(rest.Steps))
	}
	wf := expect[client.Workflow](w, http.StatusOK, "GET", "/v1/workflows/etl", "")
	if wf.Runs["failed"] != 1 || wf.Runs["running"] != 0 {
		t.Errorf("%+v", wf.Runs)
	}
}

func TestRunActs(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond)
	run := w.startedRun("etl", `{"params":{"day":"x"}}`)
	path := "/v1/runs/" + run.ID
	w.finishStep(run.ID, "a", job.OutcomeFailed)
	w.finishStep(run.ID, "z", job.OutcomeSuccess)
	if got := states(w.runOf(run.ID)); got != "a=failed b=upstream_failed c=upstream_failed d=upstream_failed z=success" {
		t.Fatalf("%s", got)
	}
	out := expect[client.Run](w, http.StatusOK, "POST", path+"/rerun", "")
	if out.State != "running" || !out.Touched {
		t.Errorf("%+v", out)
	}
	if got := states(w.runOf(run.ID)); got != "a=waiting b=blocked c=blocked d=blocked z=blocked" {
		t.Fatalf("%s", got)
	}
	expect[client.Run](w, http.StatusOK, "POST", path+"/steps/a/force-success", `{"reason":"done by hand"}`)
	expect[client.Run](w, http.StatusOK, "POST", path+"/steps/b/skip", "")
	if got := states(w.runOf(run.ID)); !strings.HasPrefix(got, "a=success b=skipped c=waiting") {
		t.Fatalf("%s", got)
	}
	w.finishStep(run.ID, "c", job.OutcomeSuccess)
	expect[client.Run](w, http.StatusOK, "POST", path+"/rerun", `{"from":"a"}`)
	w.finishStep(run.ID, "a", job.OutcomeSuccess)
	out = expect[client.Run](w, http.StatusOK, "POST", path+"/cancel", `{"reason":"enough"}`)
	if out.State != "running" && out.State != "cancelled" || !strings.Contains(out.Error, "enough") {
		t.Errorf("%+v", out)
	}
	w.finishStep(run.ID, "z", job.OutcomeSuccess)
	if d := w.runOf(run.ID); d.State != "cancelled" {
		t.Errorf("%+v", d.Run)
	}
	expect[client.Run](w, http.StatusOK, "POST", path+"/steps/a/rerun", "")
	if d := w.runOf(run.ID); !strings.HasPrefix(states(d), "a=waiting b=cancelled") {
		t.Errorf("%s", states(d))
	}
}

// A step that runs again, and is then skipped, doesn't show when it ran before.
func TestRerunForgetsOldStart(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/w", `{"steps":[{"name":"a","job":"j"}],"on_failure":[{"name":"tell","job":"j"}]}`)
	run := w.startedRun("w", "")
	w.finishStep(run.ID, "a", job.OutcomeFailed)
	w.finishStep(run.ID, "tell", job.OutcomeSuccess)
	if s := w.runOf(run.ID).Steps[1]; s.StartedAt == nil {
		t.Fatalf("%+v", s)
	}
	expect[client.Run](w, http.StatusOK, "POST", "/v1/runs/"+run.ID+"/rerun", "")
	if s := w.runOf(run.ID).Steps[0]; s.StartedAt != nil || s.Duration != nil {
		t.Errorf("it waits again, and shows %v, %v", s.StartedAt, s.Duration)
	}
	w.finishStep(run.ID, "a", job.OutcomeSuccess)
	if s := w.runOf(run.ID).Steps[1]; s.State != "skipped" || s.StartedAt != nil || s.Duration != nil {
		t.Errorf("%s, started %v, took %v", s.State, s.StartedAt, s.Duration)
	}
}

// The items of a step are listed with their runs, and explained by them.
func TestRunItems(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/inner", `{"params":[{"name":"n","type":"int"}],"steps":[{"name":"i","job":"j"}]}`)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/outer",
		`{"steps":[{"name":"a","job":"j"},{"name":"each","workflow":"inner","for_each":{"items":[{"n":1},{"n":2},{"n":3}],"parallel":2}}]}`)
	run := w.startedRun("outer", "")
	ref := fsm.RunRef{Namespace: "default"}
	var err error
	if ref.ID, err = job.ParseID(run.ID); err != nil {
		t.Fatal(err)
	}
	var step fsm.Step
	_ = w.Read(t.Context(), false, func(v fsm.Reader) error {
		step, _ = fsm.GetStep(v, ref, 1)
		return nil
	})
	w.must(fsm.StepVerdict{Term: 1, Ref: ref, Step: 1, Want: step.Want, Total: 3, Items: [][]byte{[]byte(`{"n":1}`), []byte(`{"n":2}`), []byte(`{"n":3}`)}})
	path := "/v1/runs/" + run.ID + "/steps/each/items"
	page := expect[client.RunItemList](w, http.StatusOK, "GET", path+"?limit=2", "")
	rest := expect[client.RunItemList](w, http.StatusOK, "GET", path+"?cursor="+page.NextCursor, "")
	if len(page.Items) != 2 || len(rest.Items) != 1 || rest.NextCursor != "" || page.Items[1].State != "running" || page.Items[1].Run == "" ||
		rest.Items[0].State != "blocked" || rest.Items[0].Run != "" || rest.Items[0].Item != 3 {
		t.Errorf("%+v, %+v", page, rest)
	}
	each := w.runOf(run.ID).Steps[1]
	if each.State != "running" || each.Items["running"] != 2 || each.Items["blocked"] != 1 || *each.ItemCount != 3 {
		t.Errorf("%+v", each)
	}
	if child := w.runOf(page.Items[1].Run); child.Trigger.Run != run.ID || child.Trigger.Item != 2 || string(child.Params) != `{"n":2}` {
		t.Errorf("%+v", child)
	}
	for task, want := range map[string]string{
		page.Items[0].Task: "It is run " + page.Items[0].Run, rest.Items[0].Task: "It is item 3 of step each", each.Task: "It is 3 runs of workflow inner",
	} {
		e := expect[client.Explanation](w, http.StatusOK, "GET", "/v1/tasks/"+task+"/explain", "")
		if len(e.Reasons) == 0 || !strings.Contains(e.Reasons[0].Text, want) {
			t.Errorf("%+v, want %s", e.Reasons, want)
		}
	}
	if none := expect[client.RunItemList](w, http.StatusOK, "GET", "/v1/runs/"+run.ID+"/steps/a/items", ""); len(none.Items) != 0 {
		t.Errorf("%+v", none)
	}
	wantProblem(t, w.do("GET", "/v1/runs/"+run.ID+"/steps/no/items", ""), 404, job.CodeNotFound, "step")
	wantProblem(t, w.do("GET", path+"?cursor=x", ""), 400, job.CodeInvalid, "cursor")
}

func TestBadRunRequests(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond)
	for _, c := range []struct{ body, field string }{
		{`{"params":[]}`, "params"}, {`{"params":{"nope":1,"day":"x"}}`, "params"}, {`{}`, "params.day"}, {`{"params":{"day":3}}`, "params.day"},
		{`{"params":{"day":"x","n":"y"}}`, "params.n"}, {`{"priority":"urgent"}`, "priority"}, {`{"param":{}}`, "param"},
	} {
		wantProblem(t, w.do("POST", "/v1/workflows/etl/runs", c.body), http.StatusBadRequest, job.CodeInvalid, c.field)
	}
	wantProblem(t, w.do("POST", "/v1/workflows/nope/runs", ""), http.StatusNotFound, job.CodeNotFound, "workflow")
	run := w.startedRun("etl", `{"params":{"day":"x"}}`)
	path := "/v1/runs/" + run.ID
	for _, c := range []struct {
		method, target, body string
		status               int
		code                 job.Code
		field                string
	}{
		{"GET", "/v1/runs/nope", "", 404, job.CodeNotFound, "id"},
		{"GET", "/v1/runs/01KBN0Y2M80000000000000007", "", 404, job.CodeNotFound, "id"},
		{"GET", "/v1/runs?state=pending", "", 400, job.CodeInvalid, "state"},
		{"GET", "/v1/runs?state=", "", 400, job.CodeInvalid, "state"},
		{"GET", "/v1/runs?workflow=a%20b", "", 400, job.CodeInvalid, "workflow"},
		{"GET", "/v1/runs?from=yesterday", "", 400, job.CodeInvalid, "from"},
		{"GET", "/v1/runs?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z", "", 400, job.CodeInvalid, "to"},
		{"GET", "/v1/runs?cursor=x", "", 400, job.CodeInvalid, "cursor"},
		{"GET", path + "?cursor=x", "", 400, job.CodeInvalid, "cursor"},
		{"GET", "/v1/tasks?run=x", "", 400, job.CodeInvalid, "run"},
		{"POST", path + "/cancel", `{"reason":"` + strings.Repeat("x", fsm.MaxErrorBytes+1) + `"}`, 400, job.CodeInvalid, "reason"},
		{"POST", path + "/rerun", "", 409, job.CodeConflict, "run"},
		{"POST", path + "/rerun", `{"from":"nope"}`, 404, job.CodeNotFound, "step"},
		{"POST", path + "/steps/nope/skip", "", 404, job.CodeNotFound, "step"},
		{"POST", path + "/steps/a/rerun", "", 409, job.CodeConflict, "step"},
		{"POST", path + "/steps/a/skip", `{"why":""}`, 400, job.CodeInvalid, "why"},
		{"POST", "/v1/runs/01KBN0Y2M80000000000000007/cancel", "", 404, job.CodeNotFound, "run"},
	} {
		wantProblem(t, w.do(c.method, c.target, c.body), c.status, c.code, c.field)
	}
}

func TestListRuns(t *testing.T) {
	w := newFlowWorld(t)
	one := `{"steps":[{"name":"a","job":"j"}]}`
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/x", one)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/y", one)
	var ids []string
	for _, name := range []string{"x", "y", "x", "x"} {
		ids = append(ids, w.startedRun(name, "").ID)
		w.advance(1000)
	}
	w.finishStep(ids[2], "a", job.OutcomeSuccess)
	for query, want := range map[string][]string{
		"":                           ids,
		"workflow=x":                 {ids[0], ids[2], ids[3]},
		"state=success":              {ids[2]},
		"state=running&workflow=x":   {ids[0], ids[3]},
		"from=2026-03-29T00:00:01Z":  ids[1:],
		"to=2026-03-29T00:00:01Z":    ids[:1],
		"workflow=nope":              nil,
		"state=cancelled&workflow=x": nil,
	} {
		list := expect[client.RunList](w, http.StatusOK, "GET", "/v1/runs?"+query, "")
		var got []string
		for _, r := range list.Runs {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	page := expect[client.RunList](w, http.StatusOK, "GET", "/v1/runs?limit=3", "")
	rest := expect[client.RunList](w, http.StatusOK, "GET", "/v1/runs?limit=3&cursor="+page.NextCursor, "")
	if len(page.Runs) != 3 || len(rest.Runs) != 1 || rest.Runs[0].ID != ids[3] || rest.NextCursor != "" {
		t.Errorf("%d and %d runs", len(page.Runs), len(rest.Runs))
	}
}

func TestExplainSteps(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond)
	run := w.startedRun("etl", `{"params":{"day":"x"}}`)
	taskOf := map[string]string{}
	for _, s := range w.runOf(run.ID).Steps {
		taskOf[s.Name] = s.Task
	}
	reason := func(step string) client.Reason {
		t.Helper()
		e := expect[client.Explanation](w, http.StatusOK, "GET", "/v1/tasks/"+taskOf[step]+"/explain", "")
		if len(e.Reasons) == 0 {
			t.Fatalf("%s: no reason", step)
		}
		return e.Reasons[0]
	}
	for step, want := range map[string][]string{
		"b": {"blocked", "1 of 1 steps have not ended", "a is waiting (task " + taskOf["a"], "owner ann"},
		"d": {"blocked", "2 of 2", "b is blocked", "owner data", "all of them to succeed"},
		"z": {"blocked", "finally", "axd run show " + run.ID},
	} {
		r := reason(step)
		if text := r.Code + " " + r.Text + " " + r.Next; !containsAll(text, want) {
			t.Errorf("%s: %s", step, text)
		}
	}
	w.finishStep(run.ID, "a", job.OutcomeFailed)
	r := reason("d")
	if text := r.Code + " " + r.Text + " " + r.Next; !containsAll(text, []string{"upstream", "b ended upstream_failed", "axd run rerun " + run.ID}) {
		t.Error(text)
	}
}

func containsAll(text string, parts []string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}

func TestRunsTellWhoStartedThem(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/etl", diamond)
	r := newRequest("POST", "/v1/workflows/etl/runs", `{"params":{"day":"mon"}}`)
	r.Header.Set(client.ActorHeader, "ann@desk")
	if by := decoded[client.Run](t, http.StatusCreated, w.serve(r)); by.Trigger != (client.RunTrigger{Kind: "manual", Actor: "ann@desk"}) {
		t.Errorf("%+v", by.Trigger)
	}
}
