package chaos

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

const (
	skewLimit = 30 * time.Second // within it leadership moves away from a wrong clock
	beyondCap = 80 * time.Second // a stamp needs somebody to vouch for it
)

// clockWorld is a cluster whose servers' clocks a test turns.
type clockWorld struct {
	*Cluster
	t    *testing.T
	true time.Duration // true time minus the bubble's
}

// inClockWorld runs fn in a bubble, in a year in which the program exists. The
// servers are not started.
func inClockWorld(t *testing.T, servers int, fn func(w *clockWorld)) {
	t.Helper()
	inClockWorldWith(t, servers, 0, fn)
}

// inClockWorldWith is inClockWorld with workers.
func inClockWorldWith(t *testing.T, servers, workers int, fn func(w *clockWorld)) {
	t.Helper()
	log := slog.DiscardHandler
	if os.Getenv("AXD_SIM_LOG") != "" {
		log = slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo})
	}
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC)))
		w := &clockWorld{Cluster: NewCluster(1, servers, workers, log), t: t}
		defer func() {
			w.Stop()
			for _, p := range w.Problems() {
				t.Error(p)
			}
		}()
		fn(w)
	})
}

func (w *clockWorld) start() {
	w.t.Helper()
	if err := w.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.until("a leader", skewLimit, func() bool { return w.Leader() != nil })
}

func (w *clockWorld) until(what string, limit time.Duration, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Fatalf("after %s still no %s", limit, what)
		}
	}
}

// write commits something and returns the stamp that it got, as an error against
// true time. A cluster that takes no write within the limit fails the test.
func (w *clockWorld) write() (off time.Duration) {
	w.t.Helper()
	w.until("write", skewLimit, func() bool {
		leader := w.Leader()
		if leader == nil || leader.now() == nil {
			return false
		}
		ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
		defer cancel()
		spec := job.Spec{Executor: job.Executor{Handler: "h" + time.Now().Format("150405.000")}}
		res, err := leader.now().srv.Propose(ctx, fsm.PutJob{Namespace: "default", Name: "clock", Spec: spec})
		if err != nil || res.Err != nil {
			return false
		}
		leader.View(func(r fsm.Reader) {
			j, _ := fsm.GetJob(r, "default", "clock")
			off = time.UnixMilli(j.Updated).Sub(time.Now().Add(w.true))
		})
		return true
	})
	return off
}

// wantOnTime writes and wants the stamp near true time.
func (w *clockWorld) wantOnTime() {
	w.t.Helper()
	if off := w.write(); off.Abs() > time.Second {
		w.t.Errorf("a write was stamped %s off", off)
	}
}

// alert returns the state of an alert as the leader has it, 0 if there is none.
func (w *clockWorld) alert(kind, subject string) (state fsm.AlertState) {
	if leader := w.Leader(); leader != nil {
		leader.View(func(r fsm.Reader) {
			a, _ := fsm.GetAlert(r, kind, subject)
			state = a.State
		})
	}
	return state
}

func (w *clockWorld) wantAlert(kind, subject string, state fsm.AlertState) {
	w.t.Helper()
	w.until("alert "+kind+"/"+subject+" that is "+state.String(), skewLimit, func() bool { return w.alert(kind, subject) == state })
}

func TestLeadershipLeavesAWrongClock(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			inClockWorld(t, 3, func(w *clockWorld) {
				w.start()
				w.wantOnTime()
				wrong := w.Leader()
				wrong.SetClock(by)
				w.wantOnTime()
				w.until("other leader", skewLimit, func() bool { l := w.Leader(); return l != nil && l != wrong })
				w.wantOnTime()
				w.wantAlert(fsm.AlertClockStep, wrong.Name, fsm.AlertOpen)
				w.wantAlert(fsm.AlertClockSkew, wrong.Name, fsm.AlertOpen)
				for range 3 { // it doesn't come back to it, even for a moment, when a leader dies
					dead := w.Leader()
					dead.Crash(false)
					w.until("next leader", skewLimit, func() bool {
						l := w.Leader()
						if l == wrong {
							w.t.Fatal("the server whose clock is wrong leads")
						}
						return l != nil && l != dead
					})
					w.wantOnTime()
					dead.Restart()
					time.Sleep(5 * time.Second) // to catch up
				}
				wrong.SetClock(0)
				w.wantAlert(fsm.AlertClockSkew, wrong.Name, fsm.AlertResolved)
			})
		})
	}
}

func TestAServerThatBootsWithAWrongClockDoesNotLead(t *testing.T) {
	inClockWorld(t, 3, func(w *clockWorld) {
		wrong := w.Servers[0]
		wrong.SetClock(-30 * 365 * 24 * time.Hour)
		w.start()
		w.until("leader whose clock is right", skewLimit, func() bool { l := w.Leader(); return l != nil && l != wrong })
		w.wantOnTime()
		w.wantAlert(fsm.AlertClockAbsurd, wrong.Name, fsm.AlertOpen)
		// With one of the others down it is needed, but still doesn't lead.
		w.Leader().Crash(false)
		w.until("leader whose clock is right", skewLimit, func() bool {
			l := w.Leader()
			return l != nil && l.now() != nil && l != wrong
		})
		w.wantOnTime()
		time.Sleep(beyondCap) // and one of the two clocks is wrong
		w.wantOnTime()
	})
}

func TestNoneAgreeAndTheOneInTheMiddleLeads(t *testing.T) {
	inClockWorld(t, 3, func(w *clockWorld) {
		w.Servers[0].SetClock(time.Hour)
		w.Servers[2].SetClock(-time.Hour)
		w.start()
		w.until("leader in the middle", skewLimit, func() bool { return w.Leader() == w.Servers[1] })
		w.wantOnTime()
		w.wantAlert(fsm.AlertClockSkew, "s1", fsm.AlertOpen)
		w.wantAlert(fsm.AlertClockSkew, "s3", fsm.AlertOpen)
		time.Sleep(20 * time.Second)
		if l := w.Leader(); l != w.Servers[1] {
			t.Errorf("later %v leads", l)
		}
	})
}

func TestAClockThatStandsStill(t *testing.T) {
	inClockWorld(t, 3, func(w *clockWorld) {
		w.start()
		stopped := w.Leader()
		began := time.Now()
		w.until("other leader", skewLimit, func() bool {
			stopped.SetClock(-time.Since(began))
			l := w.Leader()
			return l != nil && l != stopped
		})
		w.wantOnTime()
	})
}

// TestTwoServersOnlyAlert: of two clocks that differ nobody knows which is right.
func TestTwoServersOnlyAlert(t *testing.T) {
	inClockWorld(t, 2, func(w *clockWorld) {
		w.start()
		w.wantOnTime()
		leader := w.Leader()
		leader.SetClock(time.Hour)
		other := "s1"
		if leader.Name == other {
			other = "s2"
		}
		w.wantAlert(fsm.AlertClockSkew, other, fsm.AlertOpen)
		time.Sleep(beyondCap)
		w.wantOnTime()
		if w.Leader() != leader {
			t.Error("leadership moved")
		}
	})
}

// TestOneServerWithoutADateGoesOn: a lone server whose clock fell back to 1997
// goes on from what its state has seen, and catches up once it is set.
func TestOneServerWithoutADateGoesOn(t *testing.T) {
	inClockWorld(t, 1, func(w *clockWorld) {
		w.start()
		w.wantOnTime()
		w.Servers[0].Stop()
		w.Servers[0].SetClock(-30 * 365 * 24 * time.Hour)
		w.Servers[0].Restart()
		for range 3 {
			w.wantOnTime()
			time.Sleep(beyondCap)
		}
		w.wantAlert(fsm.AlertClockAbsurd, "s1", fsm.AlertOpen)
		w.Servers[0].SetClock(0)
		w.wantAlert(fsm.AlertClockAbsurd, "s1", fsm.AlertResolved)
		w.wantOnTime()
	})
}

// TestAMonthWithoutPower has servers that were off for a month, and that idle
// for longer than a stamp may jump: the first write after either is taken.
func TestAMonthWithoutPower(t *testing.T) {
	for name, servers := range map[string]int{"one server": 1, "three": 3} {
		t.Run(name, func(t *testing.T) {
			inClockWorld(t, servers, func(w *clockWorld) {
				w.start()
				w.wantOnTime()
				for _, s := range w.Servers {
					s.Crash(true)
				}
				w.true = 30 * 24 * time.Hour // sooner than the bubble would
				for _, s := range w.Servers {
					s.SetClock(w.true)
					s.Restart()
				}
				w.wantOnTime()
				time.Sleep(beyondCap)
				w.wantOnTime()
			})
		})
	}
}

// TestAllWallClocksStepBack: nothing is repeated or delayed.
func TestAllWallClocksStepBack(t *testing.T) {
	inClockWorld(t, 3, func(w *clockWorld) {
		w.start()
		w.wantOnTime()
		time.Sleep(20 * time.Second) // so that there is an attestation to go on from
		w.wantOnTime()
		for _, s := range w.Servers {
			s.SetClock(-time.Hour)
		}
		time.Sleep(time.Second)
		w.wantOnTime()
		time.Sleep(beyondCap)
		w.wantOnTime()
		w.wantAlert(fsm.AlertClockStep, "s1", fsm.AlertOpen)
	})
}
