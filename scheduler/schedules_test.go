package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// putJob makes a job that the model's workers run.
func (c *cluster) putJob(name string) {
	c.t.Helper()
	c.must(fsm.PutJob{Namespace: job.DefaultNamespace, Name: name, Spec: job.Spec{
		Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: new(0)}},
	}})
}

// schedule puts a schedule of the job "j", which it makes.
func (c *cluster) schedule(name string, spec job.ScheduleSpec) {
	c.t.Helper()
	if spec.Job == "" {
		c.putJob("j")
		spec.Job = "j"
	}
	c.must(fsm.PutSchedule{Namespace: job.DefaultNamespace, Name: name, Spec: spec})
}

// anchor is the test's begin.
func (c *cluster) anchor() job.Timestamp { return job.Timestamp(c.start.UnixMilli()) }

func (c *cluster) must(cmd fsm.Command) fsm.Result {
	c.t.Helper()
	res := c.apply(cmd)
	if res.Err != nil {
		c.t.Fatalf("%T: %v", cmd, res.Err)
	}
	return res
}

func scheduleRef(name string) fsm.ScheduleRef {
	return fsm.ScheduleRef{Namespace: job.DefaultNamespace, Name: name}
}

func (c *cluster) scheduleState(name string) fsm.ScheduleState {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	_, st, ok := fsm.GetSchedule(r, scheduleRef(name))
	if !ok {
		c.t.Fatalf("schedule %s is missing", name)
	}
	return st
}

// ledger reads all of a schedule's ledger, the oldest first.
func (c *cluster) ledger(name string) (all []fsm.Fire) {
	c.t.Helper()
	r, release := c.Read()
	defer release()
	for cursor := ""; ; {
		page, next, err := fsm.ListFires(r, scheduleRef(name), fsm.FireFilter{}, cursor, 0)
		if err != nil {
			c.t.Fatal(err)
		}
		all = append(all, page...)
		if cursor = next; cursor == "" {
			slices.Reverse(all)
			return all
		}
	}
}

// with are the verdicts of one kind, as seconds since the test's begin; those of
// spans as from-to×count.
func (c *cluster) with(name string, v fsm.Verdict) string {
	c.t.Helper()
	var out []string
	for _, f := range c.ledger(name) {
		if f.Verdict != v {
			continue
		}
		s := c.since(f.Nominal)
		if f.Span() {
			s += fmt.Sprintf("-%s×%d", c.since(f.Until), f.Count)
		}
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

func (c *cluster) since(ms int64) string {
	return fmt.Sprint(time.UnixMilli(ms).Sub(c.start).Seconds())
}

// nominals are the planned times of what a worker started, as seconds since the
// test's begin.
func (c *cluster) nominals(w *model) string {
	c.t.Helper()
	var out []string
	for _, s := range w.runs() {
		out = append(out, c.since(c.task(s.ref.Ref).Nominal))
	}
	return strings.Join(out, " ")
}

// startedAt wants the starts of a worker at seconds since the test's begin, each at
// most slack late.
func (c *cluster) startedAt(w *model, slack time.Duration, want ...float64) {
	c.t.Helper()
	var got []float64
	for _, s := range w.runs() {
		got = append(got, s.at.Sub(c.start).Seconds())
	}
	if len(got) != len(want) {
		c.t.Fatalf("started at %v, want %v", got, want)
	}
	for i := range got {
		if got[i] < want[i] || got[i] > want[i]+slack.Seconds() {
			c.t.Errorf("started at %v, want %v", got, want)
			return
		}
	}
}

// runs are the starts that were not dispatched before.
func (m *model) runs() []start {
	return slices.DeleteFunc(m.seen(), func(s start) bool { return s.again })
}

// to sleeps until a time since the test's begin.
func (c *cluster) to(d time.Duration) { time.Sleep(time.Until(c.start.Add(d))) }

func wantText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestScheduleFiresOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.schedule("s", job.ScheduleSpec{Every: job.Duration(10 * time.Second), Anchor: c.anchor()})
		c.schedule("once", job.ScheduleSpec{Job: "j", At: job.Timestamp(c.start.Add(25 * time.Second).UnixMilli())})
		c.to(51 * time.Second)
		// Fired ahead, they are armed: nothing holds them up.
		c.startedAt(w, 0, 10, 20, 25, 30, 40, 50)
		if st := c.scheduleState("once"); st.Next != 0 || !st.Planned {
			t.Errorf("after its one time it waits for %d", st.Next)
		}
		c.check()
	})
}

func TestManySchedulesFireInOneMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 5000, time.Millisecond)
		w.mustConnect()
		for i := range manySchedules {
			spec := job.ScheduleSpec{Every: job.Duration(time.Minute), Anchor: job.Timestamp(c.start.UnixMilli() + int64(i)*60_000/manySchedules)}
			if i > 0 {
				spec.Job = "j"
			}
			c.schedule(fmt.Sprint("s", i), spec)
		}
		c.to(3*time.Minute + 30*time.Second)
		late := int64(0)
		for _, s := range w.runs() {
			late = max(late, s.at.UnixMilli()-s.due)
		}
		if n := len(w.runs()); n < 3*manySchedules || n > 4*manySchedules || late > 5 {
			t.Errorf("%d starts, at most %d ms late; want three of each and more, and at most 5 ms", n, late)
		}
		c.check()
	})
}

func TestJitterPutsTimesOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.schedule("s", job.ScheduleSpec{Every: job.Duration(time.Minute), Anchor: c.anchor(), Jitter: job.Duration(20 * time.Second)})
		c.to(4 * time.Minute)
		seen := w.runs()
		if len(seen) < 3 {
			t.Fatalf("%d starts, want 3", len(seen))
		}
		off := seen[0].at.Sub(c.start) - time.Minute
		if off <= 0 || off > 20*time.Second {
			t.Errorf("put off by %s, want up to 20 s", off)
		}
		if d := seen[1].at.Sub(seen[0].at); d != time.Minute {
			t.Errorf("two starts are %s apart, want a minute", d)
		}
		wantText(t, "nominal times", c.nominals(w), "60 120 180")
	})
}

func TestScheduleOfABudgetEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.schedule("s", job.ScheduleSpec{Every: job.Duration(time.Second), Anchor: c.anchor(), MaxRuns: 3, Overlap: job.OverlapAllow})
		c.to(20 * time.Second)
		wantText(t, "fired", c.with("s", fsm.VerdictFired), "1 2 3")
		c.startedAt(w, 0, 1, 2, 3)
		c.check()
	})
}

func TestScheduleIsPausedAfterFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.fails = true
		w.mustConnect()
		c.schedule("s", job.ScheduleSpec{Every: job.Duration(time.Minute), Anchor: c.anchor(), PauseAfterFailures: 3})
		c.to(10*time.Minute + 30*time.Second)
		st := c.scheduleState("s")
		if st.Paused == nil || !st.Paused.Auto || len(w.runs()) != 3 {
			t.Fatalf("paused %+v after %d starts, want by itself after 3", st.Paused, len(w.runs()))
		}
		w.mu.Lock()
		w.fails = false
		w.mu.Unlock()
		c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s", Resume: true})
		c.to(12*time.Minute + 30*time.Second)
		wantText(t, "fired", c.with("s", fsm.VerdictFired), "60 120 180 660 720")
		wantText(t, "skipped", c.with("s", fsm.VerdictSkipped), "240-600×7")
		c.check()
	})
}

func TestLongGapsAreCountedInParts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.schedule("s", job.ScheduleSpec{Every: job.Duration(time.Second), Anchor: c.anchor()})
		time.Sleep(time.Second)
		c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s"})
		c.to(50_000 * time.Second)
		c.must(fsm.PauseSchedule{Namespace: job.DefaultNamespace, Name: "s", Resume: true})
		c.to(50_010*time.Second + 500*time.Millisecond)
		total := int64(0)
		for _, f := range c.ledger("s") {
			total += f.Number()
		}
		if st := c.scheduleState("s"); total < 50_005 || total > 50_014 || st.GapTo != 0 {
			t.Errorf("%d verdicts, gap to %d; want one for each second", total, st.GapTo)
		}
		c.check()
	})
}
