package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func (w *world) bury(body, text string) client.Task {
	task := w.submitted(body)
	attempt := w.assign(task.ID, "w1")
	w.must(fsm.Finished{AttemptRef: attempt, Result: fsm.AttemptResult{Outcome: job.OutcomeFailed, Error: text}})
	w.advance(1000)
	return task
}

func TestDeadLetters(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/j", `{"handler":"h","retry":{"max_retries":0}}`)
	first := w.bury(`{"job":"j","payload":[1],"idempotency_key":"k"}`, "connection refused")
	second := w.bury(`{"job":"j"}`, "no such table")
	third := w.bury(`{"handler":"h","retry":{"max_retries":0}}`, "connection refused")
	quiet := w.bury(`{"handler":"h","retry":{"max_retries":0},"on_exhausted":"ignore"}`, "connection refused")

	ids := func(query string) string {
		var all []string
		for _, task := range expect[client.DeadLetterList](w, 200, "GET", "/v1/dead-letters"+query, "").DeadLetters {
			all = append(all, task.ID)
		}
		return strings.Join(all, " ")
	}
	for query, want := range map[string]string{
		"":                     first.ID + " " + second.ID + " " + third.ID,
		"?job=j":               first.ID + " " + second.ID,
		"?error=refused":       first.ID + " " + third.ID,
		"?job=j&error=refused": first.ID,
		"?from=" + "1970-01-01T00:00:00Z&to=1970-01-02T00:00:00Z": "",
		"?limit=1": first.ID,
	} {
		if got := ids(query); got != want {
			t.Errorf("%q: %s, want %s", query, got, want)
		}
	}
	page := expect[client.DeadLetterList](w, 200, "GET", "/v1/dead-letters?limit=2", "")
	if got := ids("?limit=2&cursor=" + page.NextCursor); got != third.ID {
		t.Errorf("the second page: %s", got)
	}
	shown := expect[client.Task](w, 200, "GET", "/v1/dead-letters/"+first.ID, "")
	if !shown.DeadLetter || string(shown.Payload) != "[1]" || shown.LastError != "connection refused" {
		t.Errorf("shown %+v", shown)
	}
	wantProblem(t, w.do("GET", "/v1/dead-letters/"+quiet.ID, ""), 404, job.CodeNotFound, "id")
	if s := expect[client.Stats](w, 200, "GET", "/v1/stats", ""); s.DeadLetters != 3 {
		t.Errorf("stats: %d", s.DeadLetters)
	}
	if j := expect[client.Job](w, 200, "GET", "/v1/jobs/j", ""); *j.DeadLetters != 2 {
		t.Errorf("job: %d", *j.DeadLetters)
	}
	if m := w.do("GET", "/metrics", "").Body.String(); !strings.Contains(m, "\naxd_dead_letters 3\n") {
		t.Error("the metric is missing")
	}

	replay := "/v1/dead-letters/replay"
	act := func(path, body string) client.DeadLetterResult {
		return expect[client.DeadLetterResult](w, 200, "POST", path, body)
	}
	if got := act(replay, `{"filter":{"error":"refused"},"dry_run":true}`); got.Matched != 2 || got.Done != 0 || ids("") == "" {
		t.Errorf("dry run %+v", got)
	}
	if got := act(replay, `{"filter":{"job":"j","error":"table"}}`); got.Matched != 1 || got.Done != 1 || got.GoesOn {
		t.Errorf("replay %+v", got)
	}
	if got := expect[client.Task](w, 200, "GET", "/v1/tasks/"+second.ID, ""); got.State != "waiting" || got.RetryCount != 0 || got.Attempt != 1 {
		t.Errorf("replayed %+v", got)
	}
	// The key is claimed by another since: 409, and in bulk a refusal.
	w.advance(25 * 3600 * 1000)
	w.submitted(`{"handler":"other","idempotency_key":"k"}`)
	wantProblem(t, w.do("POST", replay, `{"ids":["`+first.ID+`"]}`), 409, job.CodeConflict, "idempotency_key")
	got := act(replay, `{"ids":["`+first.ID+`","`+third.ID+`"]}`)
	if got.Matched != 2 || got.Done != 1 || got.Refused != 1 || len(got.Errors) != 1 || got.Errors[0].ID != first.ID || got.Errors[0].Error.Code != job.CodeConflict {
		t.Errorf("by ids %+v", got)
	}
	if got := act("/v1/dead-letters/discard", `{"filter":{}}`); got.Matched != 1 || got.Done != 1 || ids("") != "" {
		t.Errorf("discard %+v", got)
	}
	for field, body := range map[string]string{
		"filter": `{}`, "ids": `{"ids":["` + first.ID + `"],"filter":{}}`, "ids[0]": `{"ids":["x"]}`,
		"filter.job": `{"filter":{"job":"-"}}`, "filter.from": `{"filter":{"from":"soon"}}`,
	} {
		wantProblem(t, w.do("POST", replay, body), 400, job.CodeInvalid, field)
	}
}

// A replay of more than one step can take is followed by its act, and ended.
func TestDeadLetterActs(t *testing.T) {
	w := newWorld(t)
	for range 3 {
		body := `{"tasks":[` + strings.TrimSuffix(strings.Repeat(`{"handler":"h","delay":"1ms","queue_timeout":"1s"},`, 50), ",") + `]}`
		expect[client.BatchResponse](w, 200, "POST", "/v1/tasks/batch", body)
	}
	w.advance(5000)
	var late []fsm.TaskVersion
	for _, task := range expect[client.TaskList](w, 200, "GET", "/v1/tasks?limit=1000", "").Tasks {
		late = append(late, fsm.TaskVersion{Ref: w.ref(task.ID), Version: w.version(task.ID)})
	}
	w.must(fsm.TimeOut{Term: 1, Tasks: late})
	if none := expect[client.DeadLetterActList](w, 200, "GET", "/v1/dead-letters/acts", ""); none.Acts == nil || len(none.Acts) != 0 {
		t.Errorf("none: %+v", none)
	}
	r := newRequest("POST", "/v1/dead-letters/replay", `{"filter":{}}`)
	r.Header.Set("Axd-Actor", "ann")
	out := decoded[client.DeadLetterResult](t, 200, w.serve(r))
	if out.Matched != 150 || !out.GoesOn || out.Act == "" {
		t.Fatalf("%+v", out)
	}
	path := "/v1/dead-letters/acts/" + out.Act
	act := expect[client.DeadLetterAct](w, 200, "GET", path, "")
	if act.State != "running" || act.Verb != "replay" || act.Matched != 150 || act.Done != out.Done || act.Left != 150-out.Done || act.Actor != "ann" ||
		act.BeganAt == nil || act.EndedAt != nil {
		t.Errorf("running: %+v", act)
	}
	if got := expect[client.DeadLetterAct](w, 200, "POST", path+"/cancel", ""); got.State != "cancelled" || got.Left != act.Left || got.EndedAt == nil {
		t.Errorf("cancelled: %+v", got)
	}
	wantProblem(t, w.do("POST", path+"/cancel", ""), 409, job.CodeConflict, "act")
	wantProblem(t, w.do("GET", "/v1/dead-letters/acts/x", ""), 404, job.CodeNotFound, "act")
	wantProblem(t, w.do("GET", path+"?namespace=other", ""), 404, job.CodeNotFound, "act")
	if list := expect[client.DeadLetterActList](w, 200, "GET", "/v1/dead-letters/acts", "").Acts; len(list) != 1 || list[0].ID != out.Act {
		t.Errorf("listed: %+v", list)
	}
}
