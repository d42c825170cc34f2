package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// A paused job's tasks wait, however many, and hold up no others; what was armed is
// taken back, what runs ends. A new leader keeps to it, and once it is resumed all run.
func TestAPausedJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.put("mail")
		w := c.worker("w1", 10, 500*time.Millisecond)
		w.mustConnect()
		mail := func(delay time.Duration) job.TaskSpec { return job.TaskSpec{Job: "mail", Delay: job.Duration(delay)} }
		runs, armed := c.submitNow(mail(0))[0], c.submit(mail(2 * time.Second))[0]
		time.Sleep(200 * time.Millisecond)
		if w.armedNow() != 1 {
			t.Fatal("the second is not armed")
		}
		pause := func(resume bool) {
			c.apply(fsm.PauseJob{Namespace: job.DefaultNamespace, Name: "mail", Resume: resume})
		}
		pause(false)
		var waiting []fsm.TaskRef
		for range 300 {
			waiting = append(waiting, c.submit(mail(0))...)
		}
		waiting = append(waiting, c.submitNow(mail(0))...)
		waiting = append(waiting, c.submit(mail(3*time.Second))...)
		other := c.submitNow(handler(0))[0]
		time.Sleep(2 * time.Second)
		c.kill()
		c.lead()
		w.disconnect()
		w.mustConnect()
		time.Sleep(5 * time.Second)
		if c.task(runs).State != job.Success || c.task(other).State != job.Success {
			t.Errorf("what ran is %s, another is %s", c.task(runs).State, c.task(other).State)
		}
		for _, ref := range append(waiting, armed) {
			if s := c.task(ref); s.State != job.Pending || s.Attempt != 0 {
				t.Fatalf("task %s is %s, attempt %d", ref.ID, s.State, s.Attempt)
			}
		}
		if n := c.sched.Loaded(); n > 2*maxUnfit {
			t.Errorf("%d tasks are in memory", n)
		}
		pause(true)
		time.Sleep(time.Minute)
		for _, ref := range append(waiting, armed) {
			if s := c.task(ref); s.State != job.Success {
				t.Fatalf("after the pause task %s is %s", ref.ID, s.State)
			}
		}
		if c.refused > 0 {
			t.Errorf("%d assigns were refused", c.refused)
		}
		c.check()
	})
}
