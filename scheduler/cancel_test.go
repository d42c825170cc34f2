package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// stage is a moment in a task's life, and what a caller may rely on who cancels
// or moves it then; docs/guides/cancel.md says the same.
type stage struct {
	name  string
	reach func(c *cluster, w *model) fsm.TaskRef

	// Cancelled.
	refused bool          // it has ended
	atOnce  bool          // it is cancelled when the call returns
	ends    time.Duration // otherwise it is by then
	starts  int           // in all, however long one waits
	state   job.State     // in the end; 0: cancelled

	// Moved by an hour.
	moves, asks bool // at once; once the worker has given it back; neither: it is refused
}

var stages = []stage{
	{name: "scheduled", atOnce: true, moves: true, reach: func(c *cluster, w *model) fsm.TaskRef {
		w.mustConnect()
		return c.submit(handler(time.Minute))[0]
	}},
	{name: "armed", ends: time.Second, asks: true, reach: func(c *cluster, w *model) fsm.TaskRef {
		w.mustConnect()
		ref := c.submit(handler(2 * time.Second))[0]
		time.Sleep(time.Second)
		return ref
	}},
	{name: "armed at a worker out of reach", ends: 13 * time.Second, asks: true, starts: 1, reach: func(c *cluster, w *model) fsm.TaskRef {
		w.mustConnect()
		ref := c.submit(handler(2 * time.Second))[0]
		time.Sleep(time.Second)
		w.disconnect()
		return ref
	}},
	{name: "waiting", atOnce: true, moves: true, reach: func(c *cluster, w *model) fsm.TaskRef {
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.mustConnect()
		w.occupy(1)
		c.apply(fsm.DrainWorker{Name: w.name}) // it stays waiting
		return ref
	}},
	{name: "dispatched, not received", ends: 13 * time.Second, reach: func(c *cluster, w *model) fsm.TaskRef {
		w.mustConnect()
		w.setDeaf(true)
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.disconnect()
		return ref
	}},
	{name: "running", ends: time.Second, starts: 1, reach: running},
	{name: "running on a worker that is lost", ends: 13 * time.Second, starts: 1, reach: func(c *cluster, w *model) fsm.TaskRef {
		ref := running(c, w)
		w.crash()
		return ref
	}},
	{name: "retrying", atOnce: true, moves: true, starts: 1, reach: func(c *cluster, w *model) fsm.TaskRef {
		ref := running(c, w)
		w.finish(w.seen()[0].ref, job.OutcomeFailed)
		return ref
	}},
	{name: "ended", refused: true, state: job.Success, starts: 1, reach: func(c *cluster, w *model) fsm.TaskRef {
		ref := running(c, w)
		w.finish(w.seen()[0].ref, job.OutcomeSuccess)
		return ref
	}},
}

func running(c *cluster, w *model) fsm.TaskRef {
	w.mustConnect()
	ref := c.submit(handler(0))[0]
	time.Sleep(time.Second)
	c.apply(fsm.Started{AttemptRef: w.seen()[0].ref, At: time.Now().UnixMilli()})
	synctest.Wait()
	return ref
}

func TestCancelAtEveryStage(t *testing.T) {
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 1, 0)
				ref := s.reach(c, w)
				res := c.apply(fsm.Cancel{Ref: ref, Actor: "ann"})
				got := c.task(ref)
				switch {
				case s.refused:
					if res.Err == nil || res.Err.Code != job.CodeConflict {
						t.Errorf("answer %+v, want a conflict", res.Err)
					}
				case res.Err != nil:
					t.Fatal(res.Err)
				case s.atOnce != (got.State == job.Cancelled), !s.atOnce && !got.CancelRequested:
					t.Errorf("right after it is %s, requested %t", got.State, got.CancelRequested)
				}
				again := c.apply(fsm.Cancel{Ref: ref})
				if s.ends > 0 && again.Err != nil && c.task(ref).State != job.Cancelled { // it may have come to that
					t.Errorf("to ask again while it is being cancelled: %v", again.Err)
				}
				time.Sleep(s.ends)
				want := s.state
				if want == 0 {
					want = job.Cancelled
				}
				if got := c.task(ref); got.State != want {
					t.Errorf("after %s it is %s, want %s", s.ends, got.State, want)
				}
				time.Sleep(2 * time.Hour)
				if got := c.task(ref); got.State != want || want == job.Cancelled && got.Error != "cancelled by ann" {
					t.Errorf("in the end it is %s: %s", got.State, got.Error)
				}
				if n := len(w.started()); n > s.starts {
					t.Errorf("%d starts, at most %d may be", n, s.starts)
				}
				c.check()
			})
		})
	}
}

func TestRescheduleAtEveryStage(t *testing.T) {
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 1, 0)
				ref := s.reach(c, w)
				before, starts := c.task(ref), len(w.started())
				res := c.apply(fsm.Reschedule{Ref: ref, Delay: job.Duration(time.Hour)})
				due := time.Now().Add(time.Hour).UnixMilli()
				got := c.task(ref)
				switch {
				case s.moves && (res.Err != nil || got.Due != due || got.State != job.Pending):
					t.Errorf("%v: it is %s and due %d, want pending and %d", res.Err, got.State, got.Due, due)
				case s.asks && (res.Err != nil || got.WantDue != due || got.Token != before.Token):
					t.Errorf("%v: it is to be moved to %d, want %d", res.Err, got.WantDue, due)
				case !s.moves && !s.asks && (res.Err == nil || res.Err.Code != job.CodeConflict || got.Due != before.Due):
					t.Errorf("answer %+v, due %d, want a conflict and %d", res.Err, got.Due, before.Due)
				}
				if !s.moves && !s.asks {
					return
				}
				time.Sleep(15 * time.Second)
				if got = c.task(ref); got.Due != due && !got.TooLate {
					t.Errorf("later it is %s and due %d, want %d, or to be told that it came too late", got.State, got.Due, due)
				}
				time.Sleep(time.Hour - 20*time.Second)
				if n := len(w.started()) - starts; n > 0 && !got.TooLate {
					t.Errorf("it started before its new time, %d times", n)
				}
				c.check()
			})
		})
	}
}
