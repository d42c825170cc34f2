package scheduler

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/job"
)

// A delay of more milliseconds than an int32 holds must neither fire at once nor
// lose a millisecond, whoever leads.
func TestK5_05_DelayAbove24Days(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		now := time.Now()
		delays := []time.Duration{
			(1<<31 - 1) * time.Millisecond, 1 << 31 * time.Millisecond, 30 * 24 * time.Hour, 400 * 24 * time.Hour,
		}
		var specs []job.TaskSpec
		for _, d := range delays {
			specs = append(specs, handler(d))
		}
		late := handler(0)
		late.Due = now.AddDate(300, 0, 0).UnixMilli()
		past := handler(0)
		past.Due = now.Add(-time.Hour).UnixMilli()
		refs := c.submit(append(specs, late, past)...)
		due := func(i int) int64 { return c.task(refs[i]).Due }
		var before []int64
		for i := range refs {
			before = append(before, due(i))
		}
		time.Sleep(30 * time.Second)
		w.disconnect()
		c.lead()
		w.mustConnect()
		time.Sleep(time.Minute)
		created := c.task(refs[0]).Created
		for i, d := range delays {
			if due(i) != created+d.Milliseconds() || c.task(refs[i]).State != job.Pending {
				t.Errorf("delay %s: due %d ms after the submit, %s", d, due(i)-created, c.task(refs[i]).State)
			}
		}
		if due(4) != late.Due || due(4) != before[4] || c.task(refs[4]).State != job.Pending {
			t.Errorf("300 years: due %d, want %d", due(4), late.Due)
		}
		if last := c.task(refs[5]); last.State != job.Success || last.Attempt != 1 || len(w.started()) != 1 {
			t.Errorf("the past one is %s after %d attempts, of %d starts", last.State, last.Attempt, len(w.started()))
		}
		c.check()
	})
}
