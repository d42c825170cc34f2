package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
)

// TestK3_03_DelayLongerThanTheLease: a task due in two and a half hours, with four
// workers and leases of 10 s, starts once, when it is due; one that runs for 90
// minutes keeps its lease by heartbeats; and when its worker dies, one more attempt
// follows, the second.
func TestK3_03_DelayLongerThanTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var workers []*model
		for _, name := range []string{"w1", "w2", "w3", "w4"} {
			w := c.worker(name, 2, 90*time.Minute)
			w.mustConnect()
			workers = append(workers, w)
		}
		ref := c.submit(handler(150 * time.Minute))[0]
		time.Sleep(150*time.Minute + time.Second)
		onTime(t, []fsm.TaskRef{ref}, 50*time.Millisecond, workers...)
		time.Sleep(80 * time.Minute)
		onTime(t, []fsm.TaskRef{ref}, 50*time.Millisecond, workers...)
		if task := c.task(ref); task.Attempt != 1 || !task.State.Active() {
			t.Errorf("%v at attempt %d, want the first one to go on", task.State, task.Attempt)
		}
		for _, w := range workers {
			if len(w.started()) > 0 {
				w.crash()
			}
		}
		time.Sleep(30 * time.Second)
		attempts := map[fsm.AttemptRef]bool{}
		for _, w := range workers {
			for _, s := range w.started() {
				attempts[s.ref] = true
			}
		}
		if task := c.task(ref); task.Attempt != 2 || len(attempts) != 2 {
			t.Errorf("attempt %d after %d were started, want 2 and 2", task.Attempt, len(attempts))
		}
		c.check()
	})
}
