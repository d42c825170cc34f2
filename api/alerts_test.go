package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestAlerts(t *testing.T) {
	w := newWorld(t)
	if got := expect[client.AlertList](w, 200, "GET", "/v1/alerts", ""); got.Alerts == nil || len(got.Alerts) != 0 {
		t.Errorf("no alerts: %+v", got)
	}
	w.must(fsm.PutAlert{Kind: fsm.AlertClockStep, Subject: "s1", Text: "back"})
	w.advance(1000)
	w.must(fsm.PutAlert{Kind: fsm.AlertDiskLow, Subject: "s2", Text: "full"})
	w.must(fsm.PutAlert{Kind: fsm.AlertDiskLow, Subject: "s2", Text: "fuller"})

	list := expect[client.AlertList](w, 200, "GET", "/v1/alerts?state=open", "").Alerts
	if len(list) != 2 || list[0].Kind != "disk_low" || list[0].Count != 2 || list[0].Text != "fuller" || list[1].Subject != "s1" {
		t.Errorf("open %+v", list)
	}
	if got := expect[client.AlertList](w, 200, "GET", "/v1/alerts?limit=1", "").Alerts; len(got) != 1 || got[0].Kind != "disk_low" {
		t.Errorf("the newest %+v", got)
	}
	sum := expect[client.Cluster](w, 200, "GET", "/v1/cluster", "").Alerts
	if sum.Open != 2 || sum.Newest == nil || sum.Newest.Kind != "disk_low" {
		t.Errorf("summary %+v", sum)
	}
	got := expect[client.Alert](w, 200, "POST", "/v1/alerts/clock_step/s1/ack", `{"actor":"ann"}`)
	if got.State != "acknowledged" || got.AcknowledgedBy != "ann" {
		t.Errorf("acknowledged %+v", got)
	}
	expect[client.Alert](w, 200, "POST", "/v1/alerts/clock_step/s1/ack", "") // again does no harm
	w.must(fsm.EndAlert{Kind: fsm.AlertDiskLow, Subject: "s2", Resolved: true})
	if sum := expect[client.Cluster](w, 200, "GET", "/v1/cluster", "").Alerts; sum.Open != 0 || sum.Newest != nil {
		t.Errorf("summary %+v", sum)
	}
	metrics := w.do("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`axd_alerts{state="open"} 0`, `axd_alerts{state="acknowledged"} 1`, `axd_alerts{state="resolved"} 1`,
		`axd_clock_offset_seconds{server="s2"} 0.0015`,
	} {
		if !strings.Contains(metrics, want+"\n") {
			t.Errorf("metrics lack %s", want)
		}
	}
	wantProblem(t, w.do("GET", "/v1/alerts?state=shut", ""), 400, job.CodeInvalid, "state")
	wantProblem(t, w.do("POST", "/v1/alerts/clock_step/s9/ack", ""), 404, job.CodeNotFound, "alert")
	wantProblem(t, w.do("POST", "/v1/alerts/clock%20step/s1/ack", ""), 400, job.CodeInvalid, "kind")
}
