package api

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestBackfills(t *testing.T) {
	w := newWorld(t)
	expect[client.Job](w, 201, "PUT", "/v1/jobs/load", `{"handler":"h"}`)
	expect[client.Schedule](w, 201, "PUT", "/v1/schedules/hourly", `{"job":"load","cron":"0 * * * *","timezone":"Europe/Berlin"}`)
	w.advance(10*3_600_000 + 1000)
	ref := fsm.ScheduleRef{Namespace: "default", Name: "hourly"}
	_ = w.Read(t.Context(), false, func(v fsm.Reader) error { // 01:00 UTC was fired, the rest missed
		_, st, _ := fsm.GetSchedule(v, ref)
		w.must(fsm.FireSchedules{Term: 1, Items: []fsm.FireItem{{
			Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Next: startOfTime + 11*3_600_000,
			Times: []fsm.FireTime{{Nominal: startOfTime + 3_600_000}, {
				Nominal: startOfTime + 2*3_600_000, Until: startOfTime + 10*3_600_000, Count: 9, Verdict: fsm.VerdictMissed, Why: fsm.WhyDowntime,
			}},
		}}})
		return nil
	})
	const span = `"from":"2026-03-29T00:30:00Z","to":"2026-03-29T04:30:00Z"`
	dry := expect[client.Backfill](w, 200, "POST", "/v1/schedules/hourly/backfill", `{`+span+`,"dry_run":true,"order":"newest"}`)
	if dry.State != "dry_run" || dry.ID != "" || dry.Total != 4 || dry.Fired != 3 || dry.Present != 1 || len(dry.Times) != 3 ||
		dry.Times[0].At != "2026-03-29T06:00:00+02:00" || dry.Priority != job.Low {
		t.Errorf("dry: %+v", dry)
	}
	if list := expect[client.BackfillList](w, 200, "GET", "/v1/schedules/hourly/backfills", ""); list.Backfills == nil || len(list.Backfills) != 0 {
		t.Errorf("after a dry run: %+v", list)
	}
	b := expect[client.Backfill](w, 201, "POST", "/v1/schedules/hourly/backfill", `{`+span+`,"parallel":2}`)
	if b.State != "running" || b.Active != 2 || b.Left != 1 || b.Total != 4 || b.Present != 1 || b.Order != "oldest" || b.Overlap != "allow" || b.Which != "missing" {
		t.Errorf("begun: %+v", b)
	}
	tasks := expect[client.TaskList](w, 200, "GET", "/v1/tasks?job=load", "").Tasks
	if len(tasks) != 3 || tasks[2].Priority != "low" {
		t.Fatalf("tasks: %+v", tasks)
	}
	fires := expect[client.FireList](w, 200, "GET", "/v1/schedules/hourly/fires", "").Fires
	if len(fires) != 4 || fires[0].Origin != "backfill" || fires[0].Wall != "2026-03-29T05:00:00" || fires[1].Verdict != "missed" || !strings.HasPrefix(fires[0].Actor, "backfill ") {
		t.Errorf("fires: %+v", fires)
	}
	expect[client.Task](w, 200, "POST", "/v1/tasks/"+tasks[1].ID+"/cancel", "")
	list := expect[client.BackfillList](w, 200, "GET", "/v1/schedules/hourly/backfills", "").Backfills
	if len(list) != 1 || list[0].Left != 0 || list[0].Active != 2 || list[0].Failed != 1 {
		t.Errorf("list: %+v", list)
	}
	if got := expect[client.Backfill](w, 200, "POST", "/v1/schedules/hourly/backfills/"+b.ID+"/cancel", ""); got.State != "cancelled" || got.EndedAt == nil {
		t.Errorf("cancelled: %+v", got)
	}
	wantProblem(t, w.do("POST", "/v1/schedules/hourly/backfills/"+b.ID+"/cancel", ""), 409, job.CodeConflict, "backfill")
	wantProblem(t, w.do("POST", "/v1/schedules/hourly/backfills/x/cancel", ""), 404, job.CodeNotFound, "backfill")
	for body, field := range map[string]string{
		`{}`:                              "from",
		`{"from":"2026-03-29T00:00:00Z"}`: "to",
		`{"from":"2026-03-29T00:00:00Z","to":"2026-03-28T00:00:00Z"}`: "to",
		`{"from":"2026-03-29T00:00:00Z","to":"2026-03-30T00:00:00Z"}`: "to", // the future
		`{"from":"2026-03-29T00:10:00Z","to":"2026-03-29T00:20:00Z"}`: "to", // no time
		`{` + span + `,"parallel":51}`:                                "parallel",
		`{` + span + `,"parallel":-1}`:                                "parallel",
		`{` + span + `,"which":"some"}`:                               "which",
		`{` + span + `,"order":"random"}`:                             "order",
		`{` + span + `,"overlap":"skip"}`:                             "overlap",
		`{` + span + `,"force":true}`:                                 "force",
	} {
		wantProblem(t, w.do("POST", "/v1/schedules/hourly/backfill", body), 400, job.CodeInvalid, field)
	}
	wantProblem(t, w.do("POST", "/v1/schedules/nobody/backfill", `{`+span+`}`), 404, job.CodeNotFound, "schedule")
	wantProblem(t, w.do("GET", "/v1/schedules/nobody/backfills", ""), 404, job.CodeNotFound, "schedule")
}
