package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestAnImmediateTaskIsAssignedByItsSubmit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, b := c.worker("a", 2, 0), c.worker("b", 2, 0)
		a.mustConnect()
		b.mustConnect()
		time.Sleep(10 * time.Millisecond)
		spec := job.Spec{Executor: job.Executor{Handler: "work"}}
		if res := c.apply(fsm.PutJob{Namespace: "default", Name: "report", Spec: spec}); res.Err != nil {
			t.Fatal(res.Err)
		}
		before, began := c.index, time.Now()
		var refs []fsm.TaskRef
		for _, spec := range []job.TaskSpec{handler(0), handler(0), {Job: "report"}, {Job: "report"}, handler(0)} {
			refs = append(refs, c.submitNow(spec)...)
			synctest.Wait()
		}
		if n := c.index - before; n != 5 {
			t.Errorf("5 submits took %d entries", n)
		}
		for _, w := range []*model{a, b} {
			for _, s := range w.started() {
				if s.at != began {
					t.Errorf("an attempt was sent %s after the submit", s.at.Sub(began))
				}
			}
			if n := len(w.started()); n != 2 {
				t.Errorf("worker %s started %d attempts, want its two slots filled", w.name, n)
			}
		}
		if s := c.task(refs[4]).State; s != job.Pending {
			t.Errorf("the task without a slot is %s, want pending", s)
		}
		c.check()
	})
}

func TestABatchGetsTheFreeSlotsAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 4, 10*time.Millisecond)
		w.mustConnect()
		time.Sleep(10 * time.Millisecond)
		specs := make([]job.TaskSpec, 10)
		for i := range specs {
			specs[i] = handler(0)
		}
		refs := c.submitNow(specs...)
		n := 0
		for _, ref := range refs {
			if c.task(ref).State == job.Dispatched {
				n++
			}
		}
		if n != 4 {
			t.Errorf("%d tasks were assigned at once, want 4", n)
		}
		time.Sleep(time.Second)
		onTime(t, refs, time.Second, w)
		if w.refused() != 0 {
			t.Errorf("%d attempts found no slot", w.refused())
		}
		c.check()
	})
}

// A submit must not pass due tasks that wait for the same workers and are as urgent.
func TestASubmitPassesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 2, 0)
		w.mustConnect()
		c.submit(handler(0), handler(0), handler(0)) // one waits
		time.Sleep(time.Second)
		c.sched.inbox.put(func(l *loop) { // the moment between a slot's end and the next assign
			l.workers["w1"].slots = 3
			l.assigning = maxAssigning
			for p, may := range map[job.Priority]bool{job.High: true, job.Normal: false, job.Low: false} {
				spec := handler(0)
				spec.Policy.Priority = p
				if got := l.place(wanted(spec)); (got != nil) != may {
					t.Errorf("a task of priority %s is placed: %v, want %v", p, got != nil, may)
				}
			}
			other := l.place([]Wanted{{Offer: "exec", Tasks: []int{0}}})
			if other != nil {
				t.Error("a third slot was promised twice")
			}
			l.assigning = 0
		})
		time.Sleep(time.Second)
	})
}

// Whatever becomes of a placed submit, its slots come free again, and a task that
// was not assigned by it is assigned as any other.
func TestPlacementsThatComeToNothing(t *testing.T) {
	for name, between := range map[string]func(c *cluster){
		"worker drained":  func(c *cluster) { c.apply(fsm.DrainWorker{Name: "w1"}) },
		"leadership lost": func(c *cluster) { c.lead() },
		"deduplicated": func(c *cluster) {
			spec := handler(0)
			spec.IdempotencyKey = "k"
			c.submit(spec, spec)
		},
		"loop rebuilt": func(c *cluster) {
			c.sched.Reset()
			time.Sleep(time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 2, 10*time.Millisecond)
				w.mustConnect()
				time.Sleep(time.Second)
				spec := handler(0)
				spec.IdempotencyKey = "k"
				p := c.sched.Place(wanted(spec, spec))
				if p == nil {
					t.Fatal("nothing was placed at a worker with free slots")
				}
				between(c)
				refs := c.commitPlaced(p, spec, spec)
				w.disconnect() // of the earlier term, or draining
				c.apply(fsm.DrainWorker{Name: "w1", Resume: true})
				w.mustConnect()
				time.Sleep(15 * time.Second)
				if refs[0] != refs[1] {
					t.Error("one key gave two tasks")
				}
				if got := c.task(refs[0]); got.State != job.Success || got.Attempt != 1 {
					t.Errorf("the task is %s at attempt %d, want success", got.State, got.Attempt)
				}
				before := len(w.started())
				w.mu.Lock()
				w.takes = 0
				w.mu.Unlock()
				c.submit(handler(0), handler(0), handler(0))
				time.Sleep(time.Second)
				if n := len(w.started()) - before; n != 2 {
					t.Errorf("%d attempts were sent to two free slots", n)
				}
				c.check()
			})
		})
	}
}

// A submit whose outcome is unknown gives up its slots; when it commits after all,
// the attempt holds one.
func TestAPlacedSubmitThatCommitsLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		time.Sleep(time.Second)
		p := c.sched.Place(wanted(handler(0)))
		c.sched.Release(p)
		time.Sleep(time.Second)
		b, err := fsm.EncodeCommand(fsm.Submit{Namespace: job.DefaultNamespace, Tasks: []job.TaskSpec{handler(0)}})
		if err != nil {
			t.Fatal(err)
		}
		c.apply(p.Command(b))
		c.submit(handler(0))
		time.Sleep(time.Second)
		if n := len(w.started()); n != 1 {
			t.Errorf("%d attempts were sent to one slot", n)
		}
		c.check()
	})
}

func TestNothingIsPlacedWithoutALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		time.Sleep(time.Second)
		for _, w := range [][]Wanted{
			wanted(job.TaskSpec{Job: "unknown"}), {{Offer: "handler:other", Tasks: []int{0}}}, {{Offer: "exec", Tasks: []int{-1, job.MaxBatch}}},
		} {
			if c.sched.Place(w) != nil {
				t.Errorf("%+v was placed", w)
			}
		}
		c.kill()
		if c.sched.Place(wanted(handler(0))) != nil {
			t.Error("placed without a leader")
		}
	})
}
