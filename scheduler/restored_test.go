package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// A task that waits in a restored state may run at a worker that the restored
// cluster hasn't heard of. It starts once that worker's lease has ended, also under
// the next leader; and then at once.
func TestNothingStartsBesideWhatRanBeforeARestore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.stop()
		c.mu.Lock()
		b := c.store.Batch()
		if _, err := fsm.Rebase(b, fsm.Base{How: fsm.FromSnapshot, Now: time.Now().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		b.Commit()
		c.machine.Reset()
		c.mu.Unlock()
		restored := time.Now()
		c.lead()
		w := c.worker("w1", 4, time.Millisecond)
		w.mustConnect()
		waiting := c.submit(handler(0), handler(3*time.Second))
		time.Sleep(6 * time.Second)
		w.disconnect()
		c.lead()
		w.mustConnect()
		now := c.submitNow(handler(0))
		time.Sleep(5 * time.Second)
		if n := len(w.seen()); n != 0 {
			t.Fatalf("%d tasks started within %s of the restore", n, time.Since(restored))
		}
		if all := c.why(now[0]); all[job.ReasonRestored].Until == 0 {
			t.Errorf("explained by %+v", all)
		}
		time.Sleep(3 * time.Second)
		if n := len(w.seen()); n != len(waiting)+len(now) {
			t.Errorf("%d tasks started, want %d", n, len(waiting)+len(now))
		}
		again := c.submitNow(handler(0))[0]
		time.Sleep(100 * time.Millisecond)
		if s := c.task(again).State; s != job.Success {
			t.Errorf("a task after the pause is %s", s)
		}
	})
}
