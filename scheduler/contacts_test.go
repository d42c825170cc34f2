package scheduler

import (
	"testing"
	"testing/synctest"
	"time"
)

func (c *cluster) contact(name string) (Contact, bool) {
	c.t.Helper()
	all, err := c.sched.Contacts(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	got, ok := all[name]
	return got, ok
}

func TestTheLeaderSaysWhichWorkersItHearsOf(t *testing.T) {
	for name, tt := range map[string]struct {
		fail func(*model)
		by   time.Duration
	}{
		"killed":  {(*model).crash, 10 * time.Millisecond}, // its connection ends
		"stopped": {(*model).hang, suspectSilence + 10*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCluster(t)
				w := c.worker("w1", 8, 0)
				w.mustConnect()
				time.Sleep(5500 * time.Millisecond)
				if got, ok := c.contact("w1"); !ok || got.Suspect || got.Silent > 2*time.Second {
					t.Fatalf("of a worker that beats: %+v, %v", got, ok)
				}
				tt.fail(w)
				time.Sleep(tt.by)
				if got, ok := c.contact("w1"); !ok || !got.Suspect {
					t.Errorf("%s after it failed: %+v, %v", tt.by, got, ok)
				}
				c.lead()
				if got, ok := c.contact("w1"); ok {
					t.Errorf("a leader that it has not come to says %+v", got)
				}
				time.Sleep(suspectSilence)
				if got, ok := c.contact("w1"); !ok || !got.Suspect {
					t.Errorf("a new leader, %s later: %+v, %v", suspectSilence, got, ok)
				}
			})
		})
	}
}

func TestAWorkerThatComesBackIsNotSuspect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 8, 0)
		w.mustConnect()
		time.Sleep(time.Second)
		w.disconnect()
		synctest.Wait()
		if got, ok := c.contact("w1"); !ok || !got.Suspect {
			t.Fatalf("without a connection: %+v, %v", got, ok)
		}
		w.mustConnect()
		if got, ok := c.contact("w1"); !ok || got.Suspect {
			t.Errorf("back again: %+v, %v", got, ok)
		}
	})
}
