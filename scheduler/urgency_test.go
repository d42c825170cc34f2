package scheduler

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func of(p job.Priority, delay time.Duration) job.TaskSpec {
	s := handler(delay)
	s.Policy.Priority = p
	return s
}

func (m *model) order() (refs []fsm.TaskRef) {
	for _, s := range m.started() {
		refs = append(refs, s.ref.Ref)
	}
	return refs
}

func (c *cluster) set(s job.Settings) {
	c.t.Helper()
	if res := c.apply(fsm.Configure{Settings: &s}); res.Err != nil {
		c.t.Fatal(res.Err)
	}
}

// startOf is how long after it was due a task started; below 0: it didn't.
func (m *model) startOf(ref fsm.TaskRef) time.Duration {
	for _, s := range m.started() {
		if s.ref.Ref == ref {
			return time.Duration(s.at.UnixMilli()-s.due) * time.Millisecond
		}
	}
	return -1
}

// TestK11_01_Priorities: the most urgent first whatever the order of arrival, and
// equal ones in order of arrival; then a stream of urgent ones at twice the
// capacity, under which each other one starts when it has risen to high.
func TestK11_01_Priorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 100*time.Millisecond)
		w.mustConnect()
		c.submit(handler(0)) // keeps the slot busy
		time.Sleep(20 * time.Millisecond)
		low := c.submitNow(of(job.Low, 0))
		normal := c.submitNow(handler(0))
		time.Sleep(time.Millisecond)
		high := c.submitNow(of(job.High, 0))
		for range 3 {
			time.Sleep(time.Millisecond)
			normal = append(normal, c.submitNow(handler(0))...)
		}
		time.Sleep(250 * time.Millisecond) // high is done, the first normal one runs
		late := c.submitNow(of(job.High, 0))
		time.Sleep(2 * time.Second)
		want := append(slices.Clone(high), normal[0], late[0])
		want = append(append(want, normal[1:]...), low...)
		if got := w.order()[1:]; !slices.Equal(got, want) {
			t.Errorf("started in the order %v, want %v", got, want)
		}

		c.submit(of(job.High, 0))
		normal, low = c.submit(handler(0)), c.submit(of(job.Low, 0))
		for range 5 * 60 * 20 {
			c.submitNow(of(job.High, 0))
			time.Sleep(50 * time.Millisecond)
		}
		for ref, rose := range map[fsm.TaskRef]time.Duration{normal[0]: time.Minute, low[0]: 2 * time.Minute} {
			if at := w.startOf(ref); at < rose-time.Second || at > rose+time.Second {
				t.Errorf("a task that rises to high within %v started after %v", rose, at)
			}
		}
		c.check()
	})
}

func TestSlotsStayFreeForHighPriority(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, 0)
		w.mustConnect()
		for range 20 {
			c.submitNow(of(job.Low, 0))
		}
		time.Sleep(3 * time.Minute) // they have risen to high
		if n := (w.slots - w.free()); n != 8 {
			t.Errorf("%d low-priority attempts run on 10 slots, want 8", n)
		}
		urgent := c.submitNow(of(job.High, 0))
		time.Sleep(5 * time.Millisecond)
		if at := w.startOf(urgent[0]); at < 0 || at > 5*time.Millisecond {
			t.Errorf("a high-priority task started after %v, want at once", at)
		}
		c.set(job.Settings{HighSlots: new(0)})
		time.Sleep(time.Second)
		if n := (w.slots - w.free()); n != 10 {
			t.Errorf("%d attempts run once nothing is reserved, want 10", n)
		}
		c.check()
	})
}

func TestWorkersForSomePrioritiesTakeNoOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 4, time.Millisecond)
		w.priorities = []job.Priority{job.High}
		w.mustConnect()
		low, high := c.submit(of(job.Low, 0)), c.submit(of(job.High, 0))
		soon := c.submit(of(job.Normal, 2*time.Second))
		time.Sleep(5 * time.Minute)
		for _, ref := range append(low, soon...) {
			if w.startOf(ref) >= 0 {
				t.Error("a worker for high priority took another task")
			}
		}
		if w.startOf(high[0]) < 0 {
			t.Error("the high-priority task did not start")
		}
		all := c.worker("w2", 4, time.Millisecond)
		all.mustConnect()
		time.Sleep(time.Second)
		if all.startOf(low[0]) < 0 || all.startOf(soon[0]) < 0 {
			t.Error("the others did not start when a worker for them came")
		}
		c.check()
	})
}

func TestLowPriorityWaitsWhileBusy(t *testing.T) {
	t.Run("with high priority", func(t *testing.T) { lowWaits(t, job.High, 10, nil) })
	t.Run("with all that normal priority may take", func(t *testing.T) { lowWaits(t, job.Normal, 8, nil) })
	t.Run("beside a worker for high priority", func(t *testing.T) { lowWaits(t, job.Normal, 10, []job.Priority{job.High}) })
}

// lowWaits has tasks take slots of a worker with 10 of them, perhaps beside another one.
func lowWaits(t *testing.T, p job.Priority, tasks int, beside []job.Priority) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.set(job.Settings{SuspendLow: new(true)})
		w := c.worker("w1", 10, 15*time.Second)
		w.mustConnect()
		if beside != nil {
			other := c.worker("w2", 10, time.Second)
			other.priorities = beside
			other.mustConnect()
		}
		for range tasks {
			c.submitNow(of(p, 0))
		}
		time.Sleep(9 * time.Second)
		if c.sched.LowSuspended() {
			t.Error("low is suspended after 9s")
		}
		time.Sleep(2 * time.Second)
		if !c.sched.LowSuspended() {
			t.Error("low isn't suspended after 11s")
		}
		low := c.submitNow(of(job.Low, 0))
		time.Sleep(10 * time.Second)
		if c.sched.LowSuspended() || w.startOf(low[0]) < 0 {
			t.Error("low is still suspended after the slots were free")
		}
		c.check()
	})
}

func TestReadyHighPassesArmedLow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 500*time.Millisecond)
		w.mustConnect()
		low := c.submit(of(job.Low, 2*time.Second))
		time.Sleep(1900 * time.Millisecond)
		if w.armedNow() != 1 {
			t.Fatal("the low-priority task isn't armed")
		}
		high := c.submitNow(of(job.High, 0))
		time.Sleep(2 * time.Second)
		if order := w.order(); len(order) != 2 || order[0] != high[0] || order[1] != low[0] {
			t.Errorf("started %v, want high, then low", order)
		}
		if tk := c.task(low[0]); tk.Retries != 0 || tk.State != job.Success {
			t.Errorf("the armed task: %v, %d retries", tk.State, tk.Retries)
		}
		c.check()
	})
}
