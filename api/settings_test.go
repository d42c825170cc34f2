package api

import (
	"encoding/json"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestSettings(t *testing.T) {
	w := newWorld(t)
	if rec := w.do("POST", "/v1/cluster/settings", `{"suspend_low": true}`); rec.Code != 200 {
		t.Fatal(rec.Code, rec.Body)
	}
	if rec := w.do("POST", "/v1/cluster/settings", `{"high_slots": 10}`); rec.Body.String() != `{"suspend_low":true,"high_slots":10}`+"\n" {
		t.Error(rec.Code, rec.Body)
	}
	wantProblem(t, w.do("POST", "/v1/cluster/settings", `{"high_slots": 91}`), 400, job.CodeInvalid, "high_slots")
	wantProblem(t, w.do("POST", "/v1/cluster/settings", `{"slots": 1}`), 400, job.CodeInvalid, "slots")
	wantProblem(t, w.do("POST", "/v1/cluster/settings", `{"namespace_weights": {"a": 1001}}`), 400, job.CodeInvalid, `namespace_weights["a"]`)
	w.must(fsm.RegisterWorker{Term: 1, Name: "w1", Boot: "b", Slots: 1, Priorities: []job.Priority{job.High, job.Low}})
	var got client.Cluster
	if err := json.Unmarshal(w.do("GET", "/v1/cluster", "").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if !got.Settings.SuspendLowOrDefault() || got.Settings.HighSlotsOrDefault() != 10 {
		t.Errorf("settings: %+v", got.Settings)
	}
	if p := got.Workers[0].Priorities; len(p) != 2 || p[0] != job.High || p[1] != job.Low {
		t.Errorf("the worker is for %v", p)
	}
}
