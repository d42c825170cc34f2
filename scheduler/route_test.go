package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func along(r job.Route, delay time.Duration) job.TaskSpec {
	s := handler(delay)
	s.Policy.Route = &r
	return s
}

func (c *cluster) fleet(n, slots int, takes time.Duration) (fleet []*model) {
	for i := range n {
		w := c.worker(fmt.Sprintf("w%d", i), slots, takes)
		w.labels = map[string]string{"cores": fmt.Sprint(1 << i), "zone": []string{"eu", "us"}[i%2]}
		w.mustConnect()
		fleet = append(fleet, w)
	}
	return fleet
}

func counts(fleet []*model) (n []int) {
	for _, w := range fleet {
		n = append(n, w.attempts())
	}
	return n
}

func TestRequirementsChooseWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.fleet(4, 100, time.Millisecond)
		for text, want := range map[string]string{
			"cores >= 4": "w2 w3", "zone in (us, de)": "w1 w3", "zone != eu": "w1 w3", "cores < 2": "w0", "!gpu": "w0 w1 w2 w3",
		} {
			for _, delay := range []time.Duration{0, 2 * time.Second} { // from the queue, and armed
				var refs []fsm.TaskRef
				for range 20 {
					refs = append(refs, c.submitNow(along(job.Route{Require: []string{text}, Strategy: job.RoundRobin}, delay))...)
				}
				time.Sleep(delay + time.Second)
				seen := map[string]bool{}
				for _, ref := range refs {
					seen[c.task(ref).Worker] = true
				}
				got := ""
				for i := range 4 {
					if name := fmt.Sprintf("w%d", i); seen[name] {
						got += " " + name
					}
				}
				if got != " "+want {
					t.Errorf("%q in %v: ran at%s, want %s", text, delay, got, want)
				}
			}
		}
		none := c.submitNow(along(job.Route{Require: []string{"cores > 8"}}, 0))
		time.Sleep(time.Second)
		if s := c.task(none[0]).State; s != job.Pending {
			t.Errorf("a task that no worker fits is %s", s)
		}
		c.check()
	})
}

func TestRoundRobinTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		fleet := c.fleet(3, 400, 0)
		c.stream(handler(0), 10, time.Millisecond) // uneven load before
		before := counts(fleet)
		for i := range 30 {
			ref := c.submitNow(along(job.Route{Strategy: job.RoundRobin}, 0))[0]
			time.Sleep(10 * time.Millisecond)
			if want := fmt.Sprintf("w%d", i%3); c.task(ref).Worker != want {
				t.Errorf("task %d ran at %s, want %s", i, c.task(ref).Worker, want)
			}
		}
		for i, n := range counts(fleet) {
			if n-before[i] != 10 {
				t.Errorf("worker %d got %d, want 10", i, n-before[i])
			}
		}
		c.check()
	})
}

func TestRandomSpreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		fleet := c.fleet(3, 400, 0)
		for range 300 {
			c.submitNow(along(job.Route{Strategy: job.Random}, 0))
		}
		time.Sleep(time.Second)
		same := 0
		for i, n := range counts(fleet) {
			if n < 70 || n > 130 {
				t.Errorf("worker %d got %d of 300, want about 100", i, n)
			}
			if n == 100 {
				same++
			}
		}
		if same == 3 {
			t.Error("random is least loaded")
		}
		c.check()
	})
}

// TestStickyTasksStayWithTheirWorker: tasks of a key go to one worker, and only
// the keys of a worker that goes move.
func TestStickyTasksStayWithTheirWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		fleet := c.fleet(4, 100, time.Millisecond)
		round := func(delay time.Duration) map[string]string {
			refs := map[string]fsm.TaskRef{}
			for i := range 40 {
				key := fmt.Sprintf("customer-%d", i)
				refs[key] = c.submitNow(along(job.Route{Sticky: key}, delay))[0]
			}
			time.Sleep(delay + time.Second)
			at := map[string]string{}
			for key, ref := range refs {
				at[key] = c.task(ref).Worker
			}
			return at
		}
		first, moved := round(0), 0
		used := map[string]bool{}
		for key, at := range round(2 * time.Second) {
			used[at] = true
			if at != first[key] || at == "" {
				t.Errorf("%s ran at %s, then at %s", key, first[key], at)
			}
		}
		if len(used) != 4 {
			t.Errorf("%d workers are used, want 4", len(used))
		}
		fleet[1].crash()
		time.Sleep(15 * time.Second) // its lease has ended
		for key, at := range round(0) {
			if first[key] == "w1" {
				moved++
			} else if at != first[key] {
				t.Errorf("%s moved from %s to %s, which did not go", key, first[key], at)
			}
			if at == "w1" || at == "" {
				t.Errorf("%s ran at %q, which is gone", key, at)
			}
		}
		if moved == 0 {
			t.Error("no key was of the worker that went")
		}
		c.check()
	})
}

func TestExplainNamesTheRequirementThatIsNotMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.fleet(3, 1, 0)
		ref := c.submit(along(job.Route{Require: []string{"cores >= 2", "gpu"}}, 0))[0]
		time.Sleep(time.Second)
		r := c.only(ref, job.ReasonNoMatch)
		if len(r.Unmet) != 2 || r.Unmet[0] != (job.Unmet{Constraint: "label gpu", Workers: 3}) ||
			r.Unmet[1] != (job.Unmet{Constraint: "label cores >= 2", Workers: 1}) {
			t.Errorf("unmet: %+v", r.Unmet)
		}
	})
}
