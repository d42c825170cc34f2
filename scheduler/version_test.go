package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// A dispatch that is sent again carries the definition that the attempt was
// assigned with, though the job has changed meanwhile.
func TestAnAttemptRunsTheVersionItWasAssignedWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		put := func(timeout job.Duration) {
			spec := job.Spec{Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Timeout: &timeout}}
			if res := c.apply(fsm.PutJob{Namespace: "default", Name: "report", Spec: spec}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		first, second := job.Duration(time.Hour), job.Duration(time.Minute)
		put(first)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		c.submit(job.TaskSpec{Job: "report"})
		time.Sleep(time.Second)
		sent := w.seen()
		if len(sent) != 1 {
			t.Fatalf("%d attempts were sent, want 1", len(sent))
		}
		w.disconnect()
		w.neverGot(sent[0].ref)
		put(second)
		w.mustConnect()
		time.Sleep(time.Second)
		for _, s := range w.seen() {
			if s.version != 1 || s.timeout != first {
				t.Errorf("attempt %s was sent with version %d and time-out %s, want those of its assign, 1 and %s",
					s.ref.Token, s.version, s.timeout, first)
			}
		}
		if n := len(w.seen()); n != 2 {
			t.Errorf("the attempt was sent %d times, want again after the reconnect", n)
		}
	})
}
