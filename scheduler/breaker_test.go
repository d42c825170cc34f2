package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func (m *model) outcome() job.Outcome {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails {
		return job.OutcomeFailed
	}
	return job.OutcomeSuccess
}

func (m *model) setFails(fails bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = fails
}

func (m *model) attempts() int { return len(m.started()) }

func (c *cluster) put(name string) {
	c.t.Helper()
	res := c.apply(fsm.PutJob{Namespace: job.DefaultNamespace, Name: name, Spec: job.Spec{Executor: job.Executor{Handler: "work"}}})
	if res.Err != nil {
		c.t.Fatal(res.Err)
	}
}

func (c *cluster) breakers() []fsm.Breaker {
	r, release := c.Read()
	defer release()
	return fsm.ListBreakers(r)
}

// stream submits a task every so often.
func (c *cluster) stream(spec job.TaskSpec, n int, every time.Duration) (refs []fsm.TaskRef) {
	for range n {
		refs = append(refs, c.submitNow(spec)...)
		time.Sleep(every)
	}
	return refs
}

func (c *cluster) succeeded(refs []fsm.TaskRef) (retries int) {
	c.t.Helper()
	for _, ref := range refs {
		got := c.task(ref)
		retries += got.Retries
		if got.State != job.Success {
			c.t.Errorf("task %s is %s", ref.ID, got.State)
		}
	}
	return retries
}

// TestBreakerOfAWorkerAndAJob: after five failures in a row the job's tasks go to
// the other worker, spending no further retry; one probe goes through when the
// breaker is half open; a success closes it. Other jobs stay where they are.
func TestBreakerOfAWorkerAndAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.put("mail")
		bad, good := c.worker("a", 4, 10*time.Millisecond), c.worker("b", 4, 10*time.Millisecond)
		bad.fails = true
		bad.mustConnect()
		good.mustConnect()
		mail := job.TaskSpec{Job: "mail"}
		refs := c.stream(mail, 100, 100*time.Millisecond)
		opened := bad.attempts()
		if opened != job.BreakerFailures {
			t.Errorf("%d attempts went to the failing worker, want %d", opened, job.BreakerFailures)
		}
		refs = append(refs, c.stream(mail, 10, time.Second)...)
		c.lead() // the breaker is state
		bad.disconnect()
		good.disconnect()
		bad.mustConnect()
		good.mustConnect()
		refs = append(refs, c.stream(mail, 5, time.Second)...)
		if n := bad.attempts(); n != opened {
			t.Errorf("%d attempts went through the open breaker", n-opened)
		}
		refs = append(refs, c.stream(mail, 40, time.Second)...) // 65 s since it began
		if n := bad.attempts(); n != opened+1 {
			t.Errorf("%d attempts went through the half-open breaker, want 1", n-opened)
		}
		bad.setFails(false)
		refs = append(refs, c.stream(mail, 60, time.Second)...)
		if n := bad.attempts(); n < opened+10 || len(c.breakers()) != 0 {
			t.Errorf("%d attempts since; the breakers are %+v, want none", n-opened-1, c.breakers())
		}
		time.Sleep(time.Minute)
		if retries := c.succeeded(refs); retries != opened+1 {
			t.Errorf("%d retries were spent, want one for each failure, %d", retries, opened+1)
		}
		c.check()
	})
}

// TestBreakerOfAWorker: failures of several jobs open it for all, whose tasks go
// elsewhere; where there is no other worker they go there all the same.
func TestBreakerOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		bad, good := c.worker("a", 4, 10*time.Millisecond), c.worker("b", 4, 10*time.Millisecond)
		bad.fails = true
		bad.mustConnect()
		good.mustConnect()
		c.stream(handler(0), 200, 100*time.Millisecond)
		if n := bad.attempts(); n != job.BreakerFailures {
			t.Errorf("%d attempts went to the failing worker, want %d", n, job.BreakerFailures)
		}
		good.disconnect()
		time.Sleep(15 * time.Second) // its lease has ended
		before := bad.attempts()
		c.stream(handler(0), 5, 100*time.Millisecond)
		if n := bad.attempts() - before; n == 0 {
			t.Error("nothing goes to the only worker that is left")
		}
		c.check()
	})
}

// TestBreakerOfATarget: while an HTTP target is down its tasks wait and spend no
// retries, whatever their number, and the others go on.
func TestBreakerOfATarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("a", 4, 10*time.Millisecond)
		w.fails = true
		w.mustConnect()
		down := job.TaskSpec{Executor: job.Executor{HTTP: &job.HTTP{URL: "http://down.example/x"}}}
		refs := c.stream(down, job.BreakerFailures, 20*time.Millisecond)
		w.setFails(false)
		opened := w.attempts()
		for range 5 * maxUnfit {
			refs = append(refs, c.submit(down)...)
		}
		other := c.stream(handler(0), 10, 20*time.Millisecond)
		time.Sleep(28 * time.Second)
		if n := w.attempts() - opened - len(other); n != 0 {
			t.Errorf("%d requests went to the target that is down", n)
		}
		c.succeeded(other)
		time.Sleep(time.Minute)
		if retries := c.succeeded(refs); retries != job.BreakerFailures {
			t.Errorf("%d retries were spent, want %d", retries, job.BreakerFailures)
		}
		c.check()
	})
}
