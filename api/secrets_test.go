package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestSecrets(t *testing.T) {
	w := newWorld(t)
	const value = "a-value-of-26-characters-x"
	rec := w.do("PUT", "/v1/secrets/hooks", `{"value": "`+value+`"}`)
	if rec.Code != 200 || strings.Contains(rec.Body.String(), value) {
		t.Fatal(rec.Code, rec.Body)
	}
	if got := expect[client.Secret](w, 200, "PUT", "/v1/secrets/hooks", `{"value": "another-value-0123456789"}`); got.Version != 2 || !got.TwoValues || got.Name != "hooks" {
		t.Errorf("changed: %+v", got)
	}
	if rec := w.do("GET", "/v1/secrets", ""); rec.Code != 200 || strings.Contains(rec.Body.String(), "value-") || !strings.Contains(rec.Body.String(), `"name":"hooks"`) {
		t.Error(rec.Code, rec.Body)
	}
	if got := expect[client.SecretList](w, 200, "GET", "/v1/secrets?namespace=other", ""); len(got.Secrets) != 0 {
		t.Errorf("of another namespace: %+v", got)
	}
	if got := expect[client.Secret](w, 200, "PUT", "/v1/secrets/hooks", `{"retire": true}`); got.Version != 2 || got.TwoValues {
		t.Errorf("retired: %+v", got)
	}
	for body, field := range map[string]string{
		`{}`: "value", `{"value": "short"}`: "value", `{"value": "whsec_!"}`: "value", `{"value": "` + strings.Repeat("x", 257) + `"}`: "value",
		`{"values": "x"}`: "values", `{"value": 1}`: "value",
	} {
		p := wantProblem(t, w.do("PUT", "/v1/secrets/hooks", body), 400, job.CodeInvalid, field)
		if strings.Contains(p.Detail, "xxxx") || strings.Contains(p.Detail, "short") {
			t.Errorf("%s: the answer repeats it: %s", body, p.Detail)
		}
	}
	wantProblem(t, w.do("PUT", "/v1/secrets/new", `{"retire": true}`), 404, job.CodeNotFound, "secret")
	wantProblem(t, w.do("DELETE", "/v1/secrets/new", ""), 404, job.CodeNotFound, "secret")
	wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`, "callback_url": "http://h.example/", "callback_secret": "new"}`), 400, job.CodeInvalid, "callback_secret")
	wantProblem(t, w.do("PUT", "/v1/jobs/j", `{`+execTrue+`, "callback_url": "http://h.example/", "callback_secret": "new"}`), 400, job.CodeInvalid, "callback_secret")
	if task := w.submitted(`{` + execTrue + `, "callback_url": "http://h.example/", "callback_secret": "hooks"}`); task.CallbackSecret != "hooks" {
		t.Errorf("task %+v", task)
	}
	if rec := w.do("DELETE", "/v1/secrets/hooks", ""); rec.Code != 204 {
		t.Error(rec.Code, rec.Body)
	}
	w.noKey = true
	if rec := w.do("PUT", "/v1/secrets/hooks", `{"value": "`+value+`"}`); rec.Code < 400 || strings.Contains(rec.Body.String(), value) {
		t.Error(rec.Code, rec.Body)
	}
}
