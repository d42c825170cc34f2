package fsm

import (
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

// fireAll proposes times of a schedule as its leader does.
func (w *world) fireAll(name string, next int64, at ...int64) []Result {
	w.t.Helper()
	ref := ScheduleRef{"default", name}
	st, ok := GetScheduleState(w.tx, ref)
	if !ok {
		w.t.Fatalf("schedule %s is missing", name)
	}
	it := FireItem{Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Next: next, NextAt: next}
	for _, t := range at {
		it.Times = append(it.Times, FireTime{Nominal: t})
	}
	return w.try(FireSchedules{Items: []FireItem{it}})
}

func (w *world) fires(name string) []Fire {
	w.t.Helper()
	fires, _, err := ListFires(w.tx, ScheduleRef{"default", name}, FireFilter{}, "", 0)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	return fires
}

func TestScheduleFiresRuns(t *testing.T) {
	w := newWorld(t)
	w.put("etl", job.WorkflowSpec{
		Params: []job.Param{{Name: "day", Required: true}},
		Steps:  []job.Step{{Name: "a", Job: "true"}, {Name: "b", Job: "true", Needs: []string{"a"}}},
	})
	spec := job.ScheduleSpec{Workflow: "etl", Every: job.Duration(time.Minute), Overlap: job.OverlapCancelOther}
	put := PutSchedule{Namespace: "default", Name: "s", Spec: spec}
	if r := w.try(put)[0]; r.Err == nil || r.Err.Field != "params.day" && r.Err.Field != `params["day"]` {
		t.Errorf("without the parameter it needs: %v", r.Err)
	}
	put.Spec.Params = job.Values{"day": job.JSON(`"sun"`)}
	w.do(put)
	start := w.now
	minute := time.Minute.Milliseconds()
	w.fireAll("s", start+minute)
	w.now = start + minute - 1000
	if r := w.fireAll("s", start+2*minute, start+minute)[0]; r.Attempts[0] == nil {
		t.Error("a run was fired before its time")
	}
	w.now = start + minute
	if r := w.fireAll("s", start+2*minute, start+minute)[0]; r.Err != nil || r.Attempts[0] != nil {
		t.Fatalf("fire: %+v", r)
	}
	first := RunRef{"default", w.fires("s")[0].Run}
	run := w.run(first)
	if run.Trigger.Kind != "schedule" || run.Trigger.Schedule != "s" || run.Trigger.Nominal != start+minute {
		t.Errorf("the run's trigger is %+v", run.Trigger)
	}

	// The next cancels it, and begins when it has ended.
	w.now = start + 2*minute
	w.fireAll("s", start+3*minute, start+2*minute)
	w.settle()
	if s := w.run(first).State; s != job.RunCancelled {
		t.Errorf("the first run is %v, want cancelled", s)
	}
	second := RunRef{"default", w.fires("s")[0].Run}
	if second == first || second.ID.IsZero() {
		t.Fatalf("the second time: %+v", w.fires("s")[0])
	}
	w.end(second, "a", job.OutcomeSuccess)
	w.end(second, "b", job.OutcomeSuccess)
	st, _ := GetScheduleState(w.tx, ScheduleRef{"default", "s"})
	if st.Active != 0 || st.Counts.Succeeded != 1 || st.Counts.Fired != 2 {
		t.Errorf("after its end: %+v", st)
	}

	// By hand, with another parameter.
	r := w.do(TriggerSchedule{Namespace: "default", Name: "s", Params: job.Values{"day": job.JSON(`"mon"`)}, Actor: "anna"})[0]
	run = w.run(RunRef{"default", r.Fire.Run})
	params := RunParams(w.tx, &run)
	if string(params) != `{"day":"mon"}` {
		t.Errorf("its parameters are %s", params)
	}
	w.check()
}

// The same times proposed by two leaders, in any order, are one fire each.
func TestATimeIsFiredOnce(t *testing.T) {
	w := newWorld(t)
	w.do(PutSchedule{Namespace: "default", Name: "s", Spec: job.ScheduleSpec{Job: "true", Every: job.Duration(time.Second), Overlap: job.OverlapAllow}})
	start := w.now
	w.fireAll("s", start+1000)
	st, _ := GetScheduleState(w.tx, ScheduleRef{"default", "s"})
	item := func(times ...int64) FireSchedules {
		it := FireItem{Ref: ScheduleRef{"default", "s"}, Generation: st.Generation, Cursor: st.Cursor}
		for _, at := range times {
			it.Times = append(it.Times, FireTime{Nominal: start + at})
			it.Next, it.NextAt = start+at+1000, start+at+1000
		}
		return FireSchedules{Items: []FireItem{it}}
	}
	results := w.try(item(1000, 2000), item(1000), item(1000, 2000, 3000))
	for i, want := range []bool{true, false, false} {
		if got := results[i].Attempts[0] == nil; got != want {
			t.Errorf("proposal %d was taken: %v, want %v", i, got, want)
		}
	}
	if n := len(w.fires("s")); n != 2 {
		t.Errorf("%d verdicts, want 2", n)
	}
	w.check()
}
