package scheduler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// why asks the loop and returns the reasons by code.
func (c *cluster) why(ref fsm.TaskRef) map[job.ReasonCode]job.Reason {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	e, err := c.sched.Explain(ctx, ref)
	if err != nil {
		c.t.Fatal(err)
	}
	if t := c.task(ref); e.Version != t.Version {
		c.t.Errorf("the explanation is of version %d, the task of %d", e.Version, t.Version)
	}
	out := map[job.ReasonCode]job.Reason{}
	for _, r := range e.Reasons {
		if _, twice := out[r.Code]; twice || r.Text == "" || r.Next == "" {
			c.t.Errorf("reason %+v is incomplete, or there twice", r)
		}
		out[r.Code] = r
	}
	return out
}

// only wants one reason and returns it.
func (c *cluster) only(ref fsm.TaskRef, code job.ReasonCode) job.Reason {
	c.t.Helper()
	all := c.why(ref)
	r, ok := all[code]
	if !ok || len(all) != 1 {
		c.t.Fatalf("reasons %+v, want %s alone", all, code)
	}
	return r
}

func TestExplainWhichWorkersDontMatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		picky := handler(0)
		picky.Selector = map[string]string{"gpu": "yes", "zone": "a"}
		ref := c.submit(picky)[0]
		time.Sleep(time.Second)
		c.only(ref, job.ReasonNoWorker)

		for name, labels := range map[string]map[string]string{"w1": nil, "w2": {"gpu": "yes"}, "w3": {"gpu": "no", "zone": "a"}} {
			w := c.worker(name, 1, 0)
			w.labels = labels
			w.mustConnect()
		}
		r := c.only(ref, job.ReasonNoMatch)
		if r.Workers != 3 || len(r.Unmet) != 2 || r.Unmet[0] != (job.Unmet{Constraint: "label gpu=yes", Workers: 2}) ||
			r.Unmet[1] != (job.Unmet{Constraint: "label zone=a", Workers: 2}) {
			t.Errorf("unmet %+v of %d workers", r.Unmet, r.Workers)
		}
		unknown := c.submit(job.TaskSpec{Executor: job.Executor{Handler: "unknown"}})[0]
		time.Sleep(time.Second)
		if r := c.only(unknown, job.ReasonNoMatch); len(r.Unmet) != 1 || r.Unmet[0] != (job.Unmet{Constraint: "offer handler:unknown", Workers: 3}) {
			t.Errorf("unmet %+v", r.Unmet)
		}
		later := picky
		later.Delay = job.Duration(time.Hour)
		c.only(c.submit(later)[0], job.ReasonNoMatch) // what is not due is told before its time too

		gpu := c.worker("w4", 1, 0)
		gpu.labels = map[string]string{"gpu": "yes", "zone": "a"}
		gpu.mustConnect()
		time.Sleep(time.Second)
		c.only(ref, job.ReasonNotStarted)
	})
}

func TestExplainWorkersThatAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		for _, name := range []string{"w1", "w2", "w3"} {
			c.worker(name, 1, 0).mustConnect()
		}
		gone := c.worker("w4", 1, 0)
		gone.mustConnect()
		gone.disconnect()
		time.Sleep(time.Minute)
		for _, name := range []string{"w1", "w2", "w3"} {
			c.apply(fsm.DrainWorker{Name: name})
		}
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		r := c.only(ref, job.ReasonWorkersAway)
		if r.Workers != 4 || !strings.Contains(r.Text, "w1 drains") || !strings.Contains(r.Text, "and 1 more") {
			t.Errorf("%+v", r)
		}
		c.apply(fsm.DrainWorker{Name: "w1", Resume: true})
		time.Sleep(time.Second)
		c.only(ref, job.ReasonNotStarted)
	})
}

func TestExplainFullSlotsAndWhatComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.worker("w1", 2, 0).mustConnect()
		c.submit(handler(0), handler(0)) // fill it for ever
		time.Sleep(time.Second)
		urgent, low := handler(0), handler(0)
		urgent.Priority, low.Priority = job.High, job.Low
		before := c.submit(urgent, handler(0), handler(0))
		time.Sleep(time.Second)
		ref := c.submit(handler(0))[0]
		last := c.submit(low)[0]
		c.submit(job.TaskSpec{Executor: job.Executor{Handler: "unknown"}, Policy: job.Policy{Priority: job.High}}) // wants no such slot
		time.Sleep(time.Second)
		for ref, ahead := range map[fsm.TaskRef]int{before[0]: 0, before[1]: 1, before[2]: 2, ref: 3, last: 4} {
			r := c.only(ref, job.ReasonNoSlot)
			if r.Slots != 2 || r.Workers != 1 || r.Ahead != ahead || r.AtLeast {
				t.Errorf("%+v, want %d tasks before it", r, ahead)
			}
		}
	})
}

// Of tasks that were never loaded only those before them that are known are counted.
func TestExplainBeyondTheLoadedTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.MaxLoaded = 50 })
		c.worker("w1", 1, 0).mustConnect()
		var last fsm.TaskRef
		for range 200 {
			last = c.submit(handler(0))[0]
		}
		time.Sleep(time.Second)
		if r := c.only(last, job.ReasonNoSlot); !r.AtLeast || r.Ahead == 0 || r.Ahead > 60 {
			t.Errorf("%+v", r)
		}
	})
}

func TestExplainAnArmedTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.worker("w1", 1, time.Millisecond).mustConnect()
		ref := c.submit(handler(2 * time.Second))[0]
		time.Sleep(time.Second)
		if r := c.only(ref, job.ReasonArmed); r.Worker != "w1" || r.Until != c.task(ref).Due {
			t.Errorf("%+v", r)
		}
	})
}

// A retry that is armed still tells what went wrong before it.
func TestExplainAnArmedRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, time.Millisecond)
		w.fails = true
		w.mustConnect()
		ref := c.submitNow(handler(0))[0]
		time.Sleep(time.Second)
		if r := c.only(ref, job.ReasonArmed); !strings.Contains(r.Text, "retry 1 of 5; before: "+c.task(ref).Error) {
			t.Errorf("%+v", r)
		}
	})
}

// A worker that is out of reach keeps its task until its lease has ended, and not
// a moment longer than the explanation says.
func TestExplainTheLeaseOfASuspectWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.disconnect()
		time.Sleep(time.Second)
		r := c.only(ref, job.ReasonWorkerSuspect)
		until := time.Duration(r.Until-time.Now().UnixMilli()) * time.Millisecond
		if r.Worker != "w1" || until < 9*time.Second || until > 12*time.Second {
			t.Errorf("%+v: in %s", r, until)
		}
		time.Sleep(until - time.Second)
		if s := c.task(ref); s.State != job.Dispatched || s.Attempt != 1 {
			t.Errorf("before that moment it is %s, attempt %d", s.State, s.Attempt)
		}
		time.Sleep(3 * time.Second)
		if s := c.task(ref); s.State != job.Pending || s.Retries != 1 {
			t.Errorf("after that moment it is %s", s.State)
		}
		c.only(ref, job.ReasonWorkersAway)
	})
}

// Two settings change when the next attempt may start, and the explanation with it.
func TestExplainASuspectWorkersOtherMoments(t *testing.T) {
	timeout := job.Duration(time.Minute)
	for name, row := range map[string]struct {
		policy job.Policy
		within [2]time.Duration // from the moment that its worker went silent
	}{
		"continue":   {job.Policy{Timeout: &timeout, OnDisconnect: job.DisconnectContinue}, [2]time.Duration{78 * time.Second, 102 * time.Second}},
		"idempotent": {job.Policy{Idempotent: new(true)}, [2]time.Duration{time.Second, 3 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 1, 0)
				w.mustConnect()
				spec := handler(0)
				spec.Policy = row.policy
				ref := c.submit(spec)[0]
				time.Sleep(time.Second)
				silent := time.Now()
				w.disconnect()
				time.Sleep(500 * time.Millisecond)
				r := c.only(ref, job.ReasonWorkerSuspect)
				until := time.UnixMilli(r.Until)
				if d := until.Sub(silent); d < row.within[0] || d > row.within[1] || !strings.Contains(r.Text, name) {
					t.Errorf("%+v: in %s", r, d)
				}
				time.Sleep(time.Until(until) - 500*time.Millisecond)
				if s := c.task(ref); s.State != job.Dispatched || s.Attempt != 1 {
					t.Errorf("before that moment it is %s, attempt %d", s.State, s.Attempt)
				}
				time.Sleep(2 * time.Second)
				if s := c.task(ref); s.State != job.Pending || s.Retries != 1 {
					t.Errorf("after that moment it is %s", s.State)
				}
			})
		})
	}
}

func TestExplainAResultThatIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.declareFinished(w.seen()[0].ref)
		r, ok := c.why(ref)[job.ReasonUnacknowledged]
		if !ok || r.Worker != "w1" || r.Since == 0 || r.Since > time.Now().UnixMilli() {
			t.Errorf("%+v", c.why(ref))
		}
	})
}

// declareFinished connects anew and says that an attempt has ended.
func (m *model) declareFinished(ref fsm.AttemptRef) {
	m.c.t.Helper()
	m.disconnect()
	synctest.Wait()
	m.mu.Lock()
	gone := make(chan struct{})
	m.gone = gone
	m.mu.Unlock()
	h := Hello{
		Worker: fsm.RegisterWorker{Name: m.name, Boot: m.boot, Address: "here:1", Slots: m.slots, Labels: m.labels},
		Offers: []string{"handler:work"}, Held: []Held{{AttemptRef: ref, Attempt: 1, Finished: true}},
	}
	if _, err := m.c.sched.Attach(context.Background(), &link{m: m, gone: gone, sent: time.Now()}, h); err != nil {
		m.c.t.Fatal(err)
	}
}

func TestExplainNothingWithoutATerm(t *testing.T) {
	s := New(Config{})
	if _, err := s.Explain(context.Background(), fsm.TaskRef{}); job.AsError(err).Code != job.CodeNoLeader {
		t.Errorf("error %v, want no_leader", err)
	}
}

// What is free is no use to a task that may not have it, and the reason says so.
func TestExplainWhatPriorityHoldsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.worker("w1", 10, 0).mustConnect()
		for range 8 {
			c.submit(handler(0)) // for ever
		}
		normal := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		c.only(normal, job.ReasonSlotsReserved)
		c.set(job.Settings{SuspendLow: new(true)})
		c.submit(of(job.High, 0), of(job.High, 0))
		low := c.submit(of(job.Low, 0))[0]
		time.Sleep(15 * time.Second)
		if all := c.why(low); all[job.ReasonLowSuspended].Since == 0 || all[job.ReasonNoSlot].Ahead != 1 || len(all) != 2 {
			t.Errorf("%+v", all)
		}
		w := c.worker("w2", 1, 0)
		w.priorities = []job.Priority{job.High}
		w.mustConnect()
		m := job.Unmet{Constraint: "priority normal", Workers: 1}
		c.apply(fsm.DrainWorker{Name: "w1"})
		time.Sleep(time.Second)
		if all := c.why(normal); len(all) != 2 || all[job.ReasonNoMatch].Unmet[0] != m || all[job.ReasonWorkersAway].Worker != "w1" {
			t.Errorf("%+v", all)
		}
	})
}

func TestExplainBreakers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("a", 4, 10*time.Millisecond)
		w.fails = true
		w.mustConnect()
		down := job.TaskSpec{Executor: job.Executor{HTTP: &job.HTTP{URL: "http://down.example/x"}}}
		c.stream(down, job.BreakerFailures, 20*time.Millisecond)
		waits := c.submit(down)[0]
		time.Sleep(time.Second)
		r := c.only(waits, job.ReasonBreakerOpen)
		if in := r.Until - time.Now().UnixMilli(); in < 20_000 || in > 30_000 || !strings.Contains(r.Text, "http://down.example") {
			t.Errorf("%+v: in %d ms", r, in)
		}
	})
}

// Where a breaker keeps a task from one worker, the slots of the others count.
func TestExplainABreakerOfAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.put("mail")
		bad, good := c.worker("a", 4, 10*time.Millisecond), c.worker("b", 1, 0)
		bad.fails = true
		bad.mustConnect()
		c.stream(job.TaskSpec{Job: "mail"}, job.BreakerFailures, 100*time.Millisecond)
		good.mustConnect()
		c.stream(job.TaskSpec{Job: "mail"}, 2, time.Second) // the first fills it
		waits := c.submit(job.TaskSpec{Job: "mail"})[0]
		time.Sleep(time.Second)
		all := c.why(waits)
		if r := all[job.ReasonBreakerOpen]; !strings.Contains(r.Text, "1 of 2 workers that match (a)") || r.Until == 0 {
			t.Errorf("%+v", all)
		}
		if r := all[job.ReasonNoSlot]; r.Slots != 1 || len(all) != 2 {
			t.Errorf("%+v", all)
		}
	})
}

// An explanation holds the loop up: among as many tasks as are ever in memory it
// must not be felt.
func BenchmarkExplain(b *testing.B) {
	l := &loop{Scheduler: New(Config{}), known: map[string]*needs{}, queues: newReadyQueues(newFairness(func(string) int { return 1 }), false), due: newDueWindow(0, 60_000, 3000)}
	w := &workerState{name: "w1", slots: 4, offers: map[string]bool{"exec": true}, room: -1}
	for i := range 60_000 {
		it := &item{ref: fsm.TaskRef{ID: job.NewID(int64(i), 1, uint32(i))}, priority: job.Normal, due: int64(i)}
		l.due.hold(it)
		l.queues.push(it, shape{offer: "exec"})
	}
	q := &asked{task: &fsm.Task{State: job.Pending, Due: 100_000, ID: job.ID{255}}, now: 120_000}
	q.task.Policy.Priority = job.Normal
	for b.Loop() {
		if n, more := l.ahead(q, []*workerState{w}); n != maxAhead || !more {
			b.Fatal(n, more)
		}
	}
}

func TestExplainLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.worker("w1", 20, 0).mustConnect()
		holders := c.submit(limited("a", 2), limited("a", 2))
		time.Sleep(time.Second)
		held := c.submit(limited("a", 2))[0]
		slow := handler(0)
		slow.Rate = &job.Rate{Max: 1, Per: job.Duration(time.Minute), Name: "slow"}
		rated := c.submit(slow, slow)
		time.Sleep(time.Second)
		if r := c.only(held, job.ReasonLimitHeld); !strings.Contains(r.Text, `key "a" lets 2 run at a time; held by 2 attempts (task `) ||
			!strings.Contains(r.Text, holders[0].ID.String()) || !strings.Contains(r.Text, holders[1].ID.String()) {
			t.Errorf("%+v", r)
		}
		if r := c.only(rated[1], job.ReasonRateLimited); r.Until-time.Now().UnixMilli() < 58_000 || r.Until-time.Now().UnixMilli() > 60_000 {
			t.Errorf("%+v", r)
		}
	})
}
