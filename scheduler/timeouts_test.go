package scheduler

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func limits(spec job.TaskSpec, queue, total time.Duration) job.TaskSpec {
	spec.QueueTimeout, spec.TotalTimeout = new(job.Duration(queue)), new(job.Duration(total))
	return spec
}

func TestADueTaskThatNoWorkerTakesTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		const many = 2*maxTimeOut + 200
		later, free := c.submit(limits(handler(time.Minute), 30*time.Second, 0))[0], c.submit(handler(0))[0]
		var refs []fsm.TaskRef
		for range many {
			refs = append(refs, c.submit(limits(handler(0), 30*time.Second, 0))...)
		}
		time.Sleep(29 * time.Second)
		if s := c.task(refs[0]).State; s != job.Pending {
			t.Errorf("the task is %s before its time", s)
		}
		time.Sleep(3 * time.Second)
		for _, ref := range refs {
			if got := c.task(ref); got.State != job.TimedOut || !strings.Contains(got.Error, "queue_timeout of 30s") {
				t.Errorf("a task is %s with the error %q", got.State, got.Error)
				break
			}
		}
		time.Sleep(57 * time.Second) // it was due 29 s ago
		if s := c.task(later).State; s != job.Pending {
			t.Errorf("the delayed task is %s, but its time begins when it is due", s)
		}
		c.lead() // a new leader finds it in state
		time.Sleep(2100 * time.Millisecond)
		if s := c.task(later).State; s != job.TimedOut {
			t.Errorf("the delayed task is %s", s)
		}
		if s := c.task(free).State; s != job.Pending {
			t.Errorf("the task without time-out is %s", s)
		}
		c.check()
	})
}

func TestATaskThatIsGivenBackAfterItsDeadlineTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(limits(handler(0), 5*time.Second, 0))[0]
		time.Sleep(20 * time.Second) // it runs: the queue is behind it
		if s := c.task(ref).State; s != job.Dispatched {
			t.Fatalf("the task is %s", s)
		}
		c.apply(fsm.DrainWorker{Name: "w1"})
		w.mu.Lock()
		w.refuse(w.starts[0].ref)
		w.mu.Unlock()
		time.Sleep(2100 * time.Millisecond)
		if s := c.task(ref).State; s != job.TimedOut {
			t.Errorf("the task is %s", s)
		}
		c.check()
	})
}

func TestTheTotalTimeoutEndsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 2, 0)
		w.mustConnect()
		retry := &job.Retry{MaxRetries: new(100), Initial: job.Duration(10 * time.Second), Factor: 1}
		spec := limits(handler(0), 0, time.Minute)
		spec.Retry = retry
		ref := c.submit(spec)[0]
		for done := 0; c.task(ref).State != job.TimedOut && done < 100; {
			if seen := w.seen(); len(seen) > done {
				w.finish(seen[done].ref, job.OutcomeFailed)
				done++
			}
			time.Sleep(100 * time.Millisecond)
		}
		got := c.task(ref)
		if took := got.Ended - got.Created; took > 60_000 || took < 35_000 || !strings.Contains(got.Error, "total_timeout of 1m") {
			t.Errorf("ended after %d ms and %d retries: %q", took, got.Retries, got.Error)
		}
		c.check()
	})
}

// The leader asks for the end of an attempt that its worker has let pass both
// time-outs: after the sooner of them, its grace and 1.5 heartbeat intervals.
func TestTheBackstopKnowsBothTimeouts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, c := range map[string]struct{ run, total, want time.Duration }{
			"run": {20 * time.Second, 0, 20 * time.Second}, "total": {0, 30 * time.Second, 30 * time.Second},
			"run first": {20 * time.Second, time.Minute, 20 * time.Second}, "total first": {time.Minute, 20 * time.Second, 20 * time.Second},
		} {
			cl := newCluster(t)
			w := cl.worker("w1", 1, 0)
			w.mustConnect()
			spec := limits(handler(0), 0, c.total)
			spec.Timeout, spec.Grace = new(job.Duration(c.run)), new(job.Duration(2*time.Second))
			cl.submit(spec)
			time.Sleep(100 * time.Millisecond)
			ref := w.seen()[0].ref
			cl.apply(fsm.Started{AttemptRef: ref, At: time.Now().UnixMilli()})
			time.Sleep(c.want + 2*time.Second + backstopMargin - 100*time.Millisecond - time.Second)
			if r := w.killedFor(ref); r != "" {
				t.Errorf("%s: killed early: %s", name, r)
			}
			time.Sleep(2100 * time.Millisecond)
			if r := w.killedFor(ref); r != KillTimeout {
				t.Errorf("%s: killed for %q", name, r)
			}
			w.disconnect()
			cl.stop()
		}
	})
}
