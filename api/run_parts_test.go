package api

import (
	"net/http"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// judge hands in what the leader would compute for a step.
func (w *world) judge(run, step string, c fsm.StepVerdict) {
	w.t.Helper()
	id, err := job.ParseID(run)
	if err != nil {
		w.t.Fatal(err)
	}
	c.Ref = fsm.RunRef{Namespace: "default", ID: id}
	v := w.store.View()
	defer v.Close()
	r, _ := fsm.GetRun(v, c.Ref)
	graph, _ := fsm.GetRunGraph(v, &r)
	c.Step, _ = graph.Number(step)
	s, _ := fsm.GetStep(v, c.Ref, c.Step)
	c.Want, c.Term = s.Want, 1
	w.must(c)
}

// Steps that fan out, or are workflows, show what is at work for them.
func TestStepsInParts(t *testing.T) {
	w := newFlowWorld(t)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/inner", `{"steps":[{"name":"i","job":"j"}]}`)
	expect[client.Workflow](w, http.StatusCreated, "PUT", "/v1/workflows/outer", `{"params":[{"name":"list","type":"list"}],"steps":[
		{"name":"when","job":"j","when":"params.list != nil"},
		{"name":"fan","job":"j","for_each":{"items":"${{ params.list }}","parallel":1}},{"name":"sub","workflow":"inner"}]}`)
	run := w.startedRun("outer", `{"params":{"list":[1,2]}}`)
	if got := states(w.runOf(run.ID)); got != "when=blocked fan=blocked sub=blocked" {
		t.Error(got)
	}
	w.judge(run.ID, "when", fsm.StepVerdict{Skip: "when is false"})
	w.judge(run.ID, "fan", fsm.StepVerdict{Total: 2, Items: [][]byte{[]byte("1"), []byte("2")}})
	w.judge(run.ID, "sub", fsm.StepVerdict{})
	d := w.runOf(run.ID)
	if got := states(d); got != "when=skipped fan=running sub=running" {
		t.Error(got)
	}
	fan, sub := d.Steps[1], d.Steps[2]
	if fan.ItemCount == nil || *fan.ItemCount != 2 || fan.Items["pending"] != 1 || fan.Items["blocked"] != 1 || fan.StartedAt == nil {
		t.Errorf("%+v", fan)
	}
	if d.ItemCount != 2 || d.StepCount != 3 {
		t.Errorf("%+v", d.Run)
	}
	if child := w.runOf(sub.Run); child.Workflow != "inner" || child.Trigger.Kind != "run" || child.Trigger.Run != run.ID || child.Trigger.Step != "sub" {
		t.Errorf("%+v", child)
	}
	list := expect[client.TaskList](w, http.StatusOK, "GET", "/v1/tasks?limit=4&run="+run.ID, "")
	more := expect[client.TaskList](w, http.StatusOK, "GET", "/v1/tasks?run="+run.ID+"&cursor="+list.NextCursor, "")
	if len(list.Tasks) != 4 || len(more.Tasks) != 1 || list.Tasks[3].Item != 1 || more.Tasks[0].Item != 2 || more.Tasks[0].Step != "fan" {
		t.Errorf("%+v %+v", list, more)
	}
	for task, want := range map[string]string{
		fan.Task:         "It is 2 tasks, of which 0 have ended, and ends with the last.",
		sub.Task:         "It is run " + sub.Run + " of workflow inner, and ends with it.",
		more.Tasks[0].ID: "It is item 2 of step fan, and waits for its turn: 1 of its step may be at work at once (parallel).",
		d.Steps[0].Task:  "When is false.",
	} {
		e := expect[client.Explanation](w, http.StatusOK, "GET", "/v1/tasks/"+task+"/explain", "")
		if len(e.Reasons) == 0 || e.Reasons[0].Text != want {
			t.Errorf("%+v, want %s", e.Reasons, want)
		}
	}
	for _, path := range []string{
		"/v1/tasks/" + fan.Task + "/cancel", "/v1/runs/" + run.ID + "/steps/fan/skip", "/v1/runs/" + run.ID + "/steps/sub/force-success",
		"/v1/runs/" + run.ID + "/steps/sub/rerun",
	} {
		if rec := w.do("POST", path, ""); rec.Code != http.StatusConflict {
			t.Errorf("%s: %d %s", path, rec.Code, rec.Body)
		}
	}
}

// Expressions are checked when a workflow is put, and workflows that lead back to
// themselves are refused.
func TestWorkflowExpressionsAreChecked(t *testing.T) {
	w := newFlowWorld(t)
	for body, field := range map[string]string{
		`{"steps":[{"name":"a","job":"j","when":"params.x"}]}`:                                        "steps[0].when",
		`{"steps":[{"name":"a","job":"j","when":"now() == 1"}]}`:                                      "steps[0].when",
		`{"steps":[{"name":"a","job":"j"},{"name":"b","job":"j","payload":"${{ steps.a.output }}"}]}`: "steps[1].payload",
		`{"steps":[{"name":"a","job":"j","for_each":{"items":"${{ params.x }}"}}]}`:                   "steps[0].for_each.items",
		`{"steps":[{"name":"a","workflow":"w"}]}`:                                                     "steps[0].workflow",
		`{"steps":[{"name":"a","workflow":"none"}]}`:                                                  "steps[0].workflow",
	} {
		wantProblem(t, w.do("PUT", "/v1/workflows/w", body), http.StatusBadRequest, job.CodeInvalid, field)
	}
}
