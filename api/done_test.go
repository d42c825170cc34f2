package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestDoneRecords(t *testing.T) {
	w := newWorld(t)
	id := w.submitted(`{` + execTrue + `}`).ID
	path := "/v1/tasks/" + id + "/done/charge"
	wantProblem(t, w.do("GET", path, ""), 404, job.CodeNotFound, "name")
	a := w.assign(id, "w1")
	token := a.Token.String()
	wantProblem(t, w.do("GET", path+"?fencing_token="+token, ""), 404, job.CodeNotFound, "name")
	if d := expect[client.Done](w, 201, "PUT", path, `{"fencing_token": "`+token+`", "value": "c-17"}`); d.Name != "charge" || d.Value != "c-17" || d.Attempt != 1 {
		t.Errorf("recorded %+v", d)
	}
	if d := expect[client.Done](w, 200, "PUT", path, `{"fencing_token": "`+token+`", "value": "c-18"}`); d.Value != "c-17" {
		t.Errorf("recorded again: %+v", d)
	}
	for _, query := range []string{"", "?fencing_token=" + token} {
		if d := expect[client.Done](w, 200, "GET", path+query, ""); d.Value != "c-17" {
			t.Errorf("asked: %+v", d)
		}
	}
	if task := expect[client.Task](w, 200, "GET", "/v1/tasks/"+id, ""); len(task.Done) != 1 || task.Done[0].Name != "charge" {
		t.Errorf("the task shows %+v", task.Done)
	}
	old := strings.Repeat("0", 31) + "1"
	wantProblem(t, w.do("GET", path+"?fencing_token="+old, ""), 409, job.CodeStale, "token")
	wantProblem(t, w.do("PUT", path, `{"fencing_token": "`+old+`"}`), 409, job.CodeStale, "token")
	for body, field := range map[string]string{
		`{}`: "fencing_token", `{"fencing_token": "x"}`: "fencing_token", `{"fencing_token": "` + strings.Repeat("0", 32) + `"}`: "fencing_token",
		`{"fencing_token": "` + token + `", "value": "` + strings.Repeat("x", job.MaxDoneValue+1) + `"}`: "value", `{"token": "x"}`: "token",
	} {
		wantProblem(t, w.do("PUT", path, body), 400, job.CodeInvalid, field)
	}
	wantProblem(t, w.do("GET", path+"?fencing_token=", ""), 400, job.CodeInvalid, "fencing_token")
	wantProblem(t, w.do("PUT", "/v1/tasks/"+id+"/done/a%20b", `{"fencing_token": "`+token+`"}`), 400, job.CodeInvalid, "name")
	wantProblem(t, w.do("PUT", "/v1/tasks/nothing/done/a", `{"fencing_token": "`+token+`"}`), 404, job.CodeNotFound, "id")
	for i := range job.MaxDone - 1 {
		expect[client.Done](w, 201, "PUT", fmt.Sprintf("/v1/tasks/%s/done/n%d", id, i), `{"fencing_token": "`+token+`"}`)
	}
	wantProblem(t, w.do("PUT", "/v1/tasks/"+id+"/done/more", `{"fencing_token": "`+token+`"}`), 409, job.CodeConflict, "name")
}

func TestBroadcastsAreShown(t *testing.T) {
	w := newWorld(t)
	task := w.submitted(`{` + execTrue + `, "payload": {"n": 1}, "route": {"strategy": "broadcast"}}`)
	if task.Broadcast == nil || task.Broadcast.Workers != 0 || task.State != "waiting" {
		t.Errorf("submitted %+v", task)
	}
	ref := w.ref(task.ID)
	w.must(fsm.Broadcast{Term: 1, Ref: ref, Version: w.version(task.ID), Workers: []string{"w1", "w2"}})
	shown := expect[client.Task](w, 200, "GET", "/v1/tasks/"+task.ID, "")
	if shown.State != "blocked" || shown.Broadcast.Workers != 2 || shown.Broadcast.Open != 2 || len(shown.Parts) != 2 || shown.Parts[1].Worker != "w2" {
		t.Fatalf("shown %+v", shown)
	}
	list := expect[client.TaskList](w, 200, "GET", "/v1/tasks?parent="+task.ID+"&limit=1", "")
	if len(list.Tasks) != 1 || list.Tasks[0].Parent != task.ID || list.Tasks[0].BoundTo != "w1" || list.NextCursor == "" {
		t.Errorf("listed %+v", list)
	}
	part := expect[client.Task](w, 200, "GET", "/v1/tasks/"+shown.Parts[0].ID, "")
	if string(part.Payload) != `{"n": 1}` || part.Executor == nil || part.Parent != task.ID {
		t.Errorf("part %+v", part)
	}
	if e := w.explain(task.ID); len(e.Reasons) != 1 || e.Reasons[0].Code != string(job.ReasonInParts) || !strings.Contains(e.Reasons[0].Text, "at w1 (waiting)") {
		t.Errorf("explained %+v", e.Reasons)
	}
	wantProblem(t, w.do("POST", "/v1/tasks/"+task.ID+"/reschedule", `{"delay": "1h"}`), 409, job.CodeConflict, "task")
	wantProblem(t, w.do("GET", "/v1/tasks?parent=x", ""), 400, job.CodeInvalid, "parent")
	if got := expect[client.Task](w, 200, "POST", "/v1/tasks/"+task.ID+"/cancel", ""); got.State != "cancelled" || got.Broadcast.Cancelled != 2 {
		t.Errorf("cancelled %+v", got)
	}
	wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`, "route": {"strategy": "broadcast", "sticky": "k"}}`), 400, job.CodeInvalid, "route.strategy")
}

// A workflow's step goes to one worker.
func TestAStepIsNoBroadcast(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/all", `{`+execTrue+`, "route": {"strategy": "broadcast"}}`)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/one", `{`+execTrue+`}`)
	for name, body := range map[string]string{
		"its job": `{"steps": [{"name": "a", "job": "all"}]}`,
		"its own": `{"steps": [{"name": "a", "job": "one", "route": {"strategy": "broadcast"}}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := wantProblem(t, w.do("PUT", "/v1/workflows/flow", body), 400, job.CodeInvalid, "steps[0].route.strategy")
			if !strings.Contains(p.Detail, "must not be that of a step") {
				t.Error(p.Detail)
			}
		})
	}
	// The job becomes one later: the step fails with the reason.
	expect[client.Workflow](w, 201, "PUT", "/v1/workflows/flow", `{"steps": [{"name": "a", "job": "one"}]}`)
	expect[client.Job](w, 200, "PUT", "/v1/jobs/one", `{`+execTrue+`, "route": {"strategy": "broadcast"}}`)
	run := w.startedRun("flow", `{}`)
	if got := w.runOf(run.ID); got.State != "failed" {
		t.Errorf("the run is %s", got.State)
	}
}
