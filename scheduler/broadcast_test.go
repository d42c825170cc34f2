package scheduler

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// parts are a broadcast's parts by worker.
func (c *cluster) parts(ref fsm.TaskRef) map[string]fsm.Task {
	r, release := c.Read()
	defer release()
	t, _ := fsm.GetTask(r, ref)
	out := map[string]fsm.Task{}
	for _, part := range fsm.ListParts(r, &t, 1000) {
		out[part.Bound()] = part
	}
	return out
}

func everywhere(delay time.Duration, require ...string) job.TaskSpec {
	return along(job.Route{Strategy: job.Broadcast, Require: require}, delay)
}

// A broadcast runs once at each worker that takes work and fits when it is due, in a
// free slot or after it waited for one, and nowhere else.
func TestABroadcastRunsAtEveryWorkerThatFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		fleet := c.fleet(5, 1, 2*time.Second)
		c.apply(fsm.DrainWorker{Name: "w4"})
		busy := c.submit(along(job.Route{Require: []string{"cores = 4"}}, 0))[0] // at w2
		time.Sleep(time.Second)
		for _, delay := range []time.Duration{0, 10 * time.Second} {
			ref := c.submitNow(everywhere(delay, "cores >= 2"))[0]
			time.Sleep(delay + 500*time.Millisecond)
			if got := c.task(ref); got.State != job.Blocked || got.Attempt != 0 {
				t.Errorf("while its parts run it is %s at attempt %d", got.State, got.Attempt)
			}
			time.Sleep(5 * time.Second)
			parts := c.parts(ref)
			for _, name := range []string{"w1", "w2", "w3"} {
				if p := parts[name]; p.State != job.Success || p.Worker != name || p.Attempt != 1 {
					t.Errorf("the part of %s is %s at %s after %d attempts", name, p.State, p.Worker, p.Attempt)
				}
			}
			if got := c.task(ref); len(parts) != 3 || got.State != job.Success {
				t.Errorf("it went to %d workers, and is %s", len(parts), got.State)
			}
		}
		if got := c.task(busy); got.Worker != "w2" {
			t.Errorf("the task before ran at %s", got.Worker)
		}
		if n := len(fleet[0].seen()) + len(fleet[4].seen()); n != 0 {
			t.Errorf("workers that don't fit, or drain, were sent %d attempts", n)
		}
		c.check()
	})
}

// Without a worker that fits it waits, and says why, until one comes or its time to
// wait is over.
func TestABroadcastWaitsForAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.fleet(2, 1, time.Second)
		short := everywhere(0, "gpu")
		short.QueueTimeout = new(job.Duration(time.Minute))
		waits, ends := c.submit(everywhere(0, "gpu"))[0], c.submit(short)[0]
		time.Sleep(time.Second)
		if r := c.only(waits, job.ReasonNoMatch); len(r.Unmet) != 1 || r.Unmet[0].Constraint != "label gpu" {
			t.Errorf("%+v", r)
		}
		time.Sleep(2 * time.Minute)
		if got := c.task(ends); got.State != job.TimedOut {
			t.Errorf("after its queue_timeout it is %s", got.State)
		}
		w := c.worker("late", 1, time.Second)
		w.labels = map[string]string{"gpu": "a100"}
		w.mustConnect()
		time.Sleep(3 * time.Second)
		if got := c.task(waits); got.State != job.Success || len(c.parts(waits)) != 1 {
			t.Errorf("with a worker that fits it is %s", got.State)
		}
		c.check()
	})
}

// A part waits for its worker, whatever others are free: one that drains, or is lost
// and comes back. It ends when its worker is forgotten.
func TestAPartStaysWithItsWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		spec := everywhere(0)
		spec.Retry = &job.Retry{MaxRetries: new(3), Initial: job.Duration(time.Second)}
		drains, dies, gone := c.worker("drains", 1, 3*time.Second), c.worker("dies", 1, 3*time.Second), c.worker("gone", 1, 0)
		for _, w := range []*model{drains, dies, gone, c.worker("well", 9, time.Second)} {
			w.mustConnect()
		}
		fill := c.submit(along(job.Route{Require: []string{"!x"}}, 0), handler(0), handler(0), handler(0)) // some slots are taken
		time.Sleep(100 * time.Millisecond)
		ref := c.submit(spec)[0]
		time.Sleep(100 * time.Millisecond)
		c.apply(fsm.DrainWorker{Name: "drains", Deadline: 1})
		dies.crash()
		gone.crash()
		time.Sleep(time.Minute)
		parts := c.parts(ref)
		for name, why := range map[string]string{"drains": "which drains", "dies": "which is lost", "gone": "which is lost"} {
			part := parts[name]
			r := c.why(part.Ref())[job.ReasonWorkersAway]
			if part.State != job.Pending || r.Worker != name || !strings.Contains(r.Text, why) {
				t.Errorf("the part of %s is %s: %+v", name, part.State, r)
			}
		}
		c.apply(fsm.DrainWorker{Name: "drains", Resume: true})
		dies.boot = "b2"
		dies.mustConnect()
		c.apply(fsm.ForgetWorker{Name: "gone"})
		time.Sleep(20 * time.Second)
		for name, want := range map[string]job.State{"drains": job.Success, "dies": job.Success, "gone": job.Failed, "well": job.Success} {
			if p := c.parts(ref)[name]; p.State != want || p.Worker != name && p.Worker != "" {
				t.Errorf("the part of %s is %s at %q: %s", name, p.State, p.Worker, p.Error)
			}
		}
		if got := c.task(ref); got.State != job.Failed || got.Error != "it failed on 1 of 4 workers" || !got.Dead {
			t.Errorf("it is %s: %s", got.State, got.Error)
		}
		_ = fill
		c.check()
	})
}

// A leader that is lost amid a broadcast leaves nothing half done: the next makes the
// rest, once.
func TestABroadcastOutlivesItsLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		var fleet []*model
		for i := range 150 {
			w := c.worker(fmt.Sprintf("m%03d", i), 1, time.Second)
			w.mustConnect()
			fleet = append(fleet, w)
		}
		ref := c.submit(everywhere(0))[0]
		for len(c.parts(ref)) == 0 {
			time.Sleep(time.Millisecond)
		}
		c.lead()
		for _, w := range fleet {
			w.disconnect()
			w.mustConnect()
		}
		time.Sleep(time.Minute)
		if got := c.task(ref); got.State != job.Success || len(c.parts(ref)) != len(fleet) {
			t.Errorf("it is %s with %d parts", got.State, len(c.parts(ref)))
		}
		for _, w := range fleet {
			if n := w.attempts(); n != 1 {
				t.Errorf("%s ran %d attempts, want 1", w.name, n)
			}
		}
		c.check()
	})
}
