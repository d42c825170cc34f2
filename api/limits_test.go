package api

import (
	"net/http"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestLimits(t *testing.T) {
	w := newWorld(t)
	if got := expect[client.LimitList](w, http.StatusOK, "GET", "/v1/limits", ""); got.Limits == nil || len(got.Limits) != 0 {
		t.Errorf("of nobody: %+v", got)
	}
	expect[client.Job](w, http.StatusCreated, "PUT", "/v1/jobs/sync", `{`+execTrue+`,"concurrency":{"max":2,"key":"/c"},"rate":{"max":10,"per":"1s","burst":10}}`)
	j := expect[client.Job](w, http.StatusOK, "GET", "/v1/jobs/sync", "")
	if j.Concurrency == nil || *j.Concurrency != (job.Concurrency{Max: 2, Key: "/c"}) || j.Rate == nil || j.Rate.Burst != 10 {
		t.Errorf("shown as %+v, %+v", j.Concurrency, j.Rate)
	}
	task := w.submitted(`{"job":"sync","payload":{"c":7}}`)
	if task.ConcurrencyKey != "7" {
		t.Errorf("key %q", task.ConcurrencyKey)
	}
	w.assign(task.ID, "w1")
	shared := w.submitted(`{` + execTrue + `,"concurrency":{"max":1,"name":"api"}}`)
	w.assign(shared.ID, "w1")
	got := expect[client.LimitList](w, http.StatusOK, "GET", "/v1/limits?limit=1", "")
	if len(got.Limits) != 1 || got.NextCursor == "" {
		t.Fatalf("first page %+v", got)
	}
	first := got.Limits[0]
	if first.Job != "sync" || first.Key != "7" || first.Held != 1 || first.Max != 2 || len(first.Holders) != 1 || first.Holders[0].Task != task.ID {
		t.Errorf("%+v", first)
	}
	got = expect[client.LimitList](w, http.StatusOK, "GET", "/v1/limits?limit=1&cursor="+got.NextCursor, "")
	if len(got.Limits) != 1 || got.NextCursor != "" || got.Limits[0].Name != "api" || got.Limits[0].Holders[0].Task != shared.ID {
		t.Errorf("second page %+v", got)
	}
	if other := expect[client.LimitList](w, http.StatusOK, "GET", "/v1/limits?namespace=other", ""); len(other.Limits) != 0 {
		t.Errorf("of another namespace: %+v", other)
	}
	wantProblem(t, w.do("GET", "/v1/limits?cursor=x", ""), http.StatusBadRequest, job.CodeInvalid, "cursor")
}

func TestLimitsRefuse(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct{ more, field string }{
		{`"concurrency":{"max":0,"name":"a"}`, "concurrency.max"},
		{`"concurrency":{"max":1}`, "concurrency.name"},
		{`"concurrency":{"max":1,"name":"a","by":"x"}`, "concurrency.by"},
		{`"concurrency":{"max":1,"name":"a","key":"a..b"}`, "concurrency.key"},
		{`"rate":{"max":1,"name":"a"}`, "rate.per"},
		{`"rate":{"max":1,"per":"1s","burst":2,"name":"a"}`, "rate.burst"},
		{`"concurrency":{"max":1,"name":"a","key":"k"},"payload":{"k":{}}`, "payload"},
	} {
		wantProblem(t, w.do("POST", "/v1/tasks", `{`+execTrue+`,`+tt.more+`}`), http.StatusBadRequest, job.CodeInvalid, tt.field)
	}
}

func TestQuota(t *testing.T) {
	w := newWorld(t)
	if rec := w.do("POST", "/v1/cluster/settings", `{"max_pending": 5, "quotas": {"default": 1}}`); rec.Code != http.StatusOK {
		t.Fatal(rec.Code, rec.Body)
	}
	w.submitted(`{` + execTrue + `}`)
	rec := w.do("POST", "/v1/tasks", `{`+execTrue+`}`)
	wantProblem(t, rec, http.StatusTooManyRequests, job.CodeQuotaExceeded, "namespace")
	if rec.Header().Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	expect[client.Task](w, http.StatusCreated, "POST", "/v1/tasks?namespace=other", `{`+execTrue+`}`)
	wantProblem(t, w.do("POST", "/v1/cluster/settings", `{"quotas": {"a/b": 1}}`), http.StatusBadRequest, job.CodeInvalid, "quotas")
	wantProblem(t, w.do("POST", "/v1/cluster/settings", `{"max_pending": 0}`), http.StatusBadRequest, job.CodeInvalid, "max_pending")
}
