package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// submitTo submits immediate tasks to a namespace, all but the first as the rest.
func (c *cluster) submitTo(namespace string, n int, spec job.TaskSpec) (out []fsm.TaskRef) {
	c.t.Helper()
	for n > 0 {
		specs := make([]job.TaskSpec, min(n, 500))
		for i := range specs {
			specs[i] = spec
		}
		n -= len(specs)
		for _, r := range c.apply(fsm.Submit{Namespace: namespace, Tasks: specs}).Tasks {
			if r.Err != nil {
				c.t.Fatal(r.Err)
			}
			out = append(out, r.Task.Ref())
		}
	}
	return out
}

// begun counts starts by namespace, up to a number of them in all.
func (m *model) begun(first int) map[string]int {
	n := map[string]int{}
	for i, s := range m.started() {
		if i < first {
			n[s.ref.Ref.Namespace]++
		}
	}
	return n
}

func keyed(k string) job.TaskSpec {
	s := handler(0)
	s.FairnessKey = k
	return s
}

// few lets a leader hold few tasks in memory, so that the queue is in the index.
func few(cfg *Config) { cfg.MaxLoaded = 200 }

// A namespace that floods the cluster must not starve another: not one whose tasks
// come later, far behind what is in memory, nor after its own have waited for long.
func TestAFloodingNamespaceStarvesNoOther(t *testing.T) {
	for _, pause := range []time.Duration{10 * time.Millisecond, 5 * time.Second, 70 * time.Second} {
		t.Run(pause.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t, few)
				w := c.worker("w1", 10, 200*time.Millisecond) // 8 slots are for normal priority: 40 tasks/s
				w.mustConnect()
				flood := c.submitTo("flood", 3000, handler(0))
				time.Sleep(pause)
				small := c.submitTo("small", 40, handler(0)) // half the slots would take 2 s
				time.Sleep(4 * time.Second)
				for i, ref := range small {
					if w.startOf(ref) < 0 {
						t.Fatalf("task %d of the other namespace has not started after 4 s", i)
					}
				}
				time.Sleep(90 * time.Second)
				if n := w.begun(1 << 20); n["flood"] != len(flood) || n["small"] != len(small) {
					t.Errorf("started in the end: %v", n)
				}
				c.check()
			})
		})
	}
}

func TestNamespacesTakeTurnsByWeight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, few)
		c.set(job.Settings{Weights: job.Quotas{"heavy": 3}})
		c.submitTo("heavy", 2000, handler(0))
		c.submitTo("light", 2000, handler(0))
		c.submitTo("third", 2000, handler(0))
		w := c.worker("w1", 10, 200*time.Millisecond)
		w.mustConnect()
		time.Sleep(30 * time.Second)
		const first = 1000
		n := w.begun(first)
		for namespace, want := range map[string]int{"heavy": 600, "light": 200, "third": 200} {
			if d := n[namespace] - want; d < -first/20 || d > first/20 {
				t.Errorf("of the first %d starts %d are of %s, want about %d", first, n[namespace], namespace, want)
			}
		}
		c.set(job.Settings{Weights: job.Quotas{"heavy": 0}})
		before := len(w.started())
		time.Sleep(10 * time.Second)
		if all, was := w.begun(1<<20), w.begun(before); all["heavy"]-was["heavy"] > (len(w.started())-before)*2/5 {
			t.Errorf("without its weight: %d of %d starts", all["heavy"]-was["heavy"], len(w.started())-before)
		}
		c.check()
	})
}

// Within a namespace keys take turns, also where there are many and the first fills
// the memory; and a namespace with many keys gets no more than one with none.
func TestFairnessKeysTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, few)
		w := c.worker("w1", 10, 200*time.Millisecond)
		w.mustConnect()
		all := c.submitTo("a", 3000, keyed("big"))
		time.Sleep(time.Second)
		var small []fsm.TaskRef
		for i := range 30 {
			small = append(small, c.submitTo("a", 2, keyed(fmt.Sprint("customer ", i)))...)
		}
		other := c.submitTo("b", 60, handler(0))
		time.Sleep(6 * time.Second) // 240 starts: a quarter each for b and 31 keys of a, and some
		for i, ref := range append(small, other...) {
			if w.startOf(ref) < 0 {
				t.Fatalf("task %d of the others has not started", i)
			}
		}
		time.Sleep(2 * time.Minute)
		if n := w.begun(1 << 20); n["a"] != len(all)+len(small) || n["b"] != len(other) {
			t.Errorf("started in the end: %v", n)
		}
		c.check()
	})
}

// Whose tasks could not run for a while does not hold the others up when they can.
func TestNobodySavesTurnsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, 100*time.Millisecond)
		w.mustConnect()
		spec := handler(0)
		spec.Selector = map[string]string{"disk": "ssd"} // nobody has it yet
		c.submitTo("waits", 500, spec)
		c.submitTo("goes", 4000, handler(0))
		time.Sleep(20 * time.Second)
		w.disconnect()
		before := len(w.started())
		w.labels = map[string]string{"disk": "ssd"}
		w.mustConnect()
		time.Sleep(5 * time.Second)
		n, was := w.begun(1<<20), w.begun(before)
		waits, goes := n["waits"]-was["waits"], n["goes"]-was["goes"]
		if waits == 0 || goes < waits*2/3-2*fairBurst {
			t.Errorf("%d starts of whose tasks had waited, %d of the other's", waits, goes)
		}
	})
}

// Many lanes don't fill the leader's memory.
func TestLanesAreBounded(t *testing.T) {
	f := newFairness(func(string) int { return 1 })
	held := map[*lane]bool{}
	for i := range 5 * maxLanes {
		one := f.of(fmt.Sprint("n", i%3), fmt.Sprint("k", i))
		one.queued++
		held[one] = true
	}
	if len(f.lanes) > maxLanes+3 || len(held) != len(f.lanes) {
		t.Errorf("%d lanes are known, %d in use", len(f.lanes), len(held))
	}
	for one := range held {
		one.queued = 0
	}
	if f.of("n", "k"); len(f.lanes) > 1 || len(f.tenants) > 1 {
		t.Errorf("of unused ones %d are kept", len(f.lanes))
	}
}
