package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
)

// A restored state holds attempts that ran when it was saved. A worker that still
// has one is told to end it; one that doesn't is not sent it again; and once the
// lease has ended each task gets another attempt, with a token above.
func TestAttemptsFromBeforeARestoreAreLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 4, 0)
		w.mustConnect()
		refs := c.submit(handler(0), handler(0))
		time.Sleep(time.Second)
		before := map[fsm.TaskRef]fsm.Task{refs[0]: c.task(refs[0]), refs[1]: c.task(refs[1])}
		started := len(w.seen())
		if started != 2 {
			t.Fatalf("%d tasks started, want 2", started)
		}
		w.disconnect()
		c.stop()
		batch := c.store.Batch()
		if _, err := fsm.Rebase(batch, fsm.Base{How: fsm.FromSnapshot, Now: time.Now().UnixMilli()}); err != nil {
			t.Fatal(err)
		}
		batch.Commit()
		c.machine.Reset()
		held := fsm.AttemptRef{Ref: refs[0], Token: before[refs[0]].Token}
		w.neverGot(fsm.AttemptRef{Ref: refs[1], Token: before[refs[1]].Token})
		c.lead()
		w.mustConnect()
		time.Sleep(5 * time.Second)
		kill := w.killedFor(held)
		if kill != KillStale {
			t.Errorf("the attempt that still runs was ended for %q", kill)
		}
		if n := len(w.seen()) - started; n != 0 {
			t.Errorf("%d attempts were sent again", n)
		}
		time.Sleep(time.Minute)
		for ref, old := range before {
			now := c.task(ref)
			if now.LastToken.Compare(old.LastToken) <= 0 || now.LastToken.Epoch <= old.LastToken.Epoch || now.Attempt < 2 {
				t.Errorf("task %s is at attempt %d with token %v, before it was %v", ref.ID, now.Attempt, now.LastToken, old.LastToken)
			}
		}
		c.check()
	})
}
