package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// onTime wants every task started exactly once, 0 to most late.
func onTime(t *testing.T, refs []fsm.TaskRef, most time.Duration, workers ...*model) {
	t.Helper()
	starts := map[fsm.TaskRef]int{}
	for _, w := range workers {
		for _, s := range w.started() {
			starts[s.ref.Ref]++
			if late := s.at.Sub(time.UnixMilli(s.due)); late < 0 || late > most {
				t.Errorf("task %s started %s late, want 0 to %s", s.ref.Ref.ID, late, most)
			}
		}
	}
	for _, ref := range refs {
		if n := starts[ref]; n != 1 {
			t.Errorf("task %s started %d times, want once", ref.ID, n)
		}
	}
}

// started are the starts, without what was sent again.
func (m *model) started() []start {
	return slices.DeleteFunc(m.seen(), func(s start) bool { return s.again })
}

// spread returns n tasks due evenly from a delay on.
func spread(n int, from, over time.Duration) []job.TaskSpec {
	specs := make([]job.TaskSpec, n)
	for i := range specs {
		specs[i] = handler((from + over*time.Duration(i)/time.Duration(n)).Truncate(time.Millisecond))
	}
	return specs
}

// refused counts the armed attempts that were given back since no slot was free.
func (m *model) refused() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noSlot
}

func (c *cluster) kill() {
	c.stop()
	c.stop = func() {}
}

// A leader that dies a millisecond before 200 tasks of the next three seconds come
// due delays none of them, and its successor starts none of them again.
func TestTasksStartOnTimeWhileThereIsNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 300, 10*time.Millisecond)
		w.mustConnect()
		refs := c.submit(spread(200, 30*time.Second, 3*time.Second)...)
		time.Sleep(30*time.Second - time.Millisecond)
		c.kill()
		w.disconnect()
		time.Sleep(2 * time.Second) // some still wait at the worker when the next one leads
		c.lead()
		w.mustConnect()
		time.Sleep(time.Minute)
		onTime(t, refs, 2*time.Millisecond, w)
		for _, ref := range refs {
			if got := c.task(ref); got.State != job.Success || got.Attempt != 1 {
				t.Errorf("task %s is %s at attempt %d", ref.ID, got.State, got.Attempt)
			}
		}
		c.check()
	})
}

// A worker that dies delays what was armed at it by its lease, no more.
func TestAWorkerKilledWithArmedTasksDelaysThemByItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.set(job.Settings{HighSlots: new(0)})
		w := c.worker("w1", 100, 0)
		w.mustConnect()
		refs := c.submit(spread(100, time.Second, 2*time.Second)...)
		time.Sleep(900 * time.Millisecond)
		if n := w.armedNow(); n != 100 {
			t.Fatalf("%d attempts are armed, want 100", n)
		}
		w.crash()
		killed := time.Now()
		other := c.worker("w2", 200, 0)
		other.mustConnect()
		time.Sleep(time.Minute)
		last := killed
		for _, s := range other.started() {
			if s.at.After(last) {
				last = s.at
			}
		}
		if n, after := len(other.started()), last.Sub(killed); n != len(refs) || after > 12*time.Second+10*time.Millisecond {
			t.Errorf("%d attempts started elsewhere, the last %s after the kill; want %d within TTL + 2 s", n, after, len(refs))
		}
		c.check()
	})
}

// What was armed for a time after the lease's end spends no retry and leaves no
// attempt behind; what may have started does.
func TestOnlyAttemptsThatMayHaveStartedSpendARetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.LeaseTTL, cfg.Horizon = time.Second, 8*time.Second })
		w := c.worker("w1", 10, 0)
		w.mustConnect()
		early, late := c.submit(handler(500 * time.Millisecond))[0], c.submit(handler(6 * time.Second))[0]
		time.Sleep(400 * time.Millisecond)
		w.crash()
		time.Sleep(5 * time.Second)
		for ref, retries := range map[fsm.TaskRef]int{early: 1, late: 0} {
			got := c.task(ref)
			if got.State != job.Pending || got.Retries != retries || int(got.Attempt) != retries {
				t.Errorf("the task is %s after %d retries and %d attempts, want pending after %d", got.State, got.Retries, got.Attempt, retries)
			}
		}
		other := c.worker("w2", 10, 0)
		other.mustConnect()
		time.Sleep(10 * time.Second)
		if n := len(other.seen()); n != 2 {
			t.Errorf("%d attempts started elsewhere, want 2", n)
		}
		if s := other.seen()[1]; s.ref.Ref != late || s.at != time.UnixMilli(s.due) {
			t.Errorf("task %s due %s started at %s, want it on time", s.ref.Ref.ID, time.UnixMilli(s.due), s.at)
		}
		c.check()
	})
}

// Whoever moves or cancels an armed task gets it, or it had started: never both.
func TestChangesOfArmedTasksRaceWithTheirStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, 50*time.Millisecond)
		w.mustConnect()
		for _, at := range []time.Duration{-time.Second, -3, -2, -1, 0, 1} {
			if at > -time.Second {
				at *= time.Millisecond
			}
			refs := c.submit(handler(2*time.Second), handler(2*time.Second))
			due := time.Now().Add(2 * time.Second)
			time.Sleep(2*time.Second + at)
			cancelled := c.apply(fsm.Cancel{Ref: refs[0]}).Err == nil
			moved := c.apply(fsm.Reschedule{Ref: refs[1], Delay: job.Duration(5 * time.Second)}).Err == nil
			time.Sleep(20 * time.Second)
			first, second := c.task(refs[0]), c.task(refs[1])
			if started := first.Started != 0; cancelled != (first.State == job.Cancelled) || at < 0 && started {
				t.Errorf("cancelled %s from due: accepted %v, the task is %s, started %v", at, cancelled, first.State, started)
			}
			late := time.UnixMilli(second.Started).Sub(due)
			if inTime := late > 4*time.Second; second.State != job.Success || moved == (!inTime && !second.TooLate) || at < -2*time.Millisecond && !inTime {
				t.Errorf("moved %s from due: accepted %v, the task is %s and started %s from its first due time, too late: %v",
					at, moved, second.State, late, second.TooLate)
			}
			n := 0
			for _, s := range w.seen() {
				if s.ref.Ref == refs[1] {
					n++
				}
			}
			if n != 1 {
				t.Errorf("moved %s from due: started %d times", at, n)
			}
		}
		c.check()
	})
}

// A wish that found no session reaches the worker when it comes back.
func TestAWishToMoveOutlastsTheSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, time.Millisecond)
		w.mustConnect()
		ref := c.submit(handler(3 * time.Second))[0]
		time.Sleep(time.Second)
		w.disconnect()
		c.lead()
		if res := c.apply(fsm.Reschedule{Ref: ref, Delay: job.Duration(time.Hour)}); res.Err != nil || res.Task.State != job.Dispatched {
			t.Fatalf("%v, want the wish noted on an armed task", res)
		}
		time.Sleep(time.Second)
		w.mustConnect()
		time.Sleep(time.Minute)
		if got := c.task(ref); got.State != job.Pending || got.Wished() {
			t.Errorf("the task is %s, want it pending at its new time", got.State)
		}
		time.Sleep(2 * time.Hour)
		onTime(t, []fsm.TaskRef{ref}, 0, w)
	})
}

// Drained, a worker gives back what is armed, and others start it on time.
func TestADrainedWorkerGivesBackWhatIsArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.set(job.Settings{HighSlots: new(0)})
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		refs := c.submit(spread(10, 2*time.Second, 500*time.Millisecond)...)
		time.Sleep(time.Second)
		c.apply(fsm.DrainWorker{Name: "w1"})
		other := c.worker("w2", 10, time.Millisecond)
		other.mustConnect()
		time.Sleep(time.Minute)
		onTime(t, refs, 0, other)
	})
}

// No free slot at its time: another worker gets the task at once, and without one
// it isn't sent around at the speed of Raft.
func TestAnArmedTaskThatFindsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 4, 10*time.Millisecond)
		w.mustConnect()
		refs := c.submit(spread(4, 2*time.Second, 0)...)
		time.Sleep(time.Second)
		w.mu.Lock()
		w.other = 4 // as if it ran something that the leader doesn't know of
		w.mu.Unlock()
		time.Sleep(30 * time.Second)
		given := w.refused()
		if given < 4 || given > 16 {
			t.Errorf("attempts were given back %d times in 30 s, want the 4 armed ones and few more", given)
		}
		other := c.worker("w2", 4, 10*time.Millisecond)
		other.mustConnect()
		time.Sleep(time.Second)
		if n := len(other.seen()); n != 4 {
			t.Errorf("%d of 4 attempts started at the worker with free slots", n)
		}
		for _, ref := range refs {
			if got := c.task(ref); got.State != job.Success || got.Retries != 0 || got.Attempt != 1 {
				t.Errorf("the task is %s after %d retries at attempt %d, want success and nothing spent", got.State, got.Retries, got.Attempt)
			}
		}
		c.check()
	})
}

func TestUrgentWorkPassesArmedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 100*time.Millisecond)
		w.mustConnect()
		spec := handler(time.Second)
		spec.Policy.Priority = job.Low
		low := c.submit(spec)[0]
		time.Sleep(950 * time.Millisecond)
		spec = handler(0)
		spec.Policy.Priority = job.High
		high := c.submit(spec)[0]
		began := time.Now()
		time.Sleep(3 * time.Second)
		seen := w.seen()
		if len(seen) != 2 || seen[0].ref.Ref != high || seen[1].ref.Ref != low {
			t.Fatalf("started %v, want the urgent task, then the armed one", seen)
		}
		if d := seen[0].at.Sub(began); d > 2*commitDelay {
			t.Errorf("the urgent task started after %s", d)
		}
		if d := seen[1].at.Sub(began); d > 100*time.Millisecond+4*commitDelay {
			t.Errorf("the low task started %s after the urgent one was submitted, want as soon as that has ended", d)
		}
	})
}

// Of tasks that take long no more are armed than there are slots.
func TestNoMoreIsArmedThanCanStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.set(job.Settings{HighSlots: new(0)})
		a, b := c.worker("a", 2, 10*time.Minute), c.worker("b", 6, 10*time.Minute)
		a.mustConnect()
		b.mustConnect()
		c.submit(spread(50, 5*time.Second, time.Second)...)
		time.Sleep(time.Minute)
		if a.refused() != 0 || b.refused() != 0 || len(a.started()) != 2 || len(b.started()) != 6 {
			t.Errorf("started %d and %d, gave back %d and %d; want 2 and 6, and nothing given back",
				len(a.started()), len(b.started()), a.refused(), b.refused())
		}
	})
}

// Short tasks come faster than there are slots: the more have ended, the more are
// armed, so that all start on time.
func TestArmingGrowsWithTheWorkersPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 16, time.Millisecond)
		w.mustConnect()
		refs := c.submit(spread(1500, 5*time.Second, 5*time.Second)...)
		time.Sleep(7 * time.Second)
		n := w.armedNow()
		if n < 300 {
			t.Errorf("%d attempts are armed of 300 that start each second", n)
		}
		time.Sleep(time.Minute)
		onTime(t, refs, 0, w)
		if w.refused() != 0 {
			t.Errorf("%d attempts were given back", w.refused())
		}
	})
}

// A worker that hangs is armed no further, though its session stands.
func TestAWorkerThatHangsIsNotArmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		w.disconnect() // and nobody has noticed
		time.Sleep(armFresh + time.Second)
		refs := c.submit(spread(10, 2*time.Second, 0)...)
		time.Sleep(time.Second)
		other := c.worker("w2", 100, time.Millisecond)
		other.mustConnect()
		time.Sleep(10 * time.Second)
		onTime(t, refs, 0, other)
	})
}

// Random loads of short and long tasks on small workers: whatever was armed where,
// each starts once, none before its time, and no slot stays idle for long.
func TestArmingUnderRandomLoad(t *testing.T) {
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 3))
			c := newCluster(t)
			var workers []*model
			for i := range 3 {
				w := c.worker(string(rune('a'+i)), 1+rnd.IntN(4), time.Duration(1+rnd.IntN(400))*time.Millisecond)
				w.mustConnect()
				workers = append(workers, w)
			}
			var refs []fsm.TaskRef
			for range 100 {
				spec := handler(time.Duration(rnd.IntN(6000)) * time.Millisecond)
				spec.Policy.Priority = job.Priority(1 + rnd.IntN(3))
				refs = append(refs, c.submit(spec)...)
				time.Sleep(time.Duration(rnd.IntN(100)) * time.Millisecond)
			}
			time.Sleep(time.Minute)
			onTime(t, refs, time.Minute, workers...)
			for _, ref := range refs {
				if got := c.task(ref); got.State != job.Success || got.Retries != 0 {
					t.Errorf("seed %d: task %s is %s after %d retries", seed, ref.ID, got.State, got.Retries)
				}
			}
			c.check()
		})
	}
}

// The event of an assign comes after a session was settled by a state that holds
// the assign already: it is sent once.
func TestAnAssignThatTheSessionKnowsIsNotSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newHooked(t)
		w := c.worker("w1", 1, 0)
		h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
			if _, ok := cmd.(fsm.RegisterWorker); !ok {
				return false
			}
			go func() {
				res := c.apply(cmd)
				c.sched.inbox.put(func(*loop) { time.Sleep(10 * time.Millisecond) }) // a turn that takes long
				time.Sleep(5 * time.Millisecond)
				done(res, nil)
				b, _ := fsm.EncodeCommand(fsm.Submit{Namespace: job.DefaultNamespace, Tasks: []job.TaskSpec{handler(0)}})
				c.apply(fsm.SubmitNow{Term: c.term, Workers: []fsm.WorkerLife{{Name: "w1", Boot: "b1"}}, To: []int{1}, Submit: b})
			}()
			return true
		})
		w.mustConnect()
		time.Sleep(time.Second)
		if seen := w.seen(); len(seen) != 1 || seen[0].again {
			t.Errorf("the attempt was sent as %v, want once", seen)
		}
	})
}

// Armed tasks of normal priority leave the slots free that are kept for high, however
// many come due at once and whatever the worker's pace before: what is urgent finds
// one at once.
func TestArmedTasksLeaveWhatIsKeptForHigh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, b := c.worker("a", 7, 10*time.Millisecond), c.worker("b", 3, 10*time.Millisecond)
		a.mustConnect()
		b.mustConnect()
		for range 200 { // short ones: the workers are known to be quick
			c.submitNow(handler(0))
			time.Sleep(10 * time.Millisecond)
		}
		for _, m := range []*model{a, b} {
			m.mu.Lock()
			m.takes = 0 // from now on they take for ever
			m.mu.Unlock()
		}
		c.submit(spread(40, 2*time.Second, 100*time.Millisecond)...)
		time.Sleep(3 * time.Second)
		busy := func() int { return a.slots + b.slots - a.free() - b.free() }
		if n := busy(); n != 8 {
			t.Errorf("%d slots are taken by normal tasks, want 8 of 10", n)
		}
		for _, ref := range c.submitNow(of(job.High, 0), of(job.High, 0)) {
			time.Sleep(50 * time.Millisecond)
			if at := max(a.startOf(ref), b.startOf(ref)); at < 0 || at > 20*time.Millisecond {
				t.Errorf("a high one started after %s", at)
			}
		}
		if a.kept+b.kept == 0 {
			t.Error("no worker had to keep a slot free: the test shows nothing")
		}
		c.check()
	})
}

// The kept slots are divided so that their parts are all of them: first those of
// workers that take nothing else.
func TestKeptSlotsAreDivided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, one := range []struct {
			slots []int
			high  int // slots of one more worker, for high alone
			share int
			want  []int
		}{
			{[]int{4, 4, 4, 4, 4}, 0, 20, []int{0, 1, 1, 1, 1}}, {[]int{10}, 0, 20, []int{2}}, {[]int{7, 3}, 0, 20, []int{1, 1}},
			{[]int{40}, 10, 20, []int{0}}, {[]int{40, 40}, 10, 20, []int{4, 4}}, {[]int{1, 9}, 0, 90, []int{0, 9}}, {[]int{3}, 0, 20, []int{0}},
		} {
			l := &loop{workers: map[string]*workerState{}, settings: job.Settings{HighSlots: &one.share}}
			add := func(name string, slots int, s prioritySet) *workerState {
				w := &workerState{name: name, slots: slots, session: &link{}, priorities: s}
				l.workers[name] = w
				return w
			}
			if one.high > 0 {
				add("high", one.high, setOf([]job.Priority{job.High}))
			}
			var all []*workerState
			for i, n := range one.slots {
				all = append(all, add(string(rune('a'+i)), n, 0))
			}
			l.recount = true
			l.keepSlots()
			for i, w := range all {
				if w.kept != one.want[i] {
					t.Errorf("%+v: %s keeps %d, want %d", one, w.name, w.kept, one.want[i])
				}
			}
		}
	})
}
