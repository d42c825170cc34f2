package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// What still runs at the deadline of a drain goes elsewhere, and spends no retry;
// a new leader keeps the deadline; what ends before is left alone.
func TestTheDeadlineOfADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 8, 0)
		w.mustConnect()
		refs := c.submit(handler(0), handler(0))
		time.Sleep(time.Second)
		other := c.worker("w2", 8, 0)
		other.mustConnect()
		began := time.Now()
		if res := c.apply(fsm.DrainWorker{Name: "w1", Deadline: job.Duration(time.Minute)}); res.Err != nil {
			t.Fatal(res.Err)
		}
		time.Sleep(20 * time.Second)
		w.finish(w.seen()[0].ref, job.OutcomeSuccess)
		w.disconnect()
		c.lead()
		w.mustConnect()
		other.disconnect()
		other.mustConnect()
		time.Sleep(time.Until(began.Add(59 * time.Second)))
		if n := len(other.seen()); n != 0 {
			t.Fatalf("before the deadline the other worker was sent %d attempts", n)
		}
		time.Sleep(2 * time.Second)
		seen := other.seen()
		if len(seen) != 1 || seen[0].ref.Ref != w.seen()[1].ref.Ref {
			t.Fatalf("after the deadline the other worker was sent %+v", seen)
		}
		for _, ref := range refs {
			if task := c.task(ref); task.Retries != 0 || task.State == job.Failed {
				t.Errorf("a task is %v after %d retries", task.State, task.Retries)
			}
		}
		c.check()
	})
}

// A worker that was drained with a deadline, and is resumed, keeps what it runs.
func TestAResumedWorkerKeepsWhatItRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 8, 0)
		w.mustConnect()
		c.submit(handler(0))
		time.Sleep(time.Second)
		c.apply(fsm.DrainWorker{Name: "w1", Deadline: job.Duration(time.Minute)})
		time.Sleep(30 * time.Second)
		c.apply(fsm.DrainWorker{Name: "w1", Resume: true})
		time.Sleep(time.Minute)
		if reason := w.killedFor(w.seen()[0].ref); reason != "" {
			t.Errorf("it was ended: %s", reason)
		}
	})
}

// drop ends an attempt: whether it was held, and had started.
func (m *model) drop(ref fsm.AttemptRef) (held, started bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, held = m.held[ref]
	delete(m.held, ref)
	m.past[ref] = m.past[ref] || held
	m.c.ended(m, attemptOf(ref))
	t := m.armed[ref]
	if t != nil {
		t.Stop()
		delete(m.armed, ref)
	}
	return held, t == nil
}

// drain ends what runs and gives it back.
func (m *model) drain(ref fsm.AttemptRef) {
	if held, _ := m.drop(ref); held {
		m.giveBack(ref, "the worker drains")
	}
}

// cancel ends an attempt, and says so as late as a commit takes.
func (m *model) cancel(ref fsm.AttemptRef) {
	if held, started := m.drop(ref); held {
		time.Sleep(commitDelay)
		m.tell(ref, job.OutcomeCancelled, started)
	}
}

// killed ends an attempt as its worker would.
func (m *model) killed(ref fsm.AttemptRef, reason KillReason) {
	switch reason {
	case KillCancelled:
		go m.cancel(ref)
	case KillDrained:
		go m.drain(ref)
	case KillStale:
		m.c.ended(m, attemptOf(ref))
	}
}
