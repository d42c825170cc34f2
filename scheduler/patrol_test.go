package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// declare says what the worker holds, as it does every half minute.
func (m *model) declare() {
	m.mu.Lock()
	var held []Held
	for ref, n := range m.held {
		held = append(held, Held{AttemptRef: ref, Attempt: n})
	}
	m.mu.Unlock()
	m.c.sched.Declare(m.name, m.link, held)
	time.Sleep(100 * time.Millisecond)
}

// forget loses what the worker holds, as a bug would.
func (m *model) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ref := range m.held {
		m.past[ref] = true
	}
	clear(m.held)
	m.disarm()
	m.c.ended(m, everyAttempt)
}

func (m *model) setDeaf(deaf bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.deaf = deaf
}

// An armed attempt whose dispatch was lost on a connection that lives would
// never start: nothing else sends it again.
func TestPatrolSendsAgainWhatTheWorkerNeverGot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.Horizon = 9 * time.Second })
		w := c.worker("w1", 1, time.Millisecond)
		w.mustConnect()
		w.setDeaf(true)
		ref := c.submit(handler(8 * time.Second))[0]
		time.Sleep(9 * time.Second) // it is due, and not armed any more to anyone who looks
		w.setDeaf(false)
		w.declare()
		if n := len(w.seen()); n != 0 {
			t.Errorf("it was sent again %d times though its dispatch may have been on its way", n)
		}
		time.Sleep(2 * time.Second)
		w.declare()
		time.Sleep(time.Second)
		if s := c.task(ref); s.State != job.Success || s.Attempt != 1 {
			t.Errorf("the task is %s, attempt %d", s.State, s.Attempt)
		}
		c.check()
	})
}

// An attempt that its worker knows nothing of any more is lost after the second
// time it says so, though its lease goes on; the next one has another token.
func TestPatrolLosesWhatTheWorkerForgot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		first := c.task(ref).Token
		c.apply(fsm.Started{AttemptRef: w.seen()[0].ref, At: time.Now().UnixMilli()})
		time.Sleep(time.Minute)
		w.forget()
		w.declare()
		if s := c.task(ref); s.Token != first {
			t.Error("it was lost after the first time")
		}
		time.Sleep(30 * time.Second)
		w.declare()
		time.Sleep(time.Second)
		if s := c.task(ref); s.State != job.Dispatched || s.Attempt != 2 || s.Token == first || s.Retries != 1 {
			t.Errorf("the task is %s, attempt %d, with token %s", s.State, s.Attempt, s.Token)
		}
		if n := c.sched.Mended(); n != 1 {
			t.Errorf("%d differences were mended, want 1", n)
		}
		c.check()
	})
}

// What a worker holds that is no longer valid is ended; what is valid stays.
func TestPatrolEndsWhatIsNotValid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 2, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		valid := w.seen()[0].ref
		stale := fsm.AttemptRef{Ref: ref, Token: job.Token{Index: 1}}
		w.mu.Lock()
		w.held[stale] = 1
		w.mu.Unlock()
		w.declare()
		if w.killedFor(stale) != KillStale || w.killedFor(valid) != "" {
			t.Errorf("the stale one was ended for %q, the valid one for %q", w.killedFor(stale), w.killedFor(valid))
		}
		if s := c.task(ref); s.Token != valid.Token {
			t.Errorf("the task is %s", s.State)
		}
	})
}

// Where both agree nothing is done, whatever the number.
func TestPatrolLeavesWhatAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.set(job.Settings{HighSlots: new(0)})
		w := c.worker("w1", 100, 0)
		w.mustConnect()
		for range 80 {
			c.submitNow(handler(0))
		}
		for range 20 {
			c.submit(handler(2 * time.Second))
		}
		for range 10 {
			time.Sleep(15 * time.Second)
			w.declare()
		}
		if n := c.sched.Mended(); n != 0 || len(w.started()) != 100 {
			t.Errorf("%d mended, %d starts", n, len(w.started()))
		}
	})
}
