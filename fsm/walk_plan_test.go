package fsm

import (
	"fmt"
	"time"

	"github.com/axd-project/axd/job"
)

var definitionDraws = []verbDraw{
	{CodeConfigure, 1, func(w *walk) Command {
		return Configure{ClusterID: one(w, "", "c1"), FeatureLevel: FeatureLevel, Settings: &job.Settings{
			SuspendLow: new(w.chance(50)), HighSlots: new(w.rng.IntN(50)), MaxPending: new(one(w, 5, job.DefaultMaxPending, job.DefaultMaxPending)),
			Weights: job.Quotas{"default": w.rng.IntN(3), "other": 2},
		}}
	}},
	{CodePutJob, 4, func(w *walk) Command { return w.putJob(one(w, "j1", "j2", "j3")) }},
	{CodePauseJob, 2, func(w *walk) Command {
		return PauseJob{Namespace: "default", Name: one(w, "j1", "j2", "j3"), Resume: w.chance(75), Reason: one(w, "", "why")}
	}},
	{CodeDeleteJob, 1, func(w *walk) Command { return DeleteJob{Namespace: "default", Name: one(w, "j3", "j4")} }},
	{CodePutCalendar, 1, func(w *walk) Command {
		return PutCalendar{Namespace: "default", Name: one(w, "c1", "c2"), FileSet: one(w, "", "set"), Spec: job.CalendarSpec{
			Weekdays: []string{one(w, "mon-fri", "sat", "mon-sun")}, Exclude: []string{"12-25"},
		}}
	}},
	{CodeDeleteCalendar, 1, func(w *walk) Command { return DeleteCalendar{Namespace: "default", Name: one(w, "c1", "c2")} }},
	{CodePutSecret, 1, func(w *walk) Command {
		return PutSecret{Namespace: "default", Name: one(w, "k1", "k2"), Sealed: []byte(one(w, "", "a", "b")), Retire: w.chance(20)}
	}},
	{CodeDeleteSecret, 1, func(w *walk) Command { return DeleteSecret{Namespace: "default", Name: "k2"} }},
	{CodePutAlert, 1, func(w *walk) Command {
		return PutAlert{Kind: one(w, AlertClockSkew, AlertDiskLow, AlertSuspend), Subject: one(w, "s1", "s2"), Text: "look"}
	}},
	{CodeEndAlert, 1, func(w *walk) Command {
		a, ok := some(w, rows[Alert](w, tableAlerts), every)
		if !ok {
			return nil
		}
		return EndAlert{Kind: a.Kind, Subject: a.Subject, Resolved: w.chance(50), Actor: "ann"}
	}},
}

// begin defines what all else refers to.
func (w *walk) begin() {
	w.entry([]Command{
		Configure{ClusterID: "c1", FeatureLevel: FeatureLevel},
		w.putJob("j1"), w.putJob("j2"), w.putJob("j3"),
		RegisterWorker{Term: w.term, Name: "w1", Boot: "b1", Slots: 3}, RegisterWorker{Term: w.term, Name: "w2", Boot: "b1", Slots: 3},
		w.putWorkflow("inner"), w.putWorkflow("outer"),
	})
}

func (w *walk) putJob(name string) Command {
	return PutJob{Namespace: "default", Name: name, Spec: job.Spec{Executor: job.Executor{Handler: "h"}, Policy: w.policy()}}
}

var scheduleDraws = []verbDraw{
	{CodePutSchedule, 3, func(w *walk) Command { return w.putSchedule() }},
	{CodeDeleteSchedule, 1, func(w *walk) Command { return DeleteSchedule{Namespace: "default", Name: w.schedule().Name} }},
	{CodePauseSchedule, 2, func(w *walk) Command {
		return PauseSchedule{Namespace: "default", Name: w.schedule().Name, Resume: w.chance(70), Reason: "why"}
	}},
	{CodeTriggerSchedule, 2, func(w *walk) Command { return TriggerSchedule{Namespace: "default", Name: w.schedule().Name} }},
	{CodeFireSchedules, 16, func(w *walk) Command { return w.fireSchedules() }},
	{CodeContinueSchedules, 4, func(w *walk) Command {
		act, ok := some(w, rows[ScheduleAct](w, tableScheduleActs), every)
		if !ok {
			return nil
		}
		return ContinueSchedules{Kind: act.Kind, Ref: act.Ref, Judged: w.judged()}
	}},
	{CodeSendEvent, 3, func(w *walk) Command {
		return SendEvent{
			Namespace: "default", Name: one(w, "e1", "e2"), Dedup: one(w, "", "d1", "d2"), Payload: []byte(one(w, "", `{"n":1}`)),
			Judged: w.judged(),
		}
	}},
	{CodeJudgeJoins, 1, func(w *walk) Command { return JudgeJoins{Term: w.leads(), Ref: w.schedule()} }},
	{CodeEndJoins, 1, func(w *walk) Command {
		return EndJoins{Term: w.leads(), Items: []JoinWait{{Until: w.now, Ref: w.schedule(), End: w.now, Nominal: w.now}}}
	}},
	{CodePutBackfill, 4, func(w *walk) Command { return w.putBackfill() }},
	{CodeCancelBackfill, 1, func(w *walk) Command {
		b, ok := some(w, rows[Backfill](w, tableBackfills), func(b *Backfill) bool { return b.State == BackfillRunning })
		if !ok {
			return nil
		}
		return CancelBackfill{Namespace: "default", Schedule: b.Schedule, ID: b.ID}
	}},
}

var scheduleNames = []string{"s1", "s2", "s3", "s4"}

func (w *walk) schedule() ScheduleRef {
	s, ok := some(w, rows[Schedule](w, tableSchedules), every)
	if !ok || w.chance(5) {
		return ScheduleRef{"default", one(w, scheduleNames...)}
	}
	return ScheduleRef{s.Namespace, s.Name}
}

func (w *walk) putSchedule() Command {
	s := job.ScheduleSpec{
		Overlap: one(w, job.OverlapSkip, job.OverlapQueueOne, job.OverlapLatest, job.OverlapQueueAll, job.OverlapCancelOther, job.OverlapAllow, job.OverlapAllow),
		MaxRuns: one(w, 0, 0, 0, 3), PauseAfterFailures: one(w, 0, 0, 2), Priority: job.Priority(w.rng.IntN(4)),
	}
	if w.chance(50) {
		s.Job, s.Payload = one(w, "j1", "j2"), one(w, nil, job.JSON(`{"customer":"c1"}`))
	} else {
		s.Workflow = one(w, "inner", "outer")
	}
	switch w.rng.IntN(5) {
	case 0:
		s.Cron = "*/5 * * * *"
	case 1:
		s.Event = &job.OnEvent{Name: one(w, "e1", "e2"), Filter: one(w, "", "event.payload.n > 0")}
	default:
		s.Every = job.Duration(time.Minute)
	}
	if s.Event == nil && w.chance(20) {
		s.Calendars = &job.Calendars{Include: []string{one(w, "c1", "c2")}}
	}
	return PutSchedule{Namespace: "default", Name: one(w, scheduleNames...), Spec: s}
}

// fireSchedules has times for some schedules, as a leader would, and at times as one
// that saw an older state.
func (w *walk) fireSchedules() Command {
	c := FireSchedules{Term: w.leads()}
	for range 1 + w.rng.IntN(2) {
		ref := w.schedule()
		st, ok := GetScheduleState(w.tx, ref)
		if !ok {
			continue
		}
		it := FireItem{Ref: ref, Generation: st.Generation, Cursor: st.Cursor}
		if w.chance(4) {
			it.Cursor -= 60_000
		}
		if w.chance(4) {
			it.Generation++
		}
		at := it.Cursor
		if late := w.now - at; late > 600_000 { // nobody fired for long
			last := w.now - w.rng.Int64N(late/2)
			it.Times = append(it.Times, FireTime{
				Nominal: at + 60_000, Until: last, Count: 1 + (last-at)/60_000, Verdict: one(w, VerdictMissed, VerdictSkipped), Why: WhyDowntime,
			})
			at = last
		}
		for range w.rng.IntN(4) {
			if at+60_000 > w.now+MaxEarly {
				break
			}
			at += 60_000
			it.Times = append(it.Times, FireTime{Nominal: at, Due: at + one[int64](w, 0, 500), CatchUp: w.chance(20)})
		}
		it.Next = one(w, at+60_000, at+60_000, at+60_000, 0)
		c.Items = append(c.Items, it)
	}
	if len(c.Items) == 0 {
		return nil
	}
	return c
}

// judged is what the leader finds by the filters of all who subscribe.
func (w *walk) judged() (all []Judged) {
	for _, s := range rows[Schedule](w, tableSchedules) {
		if s.Spec.Event != nil && s.Spec.Event.Filter != "" && w.chance(90) {
			all = append(all, Judged{Schedule: s.Name, Version: s.Version, Pass: w.chance(60), Error: one(w, "", "", "no such field")})
		}
	}
	return all
}

func (w *walk) putBackfill() Command {
	ref := w.schedule()
	s, st, ok := GetSchedule(w.tx, ref)
	if !ok {
		return nil
	}
	c := PutBackfill{
		Namespace: ref.Namespace, Schedule: ref.Name, Version: s.Version, Newest: w.chance(30), Parallel: 1 + w.rng.IntN(3),
		Wait: w.chance(20), Which: one(w, FillMissing, FillFailed, FillAll), To: st.Cursor + 1,
	}
	n := int64(1 + w.rng.IntN(5))
	for i := range n {
		c.Times = append(c.Times, st.Cursor-(n-1-i)*60_000)
	}
	c.From = c.Times[0]
	return c
}

var runDraws = []verbDraw{
	{CodePutWorkflow, 2, func(w *walk) Command { return w.putWorkflow(one(w, "inner", "outer", "spare")) }},
	{CodeDeleteWorkflow, 1, func(w *walk) Command { return DeleteWorkflow{Namespace: "default", Name: "spare"} }},
	{CodeStartRun, 5, func(w *walk) Command {
		return StartRun{Namespace: "default", Workflow: one(w, "inner", "outer", "spare"), Params: []byte(one(w, "", `{"list":[1,2]}`)), Key: one(w, "", "", "r1", "r2")}
	}},
	{CodeCancelRun, 1, func(w *walk) Command { return CancelRun{Ref: w.run(), Reason: "why"} }},
	{CodeRerunRun, 3, func(w *walk) Command {
		ref := w.run()
		c := RerunRun{Ref: ref, Mode: one(w, RerunFailed, RerunFrom, RerunOne)}
		if c.Mode != RerunFailed {
			c.Step = w.step(ref)
		}
		return c
	}},
	{CodeForceSuccess, 2, func(w *walk) Command { ref := w.run(); return ForceSuccess{Ref: ref, Step: w.step(ref)} }},
	{CodeSkipStep, 2, func(w *walk) Command { ref := w.run(); return SkipStep{Ref: ref, Step: w.step(ref)} }},
	{CodeContinueRun, 6, func(w *walk) Command {
		if owing := ListOwingRuns(w.tx, 100); len(owing) > 0 {
			return ContinueRun{Ref: one(w, owing...)}
		}
		return ContinueRun{Ref: w.run()}
	}},
	{CodeTimeOutRun, 2, func(w *walk) Command {
		if late := ListLateRuns(w.tx, 0, w.now, 100); len(late) > 0 {
			return TimeOutRun{Term: w.leads(), Ref: one(w, late...)}
		}
		return nil
	}},
	{CodeStepVerdict, 10, func(w *walk) Command { return w.stepVerdict() }},
}

func (w *walk) run() RunRef {
	run, ok := some(w, rows[Run](w, tableRuns), func(r *Run) bool { return w.chance(50) || !r.State.Terminal() })
	if !ok {
		return RunRef{"default", job.NewID(1, 2, 3)}
	}
	return run.Ref()
}

func (w *walk) step(ref RunRef) string {
	steps, _, err := ListRunSteps(w.tx, ref, "", 100)
	if err != nil || len(steps) == 0 {
		return "m0"
	}
	return one(w, steps...).Record.Step
}

// putWorkflow draws a workflow whose steps fan out, wait for expressions, or are runs of
// the inner one.
func (w *walk) putWorkflow(name string) Command {
	spec := job.WorkflowSpec{Params: []job.Param{{Name: "list", Type: job.ParamList}}, MaxParallel: one(w, 0, 0, 1, 2)}
	if w.chance(30) {
		spec.Timeout = ms(one[int64](w, 3000, 60_000))
	}
	section := func(prefix string, least, most int) (steps []job.Step) {
		for i := range least + w.rng.IntN(most-least+1) {
			s := job.Step{Name: fmt.Sprint(prefix, i), Job: one(w, "j1", "j2"), AllowFailure: w.chance(20)}
			for _, before := range steps {
				if w.chance(35) {
					s.Needs = append(s.Needs, before.Name)
				}
			}
			if len(s.Needs) > 0 {
				s.Rule = one(w, job.Rules...)
			}
			switch w.rng.IntN(6) {
			case 0:
				s.When = "true"
			case 1:
				s.ForEach = &job.ForEach{Items: job.JSON(`"${{ params.list }}"`), Parallel: one(w, 0, 1)}
			case 2:
				if name != "inner" {
					s.Job, s.Workflow = "", "inner"
				}
			}
			steps = append(steps, s)
		}
		return steps
	}
	spec.Steps, spec.OnFailure, spec.Finally = section("m", 1, 5), section("f", 0, 2), section("z", 0, 2)
	return PutWorkflow{Namespace: "default", Name: name, Spec: spec}
}

func (w *walk) stepVerdict() Command {
	wanted := ListWantedSteps(w.tx, nil, 100)
	if len(wanted) == 0 {
		return nil
	}
	of := one(w, wanted...)
	s, _ := GetStep(w.tx, of.Run, of.Number)
	run, _ := GetRun(w.tx, of.Run)
	row, _ := GetWorkflowVersion(w.tx, run.Namespace, run.Workflow, run.WorkflowVersion)
	steps, _ := OrderedSteps(row.Spec)
	c := StepVerdict{Term: w.leads(), Ref: of.Run, Step: of.Number, Want: s.Want, Made: s.Made()}
	if w.chance(4) {
		c.Want++
	}
	switch kind := w.rng.IntN(12); {
	case kind == 0:
		c.Fail = "no"
	case kind == 1:
		c.Skip = "no"
	case steps[of.Number].ForEach != nil:
		c.Total = uint32(w.rng.IntN(4))
		if s.Made() > 0 {
			c.Total = s.Fan.Total
		}
		part := 1 + w.rng.IntN(2)
		for n := c.Made; n < c.Total && len(c.Items) < part; n++ {
			c.Items = append(c.Items, []byte("1"))
		}
	case steps[of.Number].Workflow != "":
		c.Params = []byte(`{"list":[1]}`)
	}
	return c
}
