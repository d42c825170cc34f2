package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestTasksStartOnTimeAndNotBefore(t *testing.T) {
	lastsDays(t)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1000, time.Millisecond)
		w.mustConnect()
		// Due inside the window, at its edge, and far beyond it.
		for _, d := range []time.Duration{0, 1, 500 * time.Millisecond, window * time.Millisecond, time.Minute, 25 * time.Hour} {
			c.submit(handler(d))
		}
		time.Sleep(26 * time.Hour)
		seen := w.seen()
		if len(seen) != 6 {
			t.Fatalf("%d tasks started, want 6", len(seen))
		}
		for _, s := range seen {
			late := s.at.UnixMilli() - s.due
			if late < 0 || late > 10 {
				t.Errorf("task due %d started %d ms late, want 0 to 10", s.due, late)
			}
		}
		c.check()
	})
}

func TestUrgentTasksGoFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 10*time.Millisecond)
		var want []fsm.TaskRef
		for _, p := range []job.Priority{job.Low, job.Normal, job.High} {
			spec := handler(0)
			spec.Policy.Priority = p
			want = append(c.submit(spec), want...)
		}
		w.mustConnect()
		time.Sleep(time.Second)
		seen := w.seen()
		if len(seen) != len(want) {
			t.Fatalf("%d tasks started, want %d", len(seen), len(want))
		}
		for i, s := range seen {
			if s.ref.Ref != want[i] {
				t.Errorf("start %d was of task %s, want %s", i, s.ref.Ref.ID, want[i].ID)
			}
		}
	})
}

func TestTasksWithoutAWorkerDontHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		picky := handler(0)
		picky.Policy.Selector = map[string]string{"gpu": "yes"}
		picky.Policy.Priority = job.High
		stuck := c.submit(picky, picky, job.TaskSpec{Executor: job.Executor{Handler: "unknown"}})
		free := c.submit(handler(0))
		w := c.worker("w1", 4, time.Millisecond)
		w.mustConnect()
		time.Sleep(time.Second)
		if s := c.task(free[0]).State; s != job.Success {
			t.Errorf("the task that fits is %s, want success", s)
		}
		for _, ref := range stuck {
			if s := c.task(ref).State; s != job.Pending {
				t.Errorf("a task that fits no worker is %s, want pending", s)
			}
		}
		gpu := c.worker("w2", 4, time.Millisecond)
		gpu.labels = map[string]string{"gpu": "yes", "zone": "a"}
		gpu.mustConnect()
		time.Sleep(time.Second)
		if n := len(gpu.seen()); n != 2 {
			t.Errorf("the worker with the label started %d tasks, want 2", n)
		}
	})
}

func TestLoadIsSpreadByFreeSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.set(job.Settings{HighSlots: new(0)})
		small, big := c.worker("small", 2, 0), c.worker("big", 6, 0)
		small.mustConnect()
		big.mustConnect()
		for range 20 {
			c.submit(handler(0))
		}
		time.Sleep(time.Second)
		if a, b := len(small.seen()), len(big.seen()); a != 2 || b != 6 {
			t.Errorf("started %d and %d tasks, want the slots, 2 and 6", a, b)
		}
		if n := c.sched.Ready(); n != 12 {
			t.Errorf("%d tasks are ready, want 12", n)
		}
	})
}

func TestAttemptsAreLostOnlyAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(3 * time.Second)
		w.disconnect()
		cut := time.Now()
		time.Sleep(10 * time.Second) // the last renewal was answered up to 1 s before the cut
		if s := c.task(ref).State; s != job.Dispatched {
			t.Fatalf("the task is %s within the lease, want dispatched", s)
		}
		other := c.worker("w2", 1, time.Millisecond)
		other.mustConnect()
		time.Sleep(time.Minute)
		seen := other.seen()
		if len(seen) != 1 {
			t.Fatalf("the other worker started %d attempts, want 1", len(seen))
		}
		if after := seen[0].at.Sub(cut); after < 11*time.Second || after > 20*time.Second {
			t.Errorf("the next attempt began %s after the cut, want the lease, the slop and a back-off of 2 to 4 s", after)
		}
		if got := c.task(ref); got.State != job.Success || got.Retries != 1 {
			t.Errorf("the task is %s after %d retries, want success after 1", got.State, got.Retries)
		}
		c.check()
	})
}

func TestWhatMayGoOnWithoutALeaseIsLostOnlyAfterItsTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		spec := handler(0)
		timeout := job.Duration(10 * time.Minute)
		spec.Policy.Timeout, spec.Policy.OnDisconnect = &timeout, job.DisconnectContinue
		ref := c.submit(spec)[0]
		time.Sleep(time.Second)
		w.disconnect()
		time.Sleep(15 * time.Minute)
		if s := c.task(ref).State; s != job.Dispatched {
			t.Fatalf("the task is %s while its attempt may still run, want dispatched", s)
		}
		time.Sleep(time.Minute)
		if got := c.task(ref); got.State != job.Pending || got.Retries != 1 {
			t.Errorf("the task is %s after %d retries, want pending after 1", got.State, got.Retries)
		}
	})
}

func TestALeaseThatEndedIsNotRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		w.disconnect()
		time.Sleep(time.Minute)
		if c.sched.Renew("w1", "b1") {
			t.Error("a heartbeat renewed a lease that had ended; its attempts may be lost already")
		}
		if err := w.connect(); err != nil {
			t.Fatal(err)
		}
		if !c.sched.Renew("w1", "b1") {
			t.Error("a new session's heartbeat did not renew the lease")
		}
	})
}

func TestANewLeaderTakesOverWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 3, 0)
		w.mustConnect()
		refs := c.submit(handler(0), handler(0), handler(time.Hour))
		time.Sleep(time.Second)
		first := w.seen()
		if len(first) != 2 {
			t.Fatalf("%d tasks started, want 2", len(first))
		}
		w.disconnect()
		w.neverGot(first[0].ref)
		ghost := fsm.AttemptRef{Ref: fsm.TaskRef{Namespace: "default"}, Token: job.Token{Index: 9999}}
		w.mu.Lock()
		w.held[ghost] = 1 // an attempt that state does not know
		w.mu.Unlock()
		c.lead()
		w.mustConnect()
		time.Sleep(time.Second)
		seen := w.seen()[2:]
		if len(seen) != 1 || seen[0].ref != first[0].ref {
			t.Errorf("the new leader sent %v again, want only what the worker did not declare, with its token", seen)
		}
		if w.killedFor(ghost) != KillStale {
			t.Error("the worker was not told to end an attempt that state does not know")
		}
		w.finish(first[1].ref, job.OutcomeSuccess)
		time.Sleep(2 * time.Hour)
		if s := c.task(refs[2]).State; s != job.Dispatched {
			t.Errorf("the delayed task is %s under the new leader, want dispatched", s)
		}
		if got := c.task(refs[0]); got.Retries+c.task(refs[1]).Retries != 0 {
			t.Error("a leader change spent a retry")
		}
		c.check()
	})
}

func TestANewLeaderWaitsALeaseForAWorkerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.disconnect()
		c.lead()
		time.Sleep(11 * time.Second)
		if s := c.task(ref).State; s != job.Dispatched {
			t.Fatalf("the task is %s although a lease that the old leader granted may still run", s)
		}
		time.Sleep(4 * time.Second)
		if got := c.task(ref); got.State != job.Pending || got.Retries != 1 {
			t.Errorf("the task is %s after %d retries, want pending after 1", got.State, got.Retries)
		}
		r, release := c.Read()
		defer release()
		if rec, _ := fsm.GetWorker(r, "w1"); !rec.Lost {
			t.Error("the worker is not marked lost")
		}
	})
}

func TestARestartedWorkersOldAttemptsWaitForTheirLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.disconnect()
		again := c.worker("w1", 1, time.Millisecond)
		again.boot = "b2" // another life, which declares nothing
		again.mustConnect()
		other := c.submit(handler(0))[0]
		time.Sleep(5 * time.Second)
		if s := c.task(other).State; s != job.Success {
			t.Errorf("a new task is %s, want success: an earlier life's attempt holds no slot", s)
		}
		if s := c.task(ref).State; s != job.Dispatched {
			t.Errorf("the earlier life's task is %s, want dispatched until its lease ends", s)
		}
		time.Sleep(time.Minute)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("the task is %s after the lease, want success by the new life", s)
		}
		c.check()
	})
}

func TestTwoWorkersOfOneName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.worker("w1", 1, 0).mustConnect()
		twin := c.worker("w1", 1, 0)
		twin.boot = "b2"
		if err := twin.connect(); job.AsError(err).Code != job.CodeConflict {
			t.Errorf("a second worker of the name got %v, want a conflict", err)
		}
	})
}

func TestCancelReachesTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		refs := c.submit(handler(0), handler(0))
		time.Sleep(time.Second)
		for _, ref := range refs {
			if res := c.apply(fsm.Cancel{Ref: ref}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		time.Sleep(time.Second)
		for _, ref := range refs {
			if s := c.task(ref).State; s != job.Cancelled {
				t.Errorf("the task is %s, want cancelled", s)
			}
		}
		if n := len(w.seen()); n != 1 {
			t.Errorf("%d attempts started, want 1: the other was cancelled before", n)
		}
	})
}

func TestRoomReportedByTheWorkerIsTrusted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 4, 0)
		w.mustConnect()
		time.Sleep(1500 * time.Millisecond)
		w.occupy(3)
		c.submit(handler(0), handler(0), handler(0))
		time.Sleep(1500 * time.Millisecond)
		if n := len(w.seen()); n != 1 {
			t.Errorf("%d attempts were sent to a worker with one free slot", n)
		}
		w.occupy(0)
		time.Sleep(time.Second)
		if n := len(w.seen()); n != 3 {
			t.Errorf("%d attempts were sent in all, want 3", n)
		}
	})
}

func TestFailedProposalsAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, time.Millisecond)
		w.mustConnect()
		c.mu.Lock()
		c.deaf = true
		c.mu.Unlock()
		ref := c.submit(handler(time.Millisecond))[0]
		time.Sleep(20 * time.Millisecond)
		c.mu.Lock()
		c.deaf = false
		c.mu.Unlock()
		time.Sleep(time.Second)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("the task is %s, want success once proposals commit", s)
		}
	})
}

func TestAChangedJobMovesItsWaitingTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		put := func(selector map[string]string) {
			spec := job.Spec{Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Selector: selector}}
			if res := c.apply(fsm.PutJob{Namespace: "default", Name: "report", Spec: spec}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		put(map[string]string{"zone": "nowhere"})
		w := c.worker("w1", 1, time.Millisecond)
		w.mustConnect()
		ref := c.submit(job.TaskSpec{Job: "report"})[0]
		time.Sleep(time.Second)
		if s := c.task(ref).State; s != job.Pending {
			t.Fatalf("the task is %s, want pending", s)
		}
		put(nil)
		time.Sleep(time.Second)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("the task is %s after its job lost the selector, want success", s)
		}
	})
}

func TestMemoryIsBoundedHoweverManyAreDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const maxLoaded, total = 2000, 7000
		c := newCluster(t, func(cfg *Config) { cfg.MaxLoaded = maxLoaded })
		spec := make([]job.TaskSpec, 1000)
		for i := range spec {
			spec[i] = handler(5 * time.Second)
		}
		for range total / len(spec) {
			c.submit(spec...)
		}
		time.Sleep(10 * time.Second)
		if n := c.sched.Loaded(); n == 0 || n > maxLoaded {
			t.Errorf("%d tasks are loaded, want at most %d", n, maxLoaded)
		}
		w := c.worker("w1", 200, time.Millisecond)
		w.mustConnect()
		time.Sleep(time.Minute)
		seen := map[fsm.TaskRef]bool{}
		for _, s := range w.seen() {
			if seen[s.ref.Ref] {
				t.Fatalf("task %s was sent twice", s.ref.Ref.ID)
			}
			seen[s.ref.Ref] = true
		}
		if len(seen) != total {
			t.Errorf("%d tasks started, want %d", len(seen), total)
		}
		c.check()
	})
}

func TestAnOverflowingInboxLosesNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		var refs []fsm.TaskRef
		for i := range 20 {
			refs = append(refs, c.submit(handler(time.Duration(i)*100*time.Millisecond))...)
			c.sched.inbox.mu.Lock() // as if the events of this submit had not fitted
			c.sched.inbox.mu.messages, c.sched.inbox.mu.hints, c.sched.inbox.mu.lost = nil, 0, true
			c.sched.inbox.mu.Unlock()
		}
		time.Sleep(time.Minute)
		for _, ref := range refs {
			if s := c.task(ref).State; s != job.Success {
				t.Errorf("task %s is %s, want success", ref.ID, s)
			}
		}
	})
}

func TestEndedTasksAreExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.Retention = time.Hour })
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		for range 30 {
			c.submit(handler(0))
		}
		time.Sleep(time.Second)
		r, release := c.Read()
		if n := fsm.CountTasks(r, "default")[job.Success]; n != 30 {
			t.Fatalf("%d tasks succeeded, want 30", n)
		}
		release()
		time.Sleep(time.Hour + time.Minute)
		r, release = c.Read()
		defer release()
		if n := fsm.CountTasks(r, "default")[job.Success]; n != 0 {
			t.Errorf("%d ended tasks are left after their retention", n)
		}
		c.check()
	})
}

func TestNothingRunsWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.stop()
		w := c.worker("w1", 1, time.Millisecond)
		if err := w.connect(); job.AsError(err).Code != job.CodeNoLeader {
			t.Errorf("a session without a leader got %v, want no_leader", err)
		}
		if n := c.sched.Ready(); n != -1 {
			t.Errorf("Ready is %d while not leading, want -1", n)
		}
	})
}

func TestAnAnswerToAnEarlierTermIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 4, time.Millisecond)
		w.mustConnect()
		var refs []fsm.TaskRef
		for range 2 * maxAssigning { // the answers to some assigns come when the next term is led
			refs = append(refs, c.submit(handler(0))...)
			c.lead()
			w.disconnect()
			w.mustConnect()
		}
		time.Sleep(time.Minute)
		for _, ref := range refs {
			if s := c.task(ref).State; s != job.Success {
				t.Errorf("task %s is %s, want success", ref.ID, s)
			}
		}
		c.check()
	})
}
