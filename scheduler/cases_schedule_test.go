package scheduler

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// down ends the term for a time; the worker connects to the next leader.
func (c *cluster) down(w *model, d time.Duration) {
	c.stop()
	w.disconnect()
	time.Sleep(d)
	c.lead()
	w.mustConnect()
}

func TestK1_08_ABadRowDisablesThatScheduleOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.schedule("bad", job.ScheduleSpec{Cron: "99 * * * *"}) // as an older version may have let it pass
		c.schedule("zone", job.ScheduleSpec{Job: "j", Cron: "* * * * *", Timezone: "Mars/Olympus"})
		c.schedule("good", job.ScheduleSpec{Job: "j", Cron: "* * * * *"})
		c.to(2*time.Minute + 30*time.Second)
		c.down(w, time.Second)
		c.to(4*time.Minute + 30*time.Second)
		c.startedAt(w, 0, 60, 120, 180, 240)
		for _, name := range []string{"bad", "zone"} {
			if st := c.scheduleState(name); st.Broken == "" {
				t.Errorf("schedule %s is not broken", name)
			}
		}
		c.check()
	})
}

func TestK2_01_LongOutage(t *testing.T) {
	for _, missed := range []int{360, 100, 101} {
		for _, misfire := range []job.Misfire{job.MisfireNone, job.MisfireLatest, job.MisfireAll} {
			t.Run(fmt.Sprint(missed, misfire), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { longOutage(t, missed, misfire) })
			})
		}
	}
}

func longOutage(t *testing.T, missed int, misfire job.Misfire) {
	c := newCluster(t)
	w := c.worker("w1", 10, 10*time.Millisecond)
	w.mustConnect()
	c.schedule("s", job.ScheduleSpec{Cron: "* * * * *", Misfire: misfire})
	time.Sleep(30 * time.Second)
	c.down(w, time.Duration(missed)*time.Minute)
	end := time.Duration(missed) * time.Minute
	c.to(end + 45*time.Second)
	seen := w.runs()
	want := map[job.Misfire]int{job.MisfireNone: 0, job.MisfireLatest: 1, job.MisfireAll: min(missed, job.DefaultMisfireCap)}[misfire]
	if len(seen) != want {
		t.Fatalf("%d late runs, want %d", len(seen), want)
	}
	for i, s := range seen {
		nominal := end - time.Duration(want-1-i)*time.Minute
		if got := c.task(s.ref.Ref).Nominal; got != c.start.Add(nominal).UnixMilli() {
			t.Fatalf("late run %d is for %s, want %s", i, c.since(got), nominal)
		}
	}
	if want == 1 && seen[0].at.Sub(c.start) > end+31*time.Second {
		t.Errorf("the late run began %s after the begin, want within a second", seen[0].at.Sub(c.start))
	}
	verdicts := int64(0)
	for _, f := range c.ledger("s") {
		verdicts += f.Number()
	}
	st := c.scheduleState("s")
	if dropped := st.Counts.Missed + st.Counts.Merged; verdicts != int64(missed) || dropped != int64(missed-want) {
		t.Errorf("%d verdicts, %d dropped; want %d and %d", verdicts, dropped, missed, missed-want)
	}
	c.to(end + 61*time.Second)
	if seen = w.runs(); len(seen) != want+1 || seen[want].at.Sub(c.start) != end+time.Minute {
		t.Errorf("%d runs in the end, want one more, at the next minute", len(seen))
	}
	c.check()
}

func TestK2_02_ResumeRunsNothingOfThePause(t *testing.T) {
	for _, misfire := range []job.Misfire{job.MisfireNone, job.MisfireLatest, job.MisfireAll} {
		t.Run(string(misfire), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 10, time.Millisecond)
				w.mustConnect()
				c.schedule("s", job.ScheduleSpec{Cron: "* * * * *", Misfire: misfire})
				c.to(90 * time.Second)
				c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s"})
				c.to(330 * time.Second)
				c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s", Resume: true})
				c.to(400 * time.Second)
				c.startedAt(w, 0, 60, 360)
				wantText(t, "skipped", c.with("s", fsm.VerdictSkipped), "120-300×4")
				c.check()
			})
		})
	}
}

func TestK2_03_EnablingRunsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		const day = 24 * time.Hour
		c.down(w, 36*time.Hour)
		c.schedule("s", job.ScheduleSpec{Cron: "0 0 * * 0", Misfire: job.MisfireLatest}) // the test begins on a Saturday
		c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s"})
		c.down(w, time.Until(c.start.Add(19*day+15*time.Hour)))
		c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s", Resume: true})
		time.Sleep(time.Minute)
		for _, sunday := range []time.Duration{22 * day, 29 * day} {
			c.down(w, time.Until(c.start.Add(sunday-time.Minute)))
			c.to(sunday + time.Minute)
		}
		c.startedAt(w, 0, (22 * day).Seconds(), (29 * day).Seconds())

		// Nor does another zone of a monthly one.
		c.schedule("m", job.ScheduleSpec{Job: "j", Cron: "0 0 1 * *"})
		c.down(w, time.Until(c.start.Add(31*day-time.Minute)))
		c.down(w, time.Until(c.start.Add(47*day+10*time.Hour)))
		time.Sleep(time.Minute)
		before := len(c.ledger("m"))
		c.schedule("m", job.ScheduleSpec{Job: "j", Cron: "0 0 1 * *", Timezone: "Asia/Tokyo"})
		time.Sleep(time.Hour)
		if n := len(c.ledger("m")); n != before {
			t.Errorf("the change of a zone made %d verdicts", n-before)
		}
		c.check()
	})
}

// TestK2_04_Overlaps has times at seconds 1, 2, 3, 4, 5 and 7; each run takes 2.5 s.
func TestK2_04_Overlaps(t *testing.T) {
	for _, of := range []struct {
		overlap                        job.Overlap
		starts                         []float64
		planned, skipped, merged       string
		most, succeeded, cancelledRuns int
	}{
		{job.OverlapSkip, []float64{1, 4, 7}, "1 4 7", "2 3 5", "", 1, 3, 0},
		{job.OverlapQueueOne, []float64{1, 3.5, 6, 8.5}, "1 2 4 7", "", "3 5", 1, 4, 0},
		{job.OverlapLatest, []float64{1, 3.5, 6, 8.5}, "1 3 5 7", "", "2 4", 1, 4, 0},
		{job.OverlapQueueAll, []float64{1, 3.5, 6, 8.5, 11, 13.5}, "1 2 3 4 5 7", "", "", 1, 6, 0},
		{job.OverlapAllow, []float64{1, 2, 3, 4, 5, 7}, "1 2 3 4 5 7", "", "", 3, 6, 0},
		{job.OverlapCancelOther, []float64{1, 2, 3, 4, 5, 7}, "1 2 3 4 5 7", "", "", 1, 1, 5},
	} {
		t.Run(string(of.overlap), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 10, 2500*time.Millisecond)
				w.mustConnect()
				c.schedule("s", job.ScheduleSpec{
					Cron: "1,2,3,4,5,7 0 * * * *", Overlap: of.overlap, End: job.Timestamp(c.start.Add(time.Minute).UnixMilli()),
				})
				c.to(30 * time.Second)
				c.startedAt(w, 50*time.Millisecond, of.starts...)
				wantText(t, "planned times of the starts", c.nominals(w), of.planned)
				wantText(t, "skipped", c.with("s", fsm.VerdictSkipped), of.skipped)
				wantText(t, "merged", c.with("s", fsm.VerdictMerged), of.merged)
				ended := map[job.State]int{}
				for _, s := range w.runs() {
					ended[c.task(s.ref.Ref).State]++
				}
				if ended[job.Success] != of.succeeded || ended[job.Cancelled] != of.cancelledRuns {
					t.Errorf("ended %v, want %d successes and %d cancelled", ended, of.succeeded, of.cancelledRuns)
				}
				c.check()
			})
		})
	}
}

func TestK2_05_EditingRunsNothing(t *testing.T) {
	lastsDays(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.schedule("s", job.ScheduleSpec{Cron: "0 8 * * *", Misfire: job.MisfireAll})
		c.to(10 * time.Hour)
		c.schedule("s", job.ScheduleSpec{Job: "j", Cron: "0 9 * * *", Misfire: job.MisfireAll})
		c.to(12 * time.Hour)
		before := c.scheduleState("s")
		c.schedule("s", job.ScheduleSpec{Job: "j", Cron: "0 9 * * *", Misfire: job.MisfireAll})
		if after := c.scheduleState("s"); after.Next != before.Next || after.Generation != before.Generation {
			t.Errorf("saving it unchanged moved its next time from %d to %d", before.Next, after.Next)
		}
		c.to(34 * time.Hour)
		c.startedAt(w, 0, (8 * time.Hour).Seconds(), (33 * time.Hour).Seconds())
		c.check()
	})
}

func TestK3_01_ANewLeaderStartsNothingAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, 30*time.Minute)
		w.mustConnect()
		c.schedule("s", job.ScheduleSpec{Cron: "0 * * * *"})
		c.to(70 * time.Minute)
		c.down(w, 2*time.Second)
		c.to(85 * time.Minute)
		seen := w.runs()
		if len(seen) != 1 || c.task(seen[0].ref.Ref).State.Terminal() {
			t.Fatalf("%d runs, the first %v; want one that goes on", len(seen), c.task(seen[0].ref.Ref).State)
		}
		c.to(125 * time.Minute)
		c.startedAt(w, 0, 3600, 7200)
		if got := c.task(seen[0].ref.Ref); got.State != job.Success || got.Attempt != 1 {
			t.Errorf("the first run is %v after %d attempts, want success after 1", got.State, got.Attempt)
		}
		c.check()
	})
}

func TestK3_02_TimesAroundAnElection(t *testing.T) {
	for _, of := range []struct {
		from, to time.Duration // after 19:00:00
	}{
		{8*time.Minute + 40*time.Second, 8*time.Minute + 55*time.Second},
		{9*time.Minute + 55*time.Second, 10*time.Minute + 5*time.Second},
		{10*time.Minute + 48*time.Second, 10*time.Minute + 56*time.Second},
	} {
		t.Run(fmt.Sprint(of.from), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 10, time.Millisecond)
				w.mustConnect()
				c.schedule("cron", job.ScheduleSpec{Cron: "*/2 * * * *"})
				c.to(51 * time.Second)
				c.schedule("every", job.ScheduleSpec{Job: "j", Every: job.Duration(2 * time.Minute)})
				c.to(of.from)
				c.down(w, of.to-of.from)
				c.to(13 * time.Minute)
				wantText(t, "cron", c.with("cron", fsm.VerdictFired), "120 240 360 480 600 720")
				wantText(t, "every", c.with("every", fsm.VerdictFired), "171 291 411 531 651 771")
				for _, s := range w.runs() {
					at, nominal := s.at.Sub(c.start), time.Duration(c.task(s.ref.Ref).Nominal-c.start.UnixMilli())*time.Millisecond
					latest := nominal
					if nominal >= of.from && nominal < of.to {
						latest = of.to + 100*time.Millisecond
					}
					if at < nominal || at > latest {
						t.Errorf("the run for %s began at %s, want at most %s", nominal, at, latest)
					}
				}
				c.check()
			})
		})
	}
}

func TestK3_02_ManyElections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.schedule("every", job.ScheduleSpec{Every: job.Duration(7 * time.Second)})
		c.schedule("cron", job.ScheduleSpec{Job: "j", Cron: "*/10 * * * * *", Overlap: job.OverlapAllow})
		for range 20 {
			time.Sleep(23 * time.Second)
			c.down(w, 7*time.Second)
		}
		c.to(600*time.Second + 500*time.Millisecond)
		for name, want := range map[string]int{"every": 600 / 7, "cron": 60} {
			runs := map[int64]int{}
			for _, s := range w.runs() {
				if task := c.task(s.ref.Ref); task.Schedule == name && task.Nominal <= c.start.Add(600*time.Second).UnixMilli() {
					runs[task.Nominal]++
				}
			}
			for nominal, n := range runs {
				if n != 1 {
					t.Errorf("%s: %d runs for %s, want 1", name, n, c.since(nominal))
				}
			}
			if len(runs) != want {
				t.Errorf("%s: %d of its times were run, want all %d", name, len(runs), want)
			}
		}
		c.check()
	})
}

func TestK3_04_NothingRunsTwice(t *testing.T) {
	lastsDays(t)
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64 // ms that the leader's clock is behind
		c := newCluster(t, func(cfg *Config) {
			cfg.Now = func() int64 { return time.Now().UnixMilli() - back.Load() }
		})
		c.twice = true
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		for i := range 60 {
			spec := job.ScheduleSpec{Cron: job.CronText(fmt.Sprintf("%d %d * * *", i*2%60, i*2/60))}
			if i > 0 {
				spec.Job = "j"
			}
			c.schedule(fmt.Sprint("s", i), spec)
		}
		for minute := range 125 {
			c.to(time.Duration(minute)*time.Minute + 10*time.Millisecond)
			back.Store(2000)
			time.Sleep(5 * time.Second)
			back.Store(0)
		}
		c.to(25 * time.Hour)
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
		if len(runs) < 60 {
			t.Errorf("%d times were run, want all 60", len(runs))
		}
		c.check()
	})
}
