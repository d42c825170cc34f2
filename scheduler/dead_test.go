package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The leader goes on with an act on dead letters, and so does the next one; what
// is replayed runs.
func TestActsOnDeadLettersComeToTheirEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		spec := handler(0)
		spec.QueueTimeout = new(job.Duration(5 * time.Minute))
		for range 350 {
			c.submit(spec)
		}
		dead := func() int64 {
			r, release := c.Read()
			defer release()
			return fsm.CountDead(r, "", "")
		}
		time.Sleep(6 * time.Minute) // no worker
		if n := dead(); n != 350 {
			t.Fatalf("%d dead letters, want 350", n)
		}
		if r := c.apply(fsm.DeadLetters{Namespace: "default", Replay: true}); !r.More {
			t.Fatalf("the act does not go on: %+v", r)
		}
		c.lead() // another leader
		w := c.worker("w1", 1000, time.Millisecond)
		w.mustConnect()
		time.Sleep(10 * time.Minute)
		r, release := c.Read()
		defer release()
		if n := fsm.CountTasks(r, "default")[job.Success]; n != 350 || fsm.CountDead(r, "", "") != 0 || len(fsm.ListDeadActs(r)) != 0 {
			t.Errorf("%d tasks succeeded, %d are dead letters, %d acts go on", n, fsm.CountDead(r, "", ""), len(fsm.ListDeadActs(r)))
		}
		c.check()
	})
}
