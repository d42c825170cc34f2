package api

import (
	"slices"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestCallbacks(t *testing.T) {
	w := newWorld(t)
	if got := expect[client.CallbackList](w, 200, "GET", "/v1/callbacks", ""); got.Callbacks == nil || len(got.Callbacks) != 0 {
		t.Errorf("none: %+v", got)
	}
	wantProblem(t, w.do("POST", "/v1/tasks", `{"handler":"h","callback_url":"ftp://a"}`), 400, job.CodeInvalid, "callback_url")
	wantProblem(t, w.do("POST", "/v1/tasks", `{"handler":"h","callback_url":"http://a","callback_job":"b"}`), 400, job.CodeInvalid, "callback_job")
	wantProblem(t, w.do("POST", "/v1/tasks", `{"handler":"h","callback_on":["never"]}`), 400, job.CodeInvalid, "callback_on[0]")

	expect[client.Job](w, 201, "PUT", "/v1/jobs/report", `{"handler":"h","callback_url":"https://hook.example/a","callback_on":["cancelled"]}`)
	one := expect[client.Task](w, 201, "POST", "/v1/tasks", `{"job":"report"}`)
	one = expect[client.Task](w, 200, "GET", "/v1/tasks/"+one.ID, "")
	if one.CallbackURL != "https://hook.example/a" || !slices.Equal(one.CallbackOn, []string{"cancelled"}) || one.Callback != nil {
		t.Errorf("a task that has not ended: %+v", one)
	}
	two := expect[client.Task](w, 201, "POST", "/v1/tasks", `{"handler":"h","callback_job":"nowhere"}`)
	expect[client.Task](w, 200, "POST", "/v1/tasks/"+one.ID+"/cancel", "")
	expect[client.Task](w, 200, "POST", "/v1/tasks/"+two.ID+"/cancel", "")

	shown := expect[client.Task](w, 200, "GET", "/v1/tasks/"+one.ID, "").Callback
	if shown == nil || shown.State != "owed" || shown.ID != one.ID+"-2" || shown.URL != "https://hook.example/a" || shown.NextTry == nil {
		t.Fatalf("the task's callback: %+v", shown)
	}
	ref, err := fsm.ParseCallbackID("default", shown.ID)
	if err != nil {
		t.Fatal(err)
	}
	w.must(fsm.CallbackTried{Term: 1, Ref: ref, Version: 1, Status: 500, Error: "answered 500: </pre><script>"})
	got := expect[client.Callback](w, 200, "GET", "/v1/callbacks/"+shown.ID, "")
	if got.Tries != 1 || got.LastStatus != 500 || got.LastError != "answered 500: </pre><script>" || got.TaskState != "cancelled" {
		t.Errorf("after a try: %+v", got)
	}
	w.must(fsm.CallbackTried{Term: 1, Ref: ref, Version: 2, Status: 204, OK: true})
	list := expect[client.CallbackList](w, 200, "GET", "/v1/callbacks?limit=1", "")
	if len(list.Callbacks) != 1 || list.Callbacks[0].State != "delivered" || list.Callbacks[0].SettledAt == nil || list.NextCursor == "" {
		t.Errorf("the first page: %+v", list)
	}
	list = expect[client.CallbackList](w, 200, "GET", "/v1/callbacks?limit=1&cursor="+list.NextCursor, "")
	if len(list.Callbacks) != 1 || list.Callbacks[0].State != "dead" || !strings.Contains(list.Callbacks[0].LastError, "nowhere") {
		t.Errorf("the second page: %+v", list)
	}
	dead := expect[client.CallbackList](w, 200, "GET", "/v1/callbacks?state=dead", "").Callbacks
	if len(dead) != 1 || dead[0].Task != two.ID {
		t.Errorf("dead: %+v", dead)
	}
	if got := expect[client.Callback](w, 200, "POST", "/v1/callbacks/"+shown.ID+"/redeliver", ""); got.State != "owed" || got.ID != shown.ID || got.Tries != 0 {
		t.Errorf("asked for again: %+v", got)
	}
	wantProblem(t, w.do("GET", "/v1/callbacks?state=lost", ""), 400, job.CodeInvalid, "state")
	wantProblem(t, w.do("GET", "/v1/callbacks?cursor=x", ""), 400, job.CodeInvalid, "cursor")
	wantProblem(t, w.do("GET", "/v1/callbacks/"+one.ID, ""), 404, job.CodeNotFound, "id")
	wantProblem(t, w.do("GET", "/v1/callbacks/"+one.ID+"-9", ""), 404, job.CodeNotFound, "id")
	wantProblem(t, w.do("POST", "/v1/callbacks/"+one.ID+"-9/redeliver", ""), 404, job.CodeNotFound, "callback")
	wantProblem(t, w.do("POST", "/v1/callbacks/"+shown.ID+"/redeliver", `{"now":1}`), 400, job.CodeInvalid, "now")
}

// TestCallbackJob: the job is run in the entry that ends the task, with the result as
// payload.
func TestCallbackJob(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/tell", `{"handler":"h"}`)
	one := expect[client.Task](w, 201, "POST", "/v1/tasks", `{"handler":"h","callback_job":"tell"}`)
	expect[client.Task](w, 200, "POST", "/v1/tasks/"+one.ID+"/cancel", `{"reason":"enough"}`)
	shown := expect[client.Task](w, 200, "GET", "/v1/tasks/"+one.ID, "").Callback
	if shown == nil || shown.State != "delivered" || shown.RunAs == "" {
		t.Fatalf("the task's callback: %+v", shown)
	}
	run := expect[client.Task](w, 200, "GET", "/v1/tasks/"+shown.RunAs, "")
	if run.Job != "tell" || run.CallbackOf != one.ID {
		t.Errorf("the callback's task: %+v", run)
	}
	for _, part := range []string{`"id":"` + shown.ID + `"`, `"state":"cancelled"`, `"error":"cancelled: enough"`, `"execute_time":`} {
		if !strings.Contains(string(run.Payload), part) {
			t.Errorf("its payload lacks %s: %s", part, run.Payload)
		}
	}
}

// The answer to a submit shows the callback that a task has from its job.
func TestASubmitShowsTheCallbackOfItsJob(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/report", `{`+execTrue+`, "callback_url": "https://hook.example/a", "callback_on": ["failed"]}`)
	if task := w.submitted(`{"job": "report"}`); task.CallbackURL != "https://hook.example/a" || !slices.Equal(task.CallbackOn, []string{"failed"}) {
		t.Errorf("of its job: %+v", task)
	}
	if task := w.submitted(`{"job": "report", "callback_job": "tidy"}`); task.CallbackURL != "" || task.CallbackJob != "tidy" {
		t.Errorf("its own: %+v", task)
	}
}
