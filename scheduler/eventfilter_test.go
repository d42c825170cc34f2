package scheduler

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// TestEventFilters: an event goes on until each schedule has been asked, by what the
// leader finds by their filters; a leader that comes new goes on with it.
func TestEventFilters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.putJob("j")
		for i := range 2*fsm.MaxEventFires + 10 {
			spec := job.ScheduleSpec{Job: "j", Event: &job.OnEvent{Name: "e"}, Overlap: job.OverlapAllow}
			if i%2 == 1 {
				spec.Event.Filter = fmt.Sprintf("payload.n == %d", i%4)
			}
			if i == 7 {
				spec.Event.Filter = "payload.n.m"
			}
			c.schedule(fmt.Sprintf("s%03d", i), spec)
		}
		c.lead()
		sent := c.must(fsm.SendEvent{Namespace: job.DefaultNamespace, Name: "e", Payload: []byte(`{"n":1}`)}).Sent
		if sent.Fired != 1 || !sent.Open {
			t.Errorf("at first: %+v", sent)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r, release := c.Read()
		got, _ := fsm.GetEvent(r, job.DefaultNamespace, "e", sent.ID)
		release()
		if got.Open || got.Fired != 65+33 || got.Refused != 1 || got.Passed != 31 {
			t.Errorf("in the end: %+v", got)
		}
		if f := c.ledger("s007"); len(f) != 1 || f[0].Why != fsm.WhyFilter || f[0].Error == "" {
			t.Errorf("a filter that fails: %+v", f)
		}
	})
}
