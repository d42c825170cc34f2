package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestSubmit(t *testing.T) {
	w := newWorld(t)
	rec := w.do("POST", "/v1/tasks?namespace=team-a", `{`+execTrue+`,"delay":"90s","priority":"high","app":"shop","owner":"ann"}`)
	task := decoded[client.Task](t, http.StatusCreated, rec)
	if got, want := rec.Header().Get("Location"), "/v1/tasks/"+task.ID+"?namespace=team-a"; got != want {
		t.Errorf("Location %q, want %q", got, want)
	}
	if task.State != "scheduled" || task.Priority != "high" || task.App != "shop" || task.Owner != "ann" || task.Namespace != "team-a" {
		t.Errorf("got %+v", task)
	}
	if task.ExecuteTime.UnixMilli() != startOfTime+90_000 || task.CreatedAt.UnixMilli() != startOfTime {
		t.Errorf("due %v, created %v", task.ExecuteTime, task.CreatedAt)
	}
	shown := expect[client.Task](w, http.StatusOK, "GET", rec.Header().Get("Location"), "")
	if shown.Executor == nil || shown.Executor.Exec == nil || shown.Executor.Exec.Command[0] != "true" {
		t.Errorf("executor %+v", shown.Executor)
	}
	wantProblem(t, w.do("GET", "/v1/tasks/"+task.ID, ""), http.StatusNotFound, job.CodeNotFound, "id")
}

func TestSubmitTimes(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, when string
		due        int64
		state      string
	}{
		{"unset", ``, startOfTime, "waiting"},
		{"no delay", `,"delay":"0s"`, startOfTime, "waiting"},
		{"delay under a millisecond", `,"delay":"1ns"`, startOfTime + 1, "scheduled"},
		{"offset", `,"execute_time":"2026-03-29T03:00:00+02:00"`, startOfTime + 3600_000, "scheduled"},
		{"rounded up", `,"execute_time":"2026-03-29T03:00:00.123456789Z"`, startOfTime + 3*3600_000 + 124, "scheduled"},
		{"past", `,"execute_time":"2020-01-01T00:00:00Z"`, startOfTime, "waiting"},
		{"1970", `,"execute_time":"1970-01-01T00:00:00Z"`, startOfTime, "waiting"},
		{"null", `,"execute_time":null,"delay":null`, startOfTime, "waiting"},
		{"last", `,"execute_time":"9999-12-31T23:59:59.999Z"`, job.MaxTime, "scheduled"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w.t = t
			task := w.submitted(`{` + execTrue + tt.when + `}`)
			if got := task.ExecuteTime.UnixMilli(); got != tt.due || task.State != tt.state {
				t.Errorf("due %d %s, want %d %s", got, task.State, tt.due, tt.state)
			}
		})
	}
}

func TestSubmitRefuses(t *testing.T) {
	w := newWorld(t)
	tests := []struct {
		name, body string
		status     int
		code       job.Code
		field      string
	}{
		{"both times", `{` + execTrue + `,"delay":"1s","execute_time":"2026-12-01T00:00:00Z"}`, 400, job.CodeInvalid, "delay"},
		{"negative delay", `{` + execTrue + `,"delay":"-1s"}`, 400, job.CodeInvalid, "delay"},
		{"no offset", `{` + execTrue + `,"execute_time":"2026-12-01T00:00:00"}`, 400, job.CodeInvalid, "execute_time"},
		{"no such day", `{` + execTrue + `,"execute_time":"2026-02-30T00:00:00Z"}`, 400, job.CodeInvalid, "execute_time"},
		{"year 10000", `{` + execTrue + `,"execute_time":"9999-12-31T23:59:59.9999Z"}`, 400, job.CodeInvalid, "execute_time"},
		{"epoch", `{` + execTrue + `,"execute_time":1774746000}`, 400, job.CodeInvalid, "execute_time"},
		{"window of 0", `{` + execTrue + `,"idempotency_key":"k","idempotency_window":"0s"}`, 400, job.CodeInvalid, "idempotency_window"},
		{"payload over the limit", `{` + execTrue + `,"payload":"` + strings.Repeat("x", job.MaxPayload) + `"}`, 413, job.CodeTooLarge, "payload"},
		{"unknown job", `{"job":"nope"}`, 404, job.CodeNotFound, "job"},
		{"unknown field", `{` + execTrue + `,"execute_at":"2026-12-01T00:00:00Z"}`, 400, job.CodeInvalid, "execute_at"},
		{"body over the limit", `{` + execTrue + `,"payload":"` + strings.Repeat("x", maxBody) + `"}`, 413, job.CodeTooLarge, "body"},
	}
	before := w.logged()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			wantProblem(t, w.do("POST", "/v1/tasks", tt.body), tt.status, tt.code, tt.field)
		})
	}
	if n := w.logged() - before; n > 1 { // whether a job exists only the state knows
		t.Errorf("%d commands reached the log", n)
	}
	if list := expect[client.TaskList](w, 200, "GET", "/v1/tasks", ""); len(list.Tasks) != 0 {
		t.Errorf("stored: %+v", list.Tasks)
	}
}

func TestSubmitIdempotency(t *testing.T) {
	w := newWorld(t)
	send := func(body string, header ...string) (*client.Task, int, string) {
		r := newRequest("POST", "/v1/tasks", body)
		for _, h := range header {
			r.Header.Add(idempotencyHeader, h)
		}
		rec := w.serve(r)
		if rec.Code >= 300 {
			p := decoded[client.Problem](t, rec.Code, rec)
			return nil, rec.Code, string(p.Code) + " " + p.Field
		}
		task := decoded[client.Task](t, rec.Code, rec)
		return &task, rec.Code, ""
	}
	first, status, _ := send(`{`+execTrue+`}`, "k1")
	if status != http.StatusCreated || first.IdempotencyKey != "k1" || first.Deduplicated {
		t.Fatalf("first: %d %+v", status, first)
	}
	for name, header := range map[string][]string{"header": {"k1"}, "body": nil, "both": {"k1"}} {
		body := `{` + execTrue + `}`
		if name != "header" {
			body = `{` + execTrue + `,"idempotency_key":"k1"}`
		}
		again, status, _ := send(body, header...)
		if status != http.StatusOK || again.ID != first.ID || !again.Deduplicated {
			t.Errorf("%s: %d %+v", name, status, again)
		}
	}
	for _, tt := range []struct {
		name, body string
		header     []string
		want       string
	}{
		{"other body", `{"exec":{"command":["false"]}}`, []string{"k1"}, "idempotency_mismatch idempotency_key"},
		{"both, different", `{` + execTrue + `,"idempotency_key":"k2"}`, []string{"k1"}, "invalid idempotency_key"},
		{"two headers", `{` + execTrue + `}`, []string{"k1", "k2"}, "invalid Idempotency-Key"},
		{"empty header", `{` + execTrue + `}`, []string{""}, "invalid Idempotency-Key"},
		{"bad UTF-8", `{` + execTrue + `}`, []string{"\xff"}, "invalid Idempotency-Key"},
		{"too long", `{` + execTrue + `}`, []string{strings.Repeat("k", job.MaxIdempotencyKey+1)}, "invalid idempotency_key"},
	} {
		if _, _, got := send(tt.body, tt.header...); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// What the cluster says of a proposal reaches the caller with the status that
// tells whether to repeat it.
func TestProposeErrors(t *testing.T) {
	tests := []struct {
		err    error
		status int
		code   job.Code
		detail string
	}{
		{job.Errorf(job.CodeNoLeader, "no leader"), 503, job.CodeNoLeader, "no leader"},
		{job.Errorf(job.CodeOverloaded, "full"), 429, job.CodeOverloaded, "full"},
		{job.Errorf(job.CodeUnknownOutcome, "leadership lost"), 503, job.CodeUnknownOutcome, "same idempotency_key"},
		{job.Errorf(job.CodeDiskFull, "disk"), 503, job.CodeDiskFull, "disk"},
		{fmt.Errorf("wait: %w", context.DeadlineExceeded), 503, job.CodeUnknownOutcome, "same idempotency_key"},
		{errors.New("secret"), 500, job.CodeInternal, "log tells more"},
		{&job.Error{Code: "from-the-future"}, 500, job.CodeInternal, "log tells more"},
	}
	for _, tt := range tests {
		w := newWorld(t)
		w.refuse = func(int, fsm.Command) error { return tt.err }
		p := wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`}`), tt.status, tt.code, "")
		if !strings.Contains(p.Detail, tt.detail) || strings.Contains(p.Detail, "secret") {
			t.Errorf("%v: detail %q", tt.err, p.Detail)
		}
	}
}

// TestKeyPolicies: what a used key gets, over HTTP.
func TestKeyPolicies(t *testing.T) {
	w := newWorld(t)
	first := w.submitted(`{` + execTrue + `,"delay":"1h","idempotency_key":"a","idempotency_policy":"reject","unique_key":"u"}`)
	if first.UniqueKey != "u" || first.IdempotencyKey != "a" {
		t.Errorf("shown as %+v", first)
	}
	p := wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`,"delay":"1h","idempotency_key":"a","idempotency_policy":"reject","unique_key":"u"}`),
		http.StatusConflict, job.CodeConflict, "idempotency_key")
	if !strings.Contains(p.Detail, first.ID) {
		t.Errorf("%q doesn't name the task", p.Detail)
	}
	p = wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`,"unique_key":"u"}`), http.StatusConflict, job.CodeConflict, "unique_key")
	if !strings.Contains(p.Detail, first.ID) || !strings.Contains(p.Detail, "scheduled") {
		t.Errorf("%q doesn't name the holder and its state", p.Detail)
	}
	second := w.submitted(`{` + execTrue + `,"idempotency_key":"a","idempotency_policy":"replace","unique_key":"u"}`)
	old := expect[client.Task](w, http.StatusOK, "GET", "/v1/tasks/"+first.ID, "")
	if old.State != "cancelled" || old.LastError != "replaced by task "+second.ID {
		t.Errorf("the first is %s, %q", old.State, old.LastError)
	}
	for field, more := range map[string]string{
		"idempotency_policy": `"idempotency_key":"a","idempotency_policy":"swap"`,
		"idempotency_period": `"idempotency_key":"a","idempotency_period":"0s"`,
		"unique_key":         `"unique_key":"a\u0001"`,
	} {
		wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`,`+more+`}`), http.StatusBadRequest, job.CodeInvalid, field)
	}
	a := w.submitted(`{` + execTrue + `,"idempotency_key":"p","idempotency_period":"12m","delay":"1s"}`)
	b := expect[client.Task](w, http.StatusOK, "POST", "/v1/tasks", `{`+execTrue+`,"idempotency_key":"p","idempotency_period":"12m","delay":"2s"}`)
	if a.ID != b.ID {
		t.Errorf("%s and %s in one period", a.ID, b.ID)
	}
}
