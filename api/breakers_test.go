package api

import (
	"net/http"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestBreakersAreListed(t *testing.T) {
	w := newWorld(t)
	w.must(fsm.RegisterWorker{Term: 1, Name: "w1", Boot: "b1", Slots: 9})
	w.must(fsm.PutJob{Namespace: "default", Name: "mail", Spec: job.Spec{Executor: job.Executor{Handler: "mail"}}})
	if got := expect[client.BreakerList](w, http.StatusOK, "GET", "/v1/breakers", ""); got.Breakers == nil || len(got.Breakers) > 0 {
		t.Errorf("at first: %+v", got)
	}
	for range job.BreakerFailures {
		ref := w.assign(w.submitted(`{"job": "mail"}`).ID, "w1")
		w.must(fsm.Finished{AttemptRef: ref, Result: fsm.AttemptResult{Outcome: job.OutcomeFailed, Error: "refused"}})
	}
	got := expect[client.BreakerList](w, http.StatusOK, "GET", "/v1/breakers", "").Breakers
	if len(got) != 2 || got[0].Kind != "worker" || got[0].State != "closed" || got[0].Failures != 5 || got[0].OpenUntil != nil {
		t.Fatalf("of the worker, where one job alone failed: %+v", got)
	}
	if b := got[1]; b.Kind != "worker_job" || b.State != "open" || b.Worker != "w1" || b.Job != "mail" || b.Opened != 1 ||
		b.LastError != "refused" || b.OpenUntil.UnixMilli() != w.now+30_000 {
		t.Errorf("of the job: %+v", b)
	}
	w.now += 30_000
	if got := expect[client.BreakerList](w, http.StatusOK, "GET", "/v1/breakers", "").Breakers; got[1].State != "half_open" {
		t.Errorf("after 30s: %+v", got[1])
	}
}
