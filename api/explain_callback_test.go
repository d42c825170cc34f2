package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// A task that has ended tells why nobody has heard of it yet.
func TestExplainACallbackThatIsNotDelivered(t *testing.T) {
	w := newWorld(t)
	var tasks []client.Task
	for range 3 {
		task := w.submitted(`{` + execTrue + `,"delay":"1h","callback_url":"https://hook.example/a"}`)
		expect[client.Task](w, 200, "POST", "/v1/tasks/"+task.ID+"/cancel", "")
		tasks = append(tasks, task)
	}
	last := tasks[2].ID
	r := w.explain(last).Reasons[1]
	if r.Code != "callback_owed" || *r.Ahead != 2 || *r.Tries != 0 || r.Callback != last+"-2" || !strings.Contains(r.Text, "behind 2 other callbacks") {
		t.Errorf("before the first try: %+v", r)
	}
	ref, err := fsm.ParseCallbackID("default", last+"-2")
	if err != nil {
		t.Fatal(err)
	}
	w.must(fsm.CallbackTried{Term: 1, Ref: ref, Version: 1, Status: 503, Error: "answered 503: no"})
	e := w.explain(last)
	r = e.Reasons[1]
	if codesOf(e) != "cancelled callback_owed" || *r.Tries != 1 || r.LastStatus != 503 || r.Until == nil ||
		!strings.Contains(r.Text, "hook.example:443 was not taken in 1 try") || !strings.Contains(r.Text, "answered 503: no") || !strings.Contains(r.Next, last+"-2") {
		t.Errorf("after a try: %+v", e)
	}
	w.explainErr = NoQuorum("1 of 3 voting servers answer")
	if e := w.explain(last); codesOf(e) != "no_quorum cancelled callback_owed" {
		t.Errorf("without a leader: %s", codesOf(e))
	}
	w.explainErr = nil
	for v := range job.CallbackRetry.Max() {
		w.must(fsm.CallbackTried{Term: 1, Ref: ref, Version: uint64(v) + 2, Error: "connection refused"})
	}
	e = w.explain(last)
	if r = e.Reasons[1]; codesOf(e) != "cancelled callback_dead" || *r.Tries != 19 || !strings.Contains(r.Text, "connection refused") ||
		!strings.Contains(r.Next, "redeliver "+last+"-2") {
		t.Errorf("given up: %+v", e)
	}
	w.do("POST", "/v1/callbacks/"+last+"-2/redeliver", "")
	w.must(fsm.CallbackTried{Term: 1, Ref: ref, Version: 21, Status: 200, OK: true})
	if e := w.explain(last); codesOf(e) != "cancelled" {
		t.Errorf("delivered: %s", codesOf(e))
	}
	job1 := w.submitted(`{` + execTrue + `,"delay":"1h","callback_job":"nowhere"}`)
	expect[client.Task](w, 200, "POST", "/v1/tasks/"+job1.ID+"/cancel", "")
	if e := w.explain(job1.ID); codesOf(e) != "cancelled callback_dead" || !strings.Contains(e.Reasons[1].Text, "nowhere") {
		t.Errorf("a job that does not exist: %+v", e)
	}
}
