package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// A loop that rebuilds itself while a worker registers must not mark the worker
// lost after that: it would get no work for as long as it stays connected. The
// answer to the registration comes at every moment around the look at leases.
func TestARebuildDuringARegistrationDoesNotLoseTheWorker(t *testing.T) {
	for lag := time.Duration(0); lag < 600*time.Millisecond; lag += time.Millisecond {
		synctest.Test(t, func(t *testing.T) {
			c, h := newHooked(t)
			h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
				if _, ok := cmd.(fsm.RegisterWorker); !ok {
					return false
				}
				c.ProposeAsync(cmd, func(res fsm.Result, err error) {
					c.sched.Reset()
					time.Sleep(lag)
					done(res, err)
				})
				return true
			})
			w := c.worker("w1", 1, time.Millisecond)
			for w.connect() != nil { // it may be told to say hello again
				time.Sleep(time.Second)
			}
			ref := c.submit(handler(0))[0]
			time.Sleep(time.Minute)
			if s := c.task(ref).State; s != job.Success {
				t.Errorf("with an answer after %v the task is %s a minute later, want success", lag, s)
			}
		})
	}
}

// What apply refused of a loss is looked at again: here an entry is refused whole,
// and then an attempt that had been taken for one that never started.
func TestALossThatIsRefusedIsRepeated(t *testing.T) {
	refused := fsm.Result{Err: job.Errorf(job.CodeNoLeader, "nothing was done")}
	for name, refuse := range map[string]func(c *cluster, cmd fsm.LoseAttempts) (fsm.Result, bool){
		"whole":      func(*cluster, fsm.LoseAttempts) (fsm.Result, bool) { return refused, true },
		"an attempt": startedMeanwhile,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, h := newHooked(t, func(cfg *Config) { cfg.LeaseTTL, cfg.Horizon = time.Second, 8*time.Second })
				tries := 0
				h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
					lose, ok := cmd.(fsm.LoseAttempts)
					if !ok || tries > 0 {
						return false
					}
					tries++
					res, over := refuse(c, lose)
					if over {
						go done(res, nil)
					}
					return over
				})
				w := c.worker("w1", 1, 0)
				w.mustConnect()
				ref := c.submit(handler(6 * time.Second))[0]
				time.Sleep(400 * time.Millisecond)
				w.crash()
				time.Sleep(time.Minute)
				if task := c.task(ref); task.State != job.Pending {
					t.Errorf("the task is %s on %s a minute after its worker is gone, want pending", task.State, task.Worker)
				}
			})
		})
	}
}

func startedMeanwhile(c *cluster, cmd fsm.LoseAttempts) (fsm.Result, bool) {
	for _, ref := range append(cmd.Attempts, cmd.Unstarted...) {
		c.apply(fsm.Started{AttemptRef: ref, At: time.Now().UnixMilli()})
	}
	return fsm.Result{}, false
}
