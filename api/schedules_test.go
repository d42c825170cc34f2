package api

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// nightly is at 02:30 in Berlin, where that time does not exist on 29 March 2026.
const nightly = `{"job":"report","cron":"30 2 * * *","timezone":"Europe/Berlin","payload":{"a":9007199254740993},"overlap":"queue_one"}`

func TestSchedules(t *testing.T) {
	w := newWorld(t)
	wantProblem(t, w.do("PUT", "/v1/schedules/nightly", nightly), 404, job.CodeNotFound, "job")
	expect[client.Job](w, 201, "PUT", "/v1/jobs/report", `{"handler":"h"}`)
	one := expect[client.Schedule](w, 201, "PUT", "/v1/schedules/nightly", nightly)
	if one.Version != 1 || one.Name != "nightly" || string(one.Payload) != `{"a":9007199254740993}` || one.Status.State != "waiting" || one.CreatedAt == nil {
		t.Errorf("created: %+v %+v", one, one.Status)
	}
	if s := one.Status; s.NextTime == nil || s.NextTime.Format(time.RFC3339) != "2026-03-29T01:00:00Z" || !s.NextFire.Equal(*s.NextTime) {
		t.Errorf("created, before anybody has planned it: %+v", s)
	}
	if again := expect[client.Schedule](w, 200, "PUT", "/v1/schedules/nightly", nightly); again.Version != 1 {
		t.Errorf("put again: %+v", again)
	}
	if next := expect[client.Schedule](w, 200, "PUT", "/v1/schedules/nightly", strings.Replace(nightly, "queue_one", "skip", 1)); next.Version != 2 {
		t.Errorf("changed: %+v", next)
	}
	got := expect[client.Schedule](w, 200, "GET", "/v1/schedules/nightly", "")
	if got.Overlap != job.OverlapSkip || got.Cron != "30 2 * * *" {
		t.Errorf("read: %+v", got)
	}
	if list := expect[client.ScheduleList](w, 200, "GET", "/v1/schedules", ""); len(list.Schedules) != 1 || list.Schedules[0].Status == nil {
		t.Errorf("list: %+v", list)
	}
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/a", `{"job":"report"}`)
	page := expect[client.ScheduleList](w, 200, "GET", "/v1/schedules?limit=1", "")
	rest := expect[client.ScheduleList](w, 200, "GET", "/v1/schedules?limit=1&cursor="+page.NextCursor, "")
	if page.Schedules[0].Name != "a" || len(rest.Schedules) != 1 || rest.Schedules[0].Name != "nightly" || rest.NextCursor != "" {
		t.Errorf("pages: %+v, %+v", page, rest)
	}

	// The planned wall time and the instant are told apart.
	next := expect[client.PlannedTimes](w, 200, "GET", "/v1/schedules/nightly/next?count=2", "")
	if len(next.Times) != 2 || next.Timezone != "Europe/Berlin" || next.State != "waiting" || next.Words != "at 02:30 every day in Europe/Berlin" ||
		next.Times[0].At != "2026-03-29T03:00:00+02:00" || next.Times[0].Wall != "2026-03-29T02:30:00" || next.Times[0].Note == "" ||
		next.Times[1].At != "2026-03-30T02:30:00+02:00" {
		t.Errorf("next: %+v", next)
	}
	if next := expect[client.PlannedTimes](w, 200, "GET", "/v1/schedules/nightly/next?count=1&from=2027-01-01T00:00:00Z", ""); next.Times[0].At != "2027-01-01T02:30:00+01:00" {
		t.Errorf("from: %+v", next)
	}

	paused := expect[client.Schedule](w, 200, "POST", "/v1/schedules/nightly/pause", `{"reason":"move"}`)
	if s := paused.Status; s.State != "paused" || s.Paused == nil || s.Paused.Reason != "move" || s.Paused.Auto || s.NextTime != nil || s.NextFire != nil {
		t.Errorf("paused: %+v", s)
	}
	wantProblem(t, w.do("POST", "/v1/schedules/nightly/pause", ""), 409, job.CodeConflict, "schedule")
	if s := expect[client.Schedule](w, 200, "POST", "/v1/schedules/nightly/resume", "").Status; s.State != "waiting" || s.Paused != nil || s.NextTime == nil {
		t.Errorf("resumed: %+v", s)
	}
	if code := w.do("DELETE", "/v1/schedules/a", "").Code; code != 204 {
		t.Errorf("delete: %d", code)
	}
	wantProblem(t, w.do("GET", "/v1/schedules/a", ""), 404, job.CodeNotFound, "schedule")
	audit := expect[client.AuditList](w, 200, "GET", "/v1/audit?kind=schedule&object=nightly", "").Records
	if len(audit) != 4 || audit[0].Verb != "resume" || audit[1].Detail != "move" || audit[3].Verb != "put" {
		t.Errorf("audit: %+v", audit)
	}
}

func TestScheduleFires(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/report", `{"handler":"h"}`)
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/nightly", nightly)
	w.advance(1000)
	fired := expect[client.Fire](w, 200, "POST", "/v1/schedules/nightly/trigger", `{"payload":{"b":1}}`)
	if fired.Verdict != "fired" || fired.Origin != "manual" || fired.Task == "" || !fired.Nominal.Equal(at(startOfTime+1000)) ||
		fired.Wall != "2026-03-29T01:00:01" || fired.LateBy == nil {
		t.Errorf("by hand: %+v", fired)
	}
	task := expect[client.Task](w, 200, "GET", "/v1/tasks/"+fired.Task, "")
	if string(task.Payload) != `{"b":1}` || task.Job != "report" {
		t.Errorf("its task: %+v", task)
	}
	waits := expect[client.Fire](w, 200, "POST", "/v1/schedules/nightly/trigger", "")
	if waits.Verdict != "queued" || waits.Task != "" {
		t.Errorf("the next: %+v", waits)
	}
	wantProblem(t, w.do("POST", "/v1/schedules/nightly/trigger", ""), 409, job.CodeConflict, "schedule")

	ref := fsm.ScheduleRef{Namespace: "default", Name: "nightly"}
	planned := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC).UnixMilli()
	_ = w.Read(t.Context(), false, func(v fsm.Reader) error {
		_, st, _ := fsm.GetSchedule(v, ref)
		w.advance(planned - w.Now() + 5)
		w.must(fsm.FireSchedules{Term: 1, Items: []fsm.FireItem{{
			Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Times: []fsm.FireTime{{Nominal: planned, Due: planned}}, Next: planned + 86_400_000,
		}}})
		return nil
	})
	list := expect[client.FireList](w, 200, "GET", "/v1/schedules/nightly/fires", "").Fires
	if len(list) != 3 || list[0].Origin != "plan" || list[0].Wall != "2026-03-29T02:30:00" || !list[0].Nominal.Equal(at(planned)) || list[0].Verdict != "merged" ||
		list[0].Why != "older" || list[0].Into == nil {
		t.Errorf("ledger: %+v", list)
	}
	for query, want := range map[string]int{
		"verdict=fired": 1, "verdict=queued": 1, "verdict=missed": 0, "from=2026-03-29T01:00:00Z": 1, "to=2026-03-29T01:00:00Z": 2, "limit=2": 2,
	} {
		if got := expect[client.FireList](w, 200, "GET", "/v1/schedules/nightly/fires?"+query, "").Fires; len(got) != want {
			t.Errorf("%s: %+v", query, got)
		}
	}
	if code := w.do("DELETE", "/v1/schedules/nightly", "").Code; code != 204 {
		t.Fatal(code)
	}
	if left := expect[client.FireList](w, 200, "GET", "/v1/schedules/nightly/fires", "").Fires; len(left) != 3 {
		t.Errorf("of a deleted one: %+v", left)
	}
	wantProblem(t, w.do("GET", "/v1/schedules/nobody/fires", ""), 404, job.CodeNotFound, "schedule")
}

// What was fired ahead is planned until its time has come; what was missed is counted, and
// raises an alert that can be acknowledged.
func TestScheduleFiresAheadAndMisses(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/report", `{"handler":"h"}`)
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/often", `{"job":"report","every":"1m","anchor":"2026-01-01T00:00:00Z","overlap":"allow"}`)
	ref := fsm.ScheduleRef{Namespace: "default", Name: "often"}
	propose := func(next int64, times ...fsm.FireTime) {
		t.Helper()
		var st fsm.ScheduleState
		_ = w.Read(t.Context(), false, func(v fsm.Reader) error {
			_, st, _ = fsm.GetSchedule(v, ref)
			return nil
		})
		w.must(fsm.FireSchedules{Term: 1, Items: []fsm.FireItem{{Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Times: times, Next: next, NextAt: next}}})
	}
	first := startOfTime + 60_000
	w.advance(58_000)
	propose(first+60_000, fsm.FireTime{Nominal: first, Due: first})
	fires := func(query string, want ...string) {
		t.Helper()
		var got []string
		for _, f := range expect[client.FireList](w, 200, "GET", "/v1/schedules/often/fires"+query, "").Fires {
			got = append(got, f.Verdict)
			if (f.LateBy != nil) != (f.Verdict == "fired") {
				t.Errorf("%s is late by %v", f.Verdict, f.LateBy)
			}
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
	fires("", "planned")
	fires("?verdict=planned", "planned")
	fires("?verdict=fired")
	w.advance(2_000)
	fires("", "fired")
	fires("?verdict=planned")
	fires("?verdict=fired", "fired")

	w.advance(600_000)
	propose(startOfTime+720_000, fsm.FireTime{Nominal: first + 60_000, Until: first + 600_000, Count: 10, Verdict: fsm.VerdictMissed, Why: fsm.WhyDowntime})
	if s := expect[client.Schedule](w, 200, "GET", "/v1/schedules/often", "").Status; s.Unfired != 10 || s.Counts.Missed != 10 || s.LedgerSince != nil {
		t.Errorf("missed: %+v", s)
	}
	alerts := expect[client.AlertList](w, 200, "GET", "/v1/alerts?state=open", "").Alerts
	if len(alerts) != 1 || alerts[0].Kind != "schedule_unfired" || alerts[0].Subject != "default/often" || !strings.HasPrefix(alerts[0].Text, "10 times from ") {
		t.Errorf("%+v", alerts)
	}
	acked := expect[client.Alert](w, 200, "POST", "/v1/alerts/schedule_unfired/default%2Foften/ack", `{"actor":"ann"}`)
	if acked.State != "acknowledged" || acked.AcknowledgedBy != "ann" {
		t.Errorf("%+v", acked)
	}
	for _, line := range []string{"axd_schedules_unfired 1", "axd_fires_dropped_total 0"} {
		if body := w.do("GET", "/metrics", "").Body.String(); !strings.Contains(body, line) {
			t.Errorf("no %s", line)
		}
	}
}

func TestSchedulesAreRefused(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/report", `{"handler":"h"}`)
	for body, field := range map[string]string{
		`{"job":"report","cron":"61 * * * *"}`:                             "cron",
		`{"job":"report","cron":""}`:                                       "cron",
		`{"job":"report","cron":"  "}`:                                     "cron",
		`{"job":"report","cron":5}`:                                        "cron",
		`{"job":"report","cron":"0 0 30 2 *"}`:                             "cron",
		`{"job":"report","cron":"0 0 * * *","timezone":"Europe/Atlantis"}`: "timezone",
		`{"job":"report","cron":"0 0 * * *","end":"2026-03-28T00:00:00Z"}`: "end",
		`{"job":"report","cron":"0 0 * * *","every":"1m"}`:                 "every",
		`{"job":"report","at":"2020-01-01T00:00:00Z"}`:                     "at",
		`{"job":"report","when":"later"}`:                                  "when",
		`{"job":"report","every":"1m","name":"other"}`:                     "name",
		`{"job":"report","every":"1m","namespace":"other"}`:                "namespace",
		`{"job":"report","every":"1m","overlap":"never"}`:                  "overlap",
		`{"every":"1m"}`: "job",
		`{"job":"report","every":"1m","file_set":"a b"}`: "file_set",
	} {
		wantProblem(t, w.do("PUT", "/v1/schedules/s", body), 400, job.CodeInvalid, field)
	}
	wantProblem(t, w.do("PUT", "/v1/schedules/a%20b", nightly), 400, job.CodeInvalid, "name")
	for target, field := range map[string]string{
		"next?count=0": "count", "next?count=1001": "count", "next?from=x": "from", "fires?verdict=lost": "verdict", "fires?limit=0": "limit",
		"fires?from=2026-03-30T00:00:00Z&to=2026-03-29T00:00:00Z": "to", "next?limit=3": "query.limit",
	} {
		expect[client.Schedule](w, 201, "PUT", "/v1/schedules/s", `{"job":"report","every":"1m"}`)
		wantProblem(t, w.do("GET", "/v1/schedules/s/"+target, ""), 400, job.CodeInvalid, field)
		w.do("DELETE", "/v1/schedules/s", "")
	}
	for _, target := range []string{"pause", "resume", "trigger"} {
		wantProblem(t, w.do("POST", "/v1/schedules/nobody/"+target, ""), 404, job.CodeNotFound, "schedule")
		wantProblem(t, w.do("POST", "/v1/schedules/nobody/"+target, `{"force":true}`), 400, job.CodeInvalid, "force")
	}
	wantProblem(t, w.do("GET", "/v1/schedules/nobody/next", ""), 404, job.CodeNotFound, "schedule")
	wantProblem(t, w.do("DELETE", "/v1/schedules/nobody", ""), 404, job.CodeNotFound, "schedule")
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/few", `{"job":"report","every":"1m","max_runs":2,"jitter":"30s"}`)
	if next := expect[client.PlannedTimes](w, 200, "GET", "/v1/schedules/few/next", ""); len(next.Times) != 2 || next.Times[0].Due == "" {
		t.Errorf("a budget and jitter: %+v", next)
	}
}
