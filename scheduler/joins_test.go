package scheduler

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// afterAll is an After of a period.
func afterAll(period job.Period, wait time.Duration, all ...job.Upstream) *job.After {
	return &job.After{All: all, Period: period, Wait: job.Duration(wait)}
}

func ofSchedule(name string) job.Upstream { return job.Upstream{Schedule: name} }

// afterCluster has a worker and the jobs "up" and "down".
func afterCluster(t *testing.T, takes time.Duration) (*cluster, *model) {
	t.Helper()
	c := newCluster(t)
	w := c.worker("w1", 200, takes)
	w.mustConnect()
	c.putJob("up")
	c.putJob("down")
	return c, w
}

// ran tells when tasks of a job were started, as spans since the begin.
func (c *cluster) ran(w *model, name string) string {
	c.t.Helper()
	var out []string
	for _, s := range w.runs() {
		if c.task(s.ref.Ref).Job == name {
			out = append(out, s.at.Sub(c.start).Round(time.Second).String())
		}
	}
	return strings.Join(out, " ")
}

// lastFire is the newest row of a ledger.
func (c *cluster) lastFire(name string) fsm.Fire {
	c.t.Helper()
	all := c.ledger(name)
	if len(all) == 0 {
		c.t.Fatalf("schedule %s has no ledger", name)
	}
	return all[len(all)-1]
}

// A schedule by period waits for all times of another one in it, under one leader after
// the other; what they propose twice is fired once.
func TestK3_01_TheTimesOfAPeriodUnderManyLeaders(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, time.Minute)
		c.twice = true
		c.schedule("often", job.ScheduleSpec{Job: "up", Cron: "*/5 * * * *"})
		c.schedule("hourly", job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, ofSchedule("often"))})
		for minute := 3; minute < 119; minute += 8 {
			c.to(time.Duration(minute)*time.Minute + 5*time.Second)
			c.down(w, 2*time.Second)
		}
		c.to(119 * time.Minute)
		wantText(t, "starts", c.ran(w, "down"), "56m0s 1h56m0s")
		wantText(t, "fired", c.with("hourly", fsm.VerdictFired), "0 3600")
		for _, f := range c.ledger("hourly")[:2] {
			if f.Late > 1000 || f.Actor != "schedule often" {
				t.Errorf("the fire of %s is %d ms late, by %q", c.since(f.Nominal), f.Late, f.Actor)
			}
		}
		c.check()
	})
}

// The wait ends while nobody leads: the next leader gives the verdict, and what
// succeeds then comes too late.
func TestK3_02_TheWaitEndsWithoutLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, time.Second)
		c.schedule("other", job.ScheduleSpec{Job: "up", Cron: "50 * * * *"})
		c.schedule("s", job.ScheduleSpec{
			Job: "down", Cron: "2 * * * *", After: afterAll(job.PeriodHour, 6*time.Minute, job.Upstream{Job: "up"}, ofSchedule("other")),
		})
		c.to(7*time.Minute + 59*time.Second)
		if f := c.lastFire("s"); f.Verdict != fsm.VerdictWaiting {
			t.Errorf("before its wait has ended it is %v", f.Verdict)
		}
		c.down(w, 2*time.Minute)
		c.to(10 * time.Minute)
		f := c.lastFire("s")
		if f.Verdict != fsm.VerdictMissed || f.Why != fsm.WhyUpstream || f.Error != "lacks job up, schedule other (0 of 1)" {
			t.Errorf("after its wait it is %v %s %q", f.Verdict, f.Why, f.Error)
		}
		c.submit(job.TaskSpec{Job: "up"})
		c.to(55 * time.Minute)
		wantText(t, "starts", c.ran(w, "down"), "")
		c.check()
	})
}

func TestAfterWithTimesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, 10*time.Second)
		c.schedule("s", job.ScheduleSpec{Job: "down", Cron: "20 * * * *", After: afterAll(job.PeriodHour, 0, job.Upstream{Job: "up"})})
		c.to(10 * time.Minute) // before it
		c.submit(job.TaskSpec{Job: "up"})
		c.to(90 * time.Minute) // behind it
		c.submit(job.TaskSpec{Job: "up"})
		c.to(150 * time.Minute) // its failure says nothing
		w.setFails(true)
		c.submit(job.TaskSpec{Job: "up"})
		c.to(160 * time.Minute)
		w.setFails(false)
		c.submit(job.TaskSpec{Job: "up"})
		c.to(260*time.Minute + time.Second) // in the fourth hour not at all; it waits as long as the period is
		wantText(t, "starts", c.ran(w, "down"), "20m0s 1h30m10s 2h40m10s")
		wantText(t, "missed", c.with("s", fsm.VerdictMissed), "12000")
		c.check()
	})
}

// A time that failed holds its period up until a backfill makes good for it.
func TestAfterAFailedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, 10*time.Second)
		c.schedule("often", job.ScheduleSpec{Job: "up", Cron: "*/5 * * * *"})
		c.schedule("hourly", job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, ofSchedule("often"))})
		c.to(24 * time.Minute)
		w.setFails(true)
		c.to(26 * time.Minute)
		w.setFails(false)
		c.to(72 * time.Minute)
		wantText(t, "lacks", c.lacks("hourly", 0), "schedule often (10 of 11)")
		failed := c.start.Add(25 * time.Minute).UnixMilli()
		c.must(fsm.PutBackfill{
			Namespace: job.DefaultNamespace, Schedule: "often", Version: 1, From: failed, To: failed + 1, Times: []int64{failed}, Parallel: 1, Which: fsm.FillFailed,
		})
		c.to(73 * time.Minute)
		wantText(t, "starts", c.ran(w, "down"), "1h12m10s")
		c.check()
	})
}

// lacks says what a time lacks that lies so far behind the begin.
func (c *cluster) lacks(name string, nominal time.Duration) string {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	j, ok := fsm.FindJoin(r, scheduleRef(name), c.start.Add(nominal).UnixMilli())
	if !ok {
		c.t.Fatalf("the time %s of %s does not wait", nominal, name)
	}
	return j.Lacks()
}

// What has succeeded in a period before the schedule was made counts as well.
func TestAfterWhatSucceededBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, 10*time.Second)
		c.putWorkflow("flow", job.WorkflowSpec{Steps: []job.Step{{Name: "only", Job: "step"}}})
		c.schedule("often", job.ScheduleSpec{Job: "up", Cron: "*/5 * * * *"})
		c.to(88 * time.Minute)
		c.startRun("flow")
		c.to(89 * time.Minute)
		for name, of := range map[string]job.Upstream{"a": ofSchedule("often"), "b": {Job: "up"}, "c": {Workflow: "flow"}, "d": {Job: "step"}} {
			c.schedule(name, job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, of)})
		}
		c.to(114 * time.Minute)
		for _, name := range []string{"b", "c", "d"} {
			wantText(t, name, c.with(name, fsm.VerdictFired), "3600")
		}
		wantText(t, "lacks", c.lacks("a", time.Hour), "schedule often (11 of 12)")
		c.to(116 * time.Minute)
		wantText(t, "fired", c.with("a", fsm.VerdictFired), "3600")
		wantText(t, "starts", c.ran(w, "down"), "1h29m0s 1h29m0s 1h29m0s 1h55m10s")
		c.check()
	})
}

// A change of an upstream, and of what is waited for, is heeded by what waits.
func TestAfterChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, 10*time.Second)
		c.putJob("late")
		c.schedule("often", job.ScheduleSpec{Job: "up", Cron: "*/5 * * * *"})
		c.schedule("hourly", job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, ofSchedule("often"), job.Upstream{Job: "late"})})
		c.to(32*time.Minute + 30*time.Second)
		c.schedule("often", job.ScheduleSpec{Job: "up", Cron: "*/20 * * * *"}) // one is left
		c.to(34 * time.Minute)
		wantText(t, "lacks", c.lacks("hourly", 0), "schedule often (6 of 7), job late")
		c.schedule("hourly", job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, ofSchedule("often"))})
		c.to(42 * time.Minute)
		wantText(t, "starts", c.ran(w, "down"), "40m10s")
		c.check()
	})
}

// Many times wait for one success: the first of them are fired in its entry, the
// others by what goes on, also under the next leader.
func TestAfterManyTimesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, time.Second)
		c.schedule("often", job.ScheduleSpec{
			Job: "down", Cron: "*/10 * * * * *", Overlap: job.OverlapAllow, After: afterAll(job.PeriodHour, 0, job.Upstream{Job: "up"}),
		})
		c.to(22*time.Minute + 5*time.Second)
		if st := c.scheduleState("often"); st.Waiting != 132 {
			t.Errorf("%d times wait, want 132", st.Waiting)
		}
		c.submit(job.TaskSpec{Job: "up"})
		c.to(22*time.Minute + 6*time.Second + 3*time.Millisecond)
		c.down(w, time.Second)
		c.to(22*time.Minute + 9*time.Second)
		if st := c.scheduleState("often"); st.Waiting != 0 || st.Counts.Fired < 132 {
			t.Errorf("%d times wait, %d were fired", st.Waiting, st.Counts.Fired)
		}
		if n := len(strings.Fields(c.ran(w, "down"))); n != 132 {
			t.Errorf("%d were run, want 132", n)
		}
		c.check()
	})
}

// Where nothing that is waited for has a time in a period, a schedule by period is
// skipped, one with times of its own fires.
func TestAfterNothingInThePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, 10*time.Second)
		c.putJob("timed")
		c.schedule("work", job.ScheduleSpec{Job: "up", Cron: "30 1-5 * * *"})
		c.schedule("hourly", job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, ofSchedule("work"))})
		c.schedule("timed", job.ScheduleSpec{Job: "timed", Cron: "10 * * * *", After: afterAll(job.PeriodHour, 0, ofSchedule("work"))})
		c.to(95 * time.Minute)
		wantText(t, "by the hour", c.ran(w, "down"), "1h30m10s")
		wantText(t, "timed", c.ran(w, "timed"), "10m0s 1h30m10s")
		wantText(t, "skipped", c.with("hourly", fsm.VerdictSkipped), "0")
		c.check()
	})
}

// A day has 23 hours where the clocks go forward, by the clocks of who waits, and a
// downtime over its begin misses nothing.
func TestAfterTheHoursOfADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, time.Second)
		begin := time.Date(2000, 3, 25, 23, 0, 0, 0, time.UTC).Sub(c.start) // of the 26th in Berlin
		c.down(w, begin-24*time.Hour+time.Minute)
		c.schedule("hourly", job.ScheduleSpec{Job: "up", Cron: "30 * * * *", Misfire: job.MisfireAll, MisfireWindow: new(job.Duration(48 * time.Hour))})
		c.schedule("daily", job.ScheduleSpec{Job: "down", Timezone: "Europe/Berlin", After: afterAll("", 0, ofSchedule("hourly"))})
		time.Sleep(time.Minute)
		wantText(t, "on the day before", c.lacks("daily", begin-24*time.Hour), "schedule hourly (0 of 24)")
		c.down(w, 25*time.Hour)
		time.Sleep(2 * time.Minute)
		wantText(t, "on that day", c.lacks("daily", begin), "schedule hourly (1 of 23)")
		wantText(t, "starts", c.ran(w, "down"), (begin + 62*time.Minute + 24*time.Second).String())
		c.check()
	})
}

// Workflows wait for each other, hour after hour, and each runs once.
func TestAfterWorkflows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, w := afterCluster(t, time.Minute)
		for _, name := range []string{"extract", "load", "report"} {
			c.putWorkflow(name, job.WorkflowSpec{Steps: []job.Step{{Name: "only", Job: "step"}}})
		}
		put := func(name string, spec job.ScheduleSpec) {
			c.must(fsm.PutSchedule{Namespace: job.DefaultNamespace, Name: name, Spec: spec})
		}
		put("extract", job.ScheduleSpec{Workflow: "extract", Cron: "5 * * * *"})
		put("load", job.ScheduleSpec{Workflow: "load", After: afterAll(job.PeriodHour, 0, job.Upstream{Workflow: "extract"})})
		put("report", job.ScheduleSpec{Workflow: "report", Cron: "20 * * * *", After: afterAll(job.PeriodHour, 0, ofSchedule("load"), ofSchedule("extract"))})
		for hour := range 2 {
			c.to(time.Duration(hour)*time.Hour + 10*time.Minute)
			c.down(w, time.Second)
		}
		c.to(90 * time.Minute)
		wantText(t, "steps", c.ran(w, "step"), "5m0s 6m0s 20m0s 1h5m0s 1h6m0s 1h20m0s")
		wantText(t, "load", c.with("load", fsm.VerdictFired), "0 3600")
		c.check()
	})
}

// A clock that is set back, and proposals that come twice, fire nothing twice of what
// waits.
func TestK3_04_WhatWaitsIsFiredOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64 // ms that the leader's clock is behind
		c := newCluster(t, func(cfg *Config) {
			cfg.Now = func() int64 { return time.Now().UnixMilli() - back.Load() }
		})
		c.twice = true
		w := c.worker("w1", 200, time.Second)
		w.mustConnect()
		c.putJob("up")
		c.putJob("down")
		c.schedule("up", job.ScheduleSpec{Job: "up", Cron: "*/10 * * * *"})
		for i := range 30 {
			spec := job.ScheduleSpec{Job: "down", After: afterAll(job.PeriodHour, 0, ofSchedule("up"))}
			if i%2 == 0 {
				spec.Cron = job.CronText(fmt.Sprintf("%d * * * *", i+1))
			}
			c.schedule(fmt.Sprint("s", i), spec)
		}
		for minute := range 119 {
			c.to(time.Duration(minute)*time.Minute + 10*time.Millisecond)
			back.Store(2000)
			time.Sleep(5 * time.Second)
			back.Store(0)
		}
		runs := map[string]int{}
		for _, s := range w.runs() {
			task := c.task(s.ref.Ref)
			runs[task.Schedule+" "+c.since(task.Nominal)]++
		}
		for run, n := range runs {
			if n != 1 {
				t.Errorf("%d runs of %s, want 1", n, run)
			}
		}
		if want := 11 + 2*30; len(runs) != want {
			t.Errorf("%d times were run, want %d", len(runs), want)
		}
		c.check()
	})
}
