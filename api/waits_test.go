package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// What a time waits for is shown with its schedule and in its ledger.
func TestSchedulesShowWhatTheyWaitFor(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/up", `{"handler":"h"}`)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/down", `{"handler":"h"}`)
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/hourly", `{"job":"up","every":"1h"}`)
	const after = `{"job":"down","after":{"all":[{"schedule":"hourly"},{"job":"up"}],"period":"day","wait":"6h"}}`
	made := expect[client.Schedule](w, 201, "PUT", "/v1/schedules/s", after)
	if made.After == nil || len(made.After.All) != 2 || made.After.Wait.String() != "6h" || made.Status.Waiting != 0 {
		t.Fatalf("%+v", made)
	}
	next := expect[client.PlannedTimes](w, 200, "GET", "/v1/schedules/s/next?count=2", "")
	if len(next.Times) != 2 || next.Times[0].At != "2026-03-30T00:00:00+00:00" || !strings.HasPrefix(next.Times[0].Note, "begin of the day") {
		t.Errorf("next: %+v", next.Times)
	}
	begin := startOfTime - startOfTime%86_400_000
	_ = w.Read(t.Context(), false, func(v fsm.Reader) error {
		_, st, _ := fsm.GetSchedule(v, fsm.ScheduleRef{Namespace: "default", Name: "s"})
		_, up, _ := fsm.GetSchedule(v, fsm.ScheduleRef{Namespace: "default", Name: "hourly"})
		w.must(fsm.FireSchedules{Term: 1, Items: []fsm.FireItem{{
			Ref: fsm.ScheduleRef{Namespace: "default", Name: "s"}, Generation: st.Generation, Cursor: st.Cursor, Next: begin + 86_400_000,
			Times: []fsm.FireTime{{Nominal: begin, Join: &fsm.FireJoin{
				Start: begin, End: begin + 86_400_000, Until: begin + 108_000_000,
				Needs: []fsm.JoinNeed{{N: 23, Planned: true, Generation: up.Generation}, {N: -1}},
			}}},
		}}})
		return nil
	})
	shown := expect[client.Schedule](w, 200, "GET", "/v1/schedules/s", "").Status
	if shown.Waiting != 1 || len(shown.Waits) != 1 || !shown.Waits[0].Until.Equal(at(begin+108_000_000)) || !shown.Waits[0].End.Equal(at(begin+86_400_000)) {
		t.Fatalf("%+v", shown)
	}
	if of := shown.Waits[0].For; len(of) != 2 || of[0].Schedule != "hourly" || of[0].Need != 23 || of[0].Succeeded != 0 || !of[0].Lacks ||
		of[1].Job != "up" || of[1].Note == "" {
		t.Errorf("%+v", of)
	}
	fires := expect[client.FireList](w, 200, "GET", "/v1/schedules/s/fires?verdict=waiting", "").Fires
	if len(fires) != 1 || fires[0].Why != "upstream" || !strings.HasPrefix(fires[0].Error, "waits for schedule hourly (0 of 23), job up") {
		t.Errorf("%+v", fires)
	}
	// A backfill reaches behind the period in which it was created, and leaves out what waits.
	w.advance(2000)
	dry := expect[client.Backfill](w, 200, "POST", "/v1/schedules/s/backfill", `{"from":"2026-03-26T00:00:00Z","to":"2026-03-29T00:00:01Z","dry_run":true}`)
	if dry.Total != 4 || dry.Fired != 3 || dry.Present != 1 {
		t.Errorf("%+v", dry)
	}
	wantProblem(t, w.do("DELETE", "/v1/schedules/hourly", ""), 409, job.CodeConflict, "schedule")
	wantProblem(t, w.do("DELETE", "/v1/jobs/up", ""), 409, job.CodeConflict, "job")
}

func TestUpstreamsAreRefused(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/j", `{"handler":"h"}`)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/k", `{"handler":"h"}`)
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/often", `{"job":"k","every":"10s"}`)
	for after, field := range map[string]string{
		`{"all":[]}`:   "after.all",
		`{"all":[{}]}`: "after.all[0]",
		`{"all":[{"job":"k","schedule":"often"}]}`:               "after.all[0]",
		`{"all":[{"job":"k"},{"job":"k"}]}`:                      "after.all[1]",
		`{"all":[{"job":"k"}],"period":"minute"}`:                "after.period",
		`{"all":[{"job":"k"}],"wait":"-1s"}`:                     "after.wait",
		`{"all":[{"job":"k"}],"since":"1h"}`:                     "after.since",
		`{"all":[{"schedule":"often"}]}`:                         "after.all[0].schedule",
		`{"all":[{"job":"j"}]}`:                                  "after",
		`{"all":[{"job":"k"}]},"event":{"name":"e"},"payload":1`: "after",
	} {
		wantProblem(t, w.do("PUT", "/v1/schedules/s", `{"job":"j","after":`+after+`}`), 400, job.CodeInvalid, field)
	}
	wantProblem(t, w.do("PUT", "/v1/schedules/s", `{"job":"j","after":{"all":[{"job":"none"}]}}`), 404, job.CodeNotFound, "after.all[0].job")
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/s", `{"job":"j","after":{"all":[{"schedule":"often"}],"period":"hour"}}`)
}
