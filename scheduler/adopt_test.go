package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// goingOn is a task whose attempt goes on for ten minutes without contact.
func goingOn() job.TaskSpec {
	spec := handler(0)
	spec.Timeout, spec.OnDisconnect = new(job.Duration(10*time.Minute)), job.DisconnectContinue
	return spec
}

// rebirth gives the worker another life, which has what the one before ran.
func (m *model) rebirth(boot string) {
	m.disconnect()
	m.mu.Lock()
	m.boot = boot
	m.mu.Unlock()
	m.mustConnect()
}

// What a worker's next life has taken over is its own: it holds a slot, outlives the
// old life's lease, and can be cancelled. So it is after the loop was built anew.
func TestAnAttemptThatWasTakenOverIsTheNextLifesOwn(t *testing.T) {
	for name, rebuild := range map[string]bool{"at once": false, "after a rebuild": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 1, 0)
				w.mustConnect()
				ref := c.submit(goingOn())[0]
				time.Sleep(time.Second)
				token := c.task(ref).Token
				w.rebirth("b2")
				if rebuild {
					c.sched.Reset()
					time.Sleep(time.Second)
					c.sched.Declare("w1", w.link, []Held{{AttemptRef: fsm.AttemptRef{Ref: ref, Token: token}, Attempt: 1}})
				}
				time.Sleep(time.Minute)
				other := c.submit(handler(0))[0]
				time.Sleep(5 * time.Second)
				if got := c.task(other); got.State != job.Pending || w.full() != 0 {
					t.Errorf("a task beside it is %s, and %d attempts were refused: its slot is not held", got.State, w.full())
				}
				if got := c.task(ref); got.Token != token || got.Attempt != 1 {
					t.Errorf("it is at attempt %d", got.Attempt)
				}
				c.apply(fsm.Cancel{Ref: ref})
				time.Sleep(time.Second)
				if why := w.killedFor(fsm.AttemptRef{Ref: ref, Token: token}); why != KillCancelled {
					t.Errorf("the worker was asked to end it for %q, want %q", why, KillCancelled)
				}
				c.check()
			})
		})
	}
}

func (m *model) full() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.noSlot
}

// A worker that comes back without what it ran has lost it: its earlier life's lease is
// waited for, and then the safe window of a job that goes on.
func TestWhatWasNotTakenOverWaitsForTheSafeWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(goingOn())[0]
		time.Sleep(time.Second)
		w.disconnect()
		w2 := c.worker("w2", 1, 0)
		w2.mustConnect()
		time.Sleep(15*time.Minute - 15*time.Second)
		if got := c.task(ref); got.Attempt != 1 {
			t.Errorf("within the safe window it is at attempt %d", got.Attempt)
		}
		time.Sleep(30 * time.Second)
		if got := c.task(ref); got.Attempt != 2 || got.Worker != "w2" {
			t.Errorf("after the safe window it is %s at attempt %d on %s", got.State, got.Attempt, got.Worker)
		}
	})
}
