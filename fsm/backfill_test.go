package fsm

import (
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

// backfillWorld has a schedule s of a target whose first n minutes were missed.
func backfillWorld(t *testing.T, spec job.ScheduleSpec, n int64) (w *world, start int64) {
	t.Helper()
	w = newWorld(t)
	w.put("etl", job.WorkflowSpec{Steps: []job.Step{{Name: "a", Job: "true"}}})
	spec.Every = job.Duration(time.Minute)
	w.do(PutSchedule{Namespace: "default", Name: "s", Spec: spec})
	start = w.now
	w.now += n * 60_000
	st, _ := GetScheduleState(w.tx, ScheduleRef{"default", "s"})
	w.do(FireSchedules{Items: []FireItem{{
		Ref: ScheduleRef{"default", "s"}, Generation: st.Generation, Cursor: st.Cursor, Next: w.now + 60_000, NextAt: w.now + 60_000,
		Times: []FireTime{{Nominal: start + 60_000, Until: w.now, Count: n, Verdict: VerdictMissed, Why: WhyDowntime}},
	}}})
	return w, start
}

func minutes(start int64, n int64) (times []int64) {
	for i := range n {
		times = append(times, start+(i+1)*60_000)
	}
	return times
}

func (w *world) backfill(start, n int64, parallel int) Backfill {
	w.t.Helper()
	return *w.do(PutBackfill{
		Namespace: "default", Schedule: "s", Version: 1, From: start, To: w.now + 1, Times: minutes(start, n), Parallel: parallel, Which: FillMissing,
	})[0].Backfill
}

func (w *world) backfillNow(id job.ID) Backfill {
	w.t.Helper()
	b, ok := GetBackfill(w.tx, ScheduleRef{"default", "s"}, id)
	if !ok {
		w.t.Fatalf("the backfill is missing")
	}
	return b
}

func TestBackfillOfRuns(t *testing.T) {
	w, start := backfillWorld(t, job.ScheduleSpec{Workflow: "etl", PauseAfterFailures: 1}, 3)
	b := w.backfill(start, 3, 1)
	for n, outcome := range []job.Outcome{job.OutcomeSuccess, job.OutcomeSuccess, job.OutcomeCancelled} {
		fire := w.fires("s")[0]
		if fire.Nominal != start+int64(n+1)*60_000 && n > 0 {
			t.Fatalf("fire %d: %+v", n, fire)
		}
		for _, f := range w.fires("s") {
			if f.Origin == ByBackfill && f.Nominal == start+int64(n+1)*60_000 {
				fire = f
			}
		}
		run := w.run(RunRef{"default", fire.Run})
		if run.Trigger.Kind != "backfill" || run.Trigger.Nominal != fire.Nominal {
			t.Errorf("trigger %+v", run.Trigger)
		}
		if outcome == job.OutcomeCancelled {
			w.do(CancelRun{Ref: RunRef{"default", fire.Run}})
			w.settle()
			break
		}
		w.end(RunRef{"default", fire.Run}, "a", outcome)
	}
	if got := w.backfillNow(b.ID); got.State != BackfillDone || got.Succeeded != 2 || got.Failed != 1 {
		t.Errorf("in the end: %+v", got)
	}
	if st, _ := GetScheduleState(w.tx, ScheduleRef{"default", "s"}); st.Active != 0 || st.Paused != nil || st.Backfills != 0 {
		t.Errorf("the schedule: %+v", st)
	}
	w.check()
}

// TestBackfillPassesOverWhatIsPresent: a stretch of times that need nothing is passed
// part by part, and a cancel drops many times part by part.
func TestBackfillInParts(t *testing.T) {
	w, start := backfillWorld(t, job.ScheduleSpec{Job: "true"}, 700)
	first := w.backfill(start, 210, MaxBackfillParallel)
	for w.backfillNow(first.ID).State == BackfillRunning {
		for _, f := range w.fires("s") {
			if task, ok := GetTask(w.tx, TaskRef{"default", f.Task}); ok && task.State == job.Pending {
				w.do(Cancel{Ref: task.Ref()})
			}
		}
	}
	second := w.backfill(start, 600, 1)
	acts := 0
	for list := ListScheduleActs(w.tx, 1); len(list) > 0; list = ListScheduleActs(w.tx, 1) {
		w.do(ContinueSchedules{Kind: list[0].Kind, Ref: list[0].Ref})
		acts++
	}
	if got := w.backfillNow(second.ID); got.Present != 210 || got.Fired != 1 || got.Left != 389 || acts < 1 {
		t.Errorf("behind what is present after %d acts: %+v", acts, got)
	}
	w.do(CancelBackfill{Namespace: "default", Schedule: "s", ID: second.ID})
	third := w.backfill(start, 700, 1)
	w.do(CancelBackfill{Namespace: "default", Schedule: "s", ID: third.ID})
	for list := ListScheduleActs(w.tx, 1); len(list) > 0; list = ListScheduleActs(w.tx, 1) {
		w.do(ContinueSchedules{Kind: list[0].Kind, Ref: list[0].Ref})
	}
	if got := w.backfillNow(third.ID); got.State != BackfillCancelled || got.Left != 0 {
		t.Errorf("cancelled: %+v", got)
	}
	w.check()
}
