package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// limited is a task under a shared concurrency limit, or a rate.
func limited(key string, most int) job.TaskSpec {
	s := handler(0)
	s.Concurrency = &job.Concurrency{Max: most, Key: "k", Name: "api"}
	s.Payload = fmt.Appendf(nil, "{%q:%q}", "k", key)
	return s
}

// together is the most attempts that ran at once at the workers, each taking so long.
func together(takes time.Duration, starts []start) (most int) {
	for _, s := range starts {
		n := 0
		for _, other := range starts {
			if !other.at.After(s.at) && s.at.Before(other.at.Add(takes)) {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

func startsOf(starts []start, refs []fsm.TaskRef) []start {
	return slices.DeleteFunc(slices.Clone(starts), func(s start) bool { return !slices.Contains(refs, s.ref.Ref) })
}

// Each key has its bound; what one key blocks holds up no other task, and the slots
// that are free are used. A delayed task under a limit is not armed: it would hold
// its limit before it begins.
func TestConcurrencyPerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		const takes = time.Second
		w := c.worker("w1", 20, takes)
		w.mustConnect()
		var a, b, late []job.TaskSpec
		for range 10 {
			a, b = append(a, limited("a", 2)), append(b, limited("b", 3))
			later := limited("c", 1)
			later.Delay = job.Duration(2 * time.Second)
			late = append(late, later)
		}
		refsA, refsB, refsC := c.submitNow(a...), c.submitNow(b...), c.submit(late...)
		free := c.submitNow(handler(0), handler(0))
		time.Sleep(1500 * time.Millisecond)
		if n := w.armedNow(); n != 0 {
			t.Errorf("%d armed under a limit", n)
		}
		time.Sleep(12 * time.Second)
		c.check()
		starts := w.started()
		for _, tt := range []struct {
			refs []fsm.TaskRef
			most int
			ends time.Duration
		}{{refsA, 2, 5*takes + 100*time.Millisecond}, {refsB, 3, 4*takes + 100*time.Millisecond}, {refsC, 1, 12*takes + 200*time.Millisecond}, {free, 2, takes + 50*time.Millisecond}} {
			got := startsOf(starts, tt.refs)
			if len(got) != len(tt.refs) {
				t.Fatalf("%d of %d started", len(got), len(tt.refs))
			}
			if n := together(takes, got); n != tt.most {
				t.Errorf("%d at once, want %d", n, tt.most)
			}
			for _, s := range got {
				if d := s.at.Add(takes).Sub(c.start); d > tt.ends {
					t.Errorf("one ended after %v, want %v", d, tt.ends)
				}
			}
		}
		if c.refused > 0 {
			t.Errorf("%d assigns were refused", c.refused)
		}
	})
}

// A backlog of one key that is larger than the loop's memory holds up neither
// another key's tasks nor those without limit, of the same priority, that come later;
// and all of it is run in the end.
func TestBlockedBacklogBeyondMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.MaxLoaded = 1200 })
		w := c.worker("w1", 50, 20*time.Millisecond)
		w.mustConnect()
		var hot []fsm.TaskRef
		for range 10 {
			specs := make([]job.TaskSpec, 300)
			for i := range specs {
				specs[i] = limited("hot", 5)
			}
			hot = append(hot, c.submit(specs...)...)
		}
		time.Sleep(time.Second)
		begun := time.Now()
		others := c.submit(handler(0), limited("cold", 1))
		time.Sleep(200 * time.Millisecond)
		for _, s := range startsOf(w.started(), others) {
			if d := s.at.Sub(begun); d > 50*time.Millisecond {
				t.Errorf("another task waited %v", d)
			}
		}
		if n := len(startsOf(w.started(), others)); n != 2 {
			t.Fatalf("%d of 2 other tasks started", n)
		}
		if n := c.sched.Loaded(); n > 1000 {
			t.Errorf("%d tasks in memory", n)
		}
		time.Sleep(25 * time.Second) // 3,000 × 20 ms (and a commit) over 5
		c.check()
		got := startsOf(w.started(), hot)
		if len(got) != len(hot) {
			t.Errorf("%d of %d started", len(got), len(hot))
		}
		if n := together(20*time.Millisecond, got); n != 5 {
			t.Errorf("%d at once, want 5", n)
		}
	})
}

// A rate spaces starts evenly, across a change of leaders too, and each key has its own.
func TestRatePerKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		paced := func(key string) job.TaskSpec {
			s := limited(key, 1)
			s.Concurrency = nil
			s.Rate = &job.Rate{Max: 10, Per: job.Duration(time.Second), Key: "k", Name: "api"}
			return s
		}
		var specs []job.TaskSpec
		for range 30 {
			specs = append(specs, paced("a"))
		}
		a := c.submit(specs...)
		b := c.submit(specs[0], paced("b"))
		time.Sleep(time.Second)
		c.lead()
		w.disconnect()
		w.mustConnect()
		time.Sleep(3 * time.Second)
		c.check()
		starts := startsOf(w.started(), append(a, b[0]))
		if len(starts) != 31 {
			t.Fatalf("%d of 31 started", len(starts))
		}
		slices.SortFunc(starts, func(x, y start) int { return x.at.Compare(y.at) })
		for i := 1; i < len(starts); i++ {
			if gap := starts[i].at.Sub(starts[i-1].at); gap < 100*time.Millisecond-commitDelay {
				t.Errorf("start %d came %v after the one before", i, gap)
			}
		}
		if d := starts[30].at.Sub(starts[0].at); d > 3200*time.Millisecond {
			t.Errorf("31 starts took %v, want 3s and little more", d)
		}
		if got := startsOf(w.started(), b[1:]); len(got) != 1 || got[0].at.Sub(c.start) > 50*time.Millisecond {
			t.Errorf("the other key waited: %v", got)
		}
		if c.refused > 5 {
			t.Errorf("%d assigns were refused", c.refused)
		}
	})
}

// A job gets its limit while its tasks wait: it holds for them, and a raised one
// lets more begin at once. A leader change forgets nobody who holds it.
func TestLimitOfAJobThatChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		put := func(most int) {
			spec := job.Spec{Executor: job.Executor{Handler: "work"}}
			if most > 0 {
				spec.Concurrency = &job.Concurrency{Max: most}
			}
			c.apply(fsm.PutJob{Namespace: job.DefaultNamespace, Name: "sync", Spec: spec})
		}
		put(0)
		specs := make([]job.TaskSpec, 12)
		for i := range specs {
			specs[i] = job.TaskSpec{Job: "sync"}
		}
		refs := c.submit(specs...)
		put(1)
		w := c.worker("w1", 20, time.Second)
		w.mustConnect()
		time.Sleep(2500 * time.Millisecond)
		if n := len(w.started()); n != 3 {
			t.Fatalf("%d started in 2.5s, one at a time", n)
		}
		c.lead()
		w.disconnect()
		w.mustConnect()
		time.Sleep(100 * time.Millisecond)
		if n := len(w.started()); n != 3 {
			t.Fatalf("%d started: the new leader forgot who holds the limit", n)
		}
		put(4)
		time.Sleep(100 * time.Millisecond)
		if n := len(w.started()); n != 6 {
			t.Errorf("%d started, of the raised limit 4 should hold it", n)
		}
		time.Sleep(4 * time.Second)
		c.check()
		if n := len(startsOf(w.started(), refs)); n != 12 {
			t.Errorf("%d of 12 started", n)
		}
		if c.refused > 0 {
			t.Errorf("%d assigns were refused", c.refused)
		}
	})
}

// A worker that dies gives its limits back when its attempts are lost, not before.
func TestLimitIsFreedWithALostWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		a, b := c.worker("w1", 1, 0), c.worker("w2", 1, time.Second)
		a.mustConnect()
		first := limited("k", 1)
		first.Retry = &job.Retry{MaxRetries: new(0)}
		c.submit(first)
		time.Sleep(100 * time.Millisecond)
		b.mustConnect()
		second := c.submit(limited("k", 1))
		a.crash()
		time.Sleep(9 * time.Second)
		if n := len(b.started()); n != 0 {
			t.Error("the second began although the first may still run")
		}
		time.Sleep(6 * time.Second)
		c.check()
		if n := len(startsOf(b.started(), second)); n != 1 {
			t.Errorf("the second started %d times", n)
		}
	})
}

// Whatever comes under however many keys, the leader remembers a bounded number of
// limits, and forgets none that says anything: it never proposes what its limit forbids.
func TestLimitKeysAreForgottenSoundly(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { forgetLimitKeys(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func forgetLimitKeys(t *testing.T, rng *rand.Rand) {
	const most = 8
	c := newCluster(t, func(cfg *Config) { cfg.MaxGroups = most })
	w := c.worker("w1", 30, 300*time.Millisecond)
	w.mustConnect()
	var keys []string // of the rates, by task
	var refs []fsm.TaskRef
	for range 6 {
		from, wide := rng.IntN(3)*20, 5+rng.IntN(35)
		for i := range 1 + rng.IntN(60) {
			key := fmt.Sprint(from + i%wide)
			s := limited(key, 1)
			if i%2 == 0 {
				s.Concurrency, s.Rate = nil, &job.Rate{Max: 2, Per: job.Duration(20 * time.Second), Burst: 2, Key: "k", Name: "r"}
				keys = append(keys, key)
			} else {
				keys = append(keys, "")
			}
			refs = append(refs, c.submit(s)...)
		}
		time.Sleep(time.Duration(rng.IntN(40_000)) * time.Millisecond)
	}
	time.Sleep(8 * time.Minute)
	begun := map[string][]time.Time{}
	for _, s := range w.started() {
		if key := keys[slices.Index(refs, s.ref.Ref)]; key != "" {
			begun[key] = append(begun[key], s.at)
		}
	}
	if n := len(w.started()); n != len(refs) {
		t.Errorf("%d of %d started", n, len(refs))
	}
	for key, at := range begun {
		for i := 3; i < len(at); i++ {
			if d := at[i].Sub(at[i-3]); d < 20*time.Second {
				t.Errorf("four of key %s began within %s", key, d)
			}
		}
	}
	if c.refused > 0 {
		t.Errorf("%d assigns were refused: what was forgotten had said something", c.refused)
	}
	if groups, bounds, rates := c.limitsKnown(); groups > most+most/2+1 || bounds > groups || rates > groups {
		t.Errorf("%d groups, %d limits and %d rates are remembered", groups, bounds, rates)
	}
	c.check()
}

// limitsKnown counts what the leader remembers of limits, after a task of one more key
// has come.
func (c *cluster) limitsKnown() (groups, bounds, rates int) {
	c.submit(limited("one more", 1))
	time.Sleep(time.Second)
	done := make(chan struct{})
	c.sched.inbox.put(func(l *loop) {
		groups, bounds, rates = len(l.limits.groups), len(l.limits.bounds), len(l.limits.rates)
		close(done)
	})
	<-done
	return groups, bounds, rates
}
