package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

const allowedSkew = 500 * time.Millisecond // of the servers, by default

// timedLoad submits tasks whose due times are spread over the seconds ahead, and has
// a schedule fire every second.
type timedLoad struct {
	w     *clockWorld
	taken atomic.Int64
	stop  context.CancelFunc
	done  chan struct{}
}

func (w *clockWorld) load() *timedLoad {
	w.t.Helper()
	offer := job.Executor{Handler: handlerName}
	w.propose(fsm.PutJob{Namespace: "default", Name: plainJob, Spec: job.Spec{Executor: offer}})
	w.propose(fsm.PutSchedule{Namespace: "default", Name: "seconds", Spec: job.ScheduleSpec{
		Job: plainJob, Cron: "* * * * * *", Overlap: job.OverlapAllow, Misfire: job.MisfireAll, Payload: job.JSON(`{"run_ms": 5}`),
	}})
	ctx, stop := context.WithCancel(w.ctx)
	l := &timedLoad{w: w, stop: stop, done: make(chan struct{})}
	rng := rand.New(rand.NewPCG(1, 2))
	go func() {
		defer close(l.done)
		for op := 0; ctx.Err() == nil; op++ {
			due := time.Now().Add(100*time.Millisecond + time.Duration(rng.Int64N(int64(6*time.Second)))).UnixMilli()
			task := job.TaskSpec{Job: plainJob, Due: due, Payload: []byte(`{"run_ms": 5}`), IdempotencyKey: "k" + strconv.Itoa(op)}
			for ctx.Err() == nil && !w.try(fsm.Submit{Namespace: "default", Tasks: []job.TaskSpec{task}}) {
				pause(ctx, 20*time.Millisecond)
			}
			l.taken.Add(1)
			pause(ctx, 80*time.Millisecond)
		}
	}()
	return l
}

// try proposes a command through one of the servers that are up.
func (w *clockWorld) try(c fsm.Command) bool {
	for _, s := range w.Servers {
		if life := s.now(); life != nil {
			ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
			res, err := life.srv.Propose(ctx, c)
			cancel()
			if err == nil && res.Err == nil {
				return true
			}
		}
	}
	return false
}

func (w *clockWorld) propose(c fsm.Command) {
	w.t.Helper()
	w.until(fmt.Sprintf("%T", c), skewLimit, func() bool { return w.try(c) })
}

// end stops the load and waits until all of it has run, never twice at a time.
func (l *timedLoad) end() map[string][]Attempt {
	l.w.t.Helper()
	l.stop()
	<-l.done
	runs := map[string][]Attempt{}
	l.w.until("end of what was submitted", time.Minute, func() bool {
		clear(runs)
		ended := 0
		for _, a := range l.w.Ledger.Attempts() {
			runs[a.Task] = append(runs[a.Task], a)
			if a.OK {
				ended++
			}
		}
		return ended >= int(l.taken.Load())
	})
	for _, of := range runs {
		for i := range of[1:] {
			if before, after := of[i], of[i+1]; after.Start.Before(before.End) {
				l.w.t.Errorf("task %s: %s ran beside %s", after.Task, after, before)
			}
		}
	}
	return runs
}

// wantInTime wants that nothing has started early, or twice.
func (w *clockWorld) wantInTime(runs map[string][]Attempt) {
	w.t.Helper()
	earliest := time.Duration(0)
	for task, of := range runs {
		if len(of) != 1 {
			w.t.Errorf("task %s was run %d times: %v", task, len(of), of)
		}
		for _, a := range of {
			earliest = max(earliest, a.Due.Sub(a.Start))
		}
	}
	if earliest > allowedSkew {
		w.t.Errorf("a task started %s before it was due", earliest)
	}
	w.t.Logf("%d tasks ran, the earliest %s before it was due", len(runs), earliest)
}

// wrongSpan is when a server's clocks were wrong, and found to be.
type wrongSpan struct {
	server   string
	from, to time.Time
}

// wantNoOtherAlert wants every alert of a server's clock to be of one that was wrong
// then.
func (w *clockWorld) wantNoOtherAlert(wrong []wrongSpan) {
	w.t.Helper()
	w.Leader().View(func(r fsm.Reader) {
		for _, a := range fsm.ListAlerts(r, 0) {
			if a.Subject == "cluster" {
				continue
			}
			ok := a.State != fsm.AlertOpen || a.Kind == fsm.AlertClockStep
			for _, at := range []int64{a.First, a.Last} {
				found := false
				for _, span := range wrong {
					at := time.UnixMilli(at)
					found = found || span.server == a.Subject && at.After(span.from) && at.Before(span.to)
				}
				ok = ok && found
			}
			if !ok {
				w.t.Errorf("alert %+v of a clock that was right at %s", a, clock(time.UnixMilli(a.Last)))
			}
		}
	})
}

// TestFastLeadersOneAfterAnother has all clocks of each leader run fast, one leader after
// another. What they gain until they are found out must not add up: each new leader
// starts from the others' clocks, though the state has seen a later time.
func TestFastLeadersOneAfterAnother(t *testing.T) {
	for name, haste := range map[string]float64{"double speed": 1, "a tenth fast": 0.1} {
		t.Run(name, func(t *testing.T) {
			inClockWorldWith(t, 3, 2, func(w *clockWorld) {
				w.start()
				load := w.load()
				var wrong []wrongSpan
				for range 3 {
					pause(w.ctx, 4*time.Second)
					fast := w.Leader()
					span := wrongSpan{server: fast.Name, from: time.Now()}
					fast.HurryClocks(0, haste)
					w.until("other leader", skewLimit, func() bool { l := w.Leader(); return l != nil && l != fast })
					w.until("alert", skewLimit, func() bool { return w.alert(fsm.AlertClockSkew, fast.Name) == fsm.AlertOpen })
					pause(w.ctx, 3*time.Second)
					fast.Crash(false)
					fast.Restart()
					span.to = time.Now().Add(3 * time.Second)
					wrong = append(wrong, span)
				}
				pause(w.ctx, 10*time.Second) // for the last alert to be resolved
				w.wantOnTime()
				w.wantNoOtherAlert(wrong)
				w.wantInTime(load.end())
			})
		})
	}
}

// TestClocksThatJump has all clocks of the leader jump forward at once, by less than
// an entry's stamp may and a lease lasts. What is submitted after that was found out does not
// start early, and waits no longer than until the time has come that the state has seen.
func TestClocksThatJump(t *testing.T) {
	const by = 8 * time.Second
	inClockWorldWith(t, 3, 2, func(w *clockWorld) {
		w.start()
		load := w.load()
		pause(w.ctx, 4*time.Second)
		jumped := w.Leader()
		jumped.HurryClocks(by, 0)
		w.until("other leader", skewLimit, func() bool { l := w.Leader(); return l != nil && l != jumped })
		found := time.Now()
		soon := job.TaskSpec{Job: plainJob, Payload: []byte(`{"run_ms": 5, "op": 1}`)}
		w.propose(fsm.Submit{Namespace: "default", Tasks: []job.TaskSpec{soon}})
		due := time.Now().Add(time.Second).Truncate(time.Millisecond)
		later := job.TaskSpec{Job: plainJob, Due: due.UnixMilli(), Payload: []byte(`{"run_ms": 5, "op": 2}`)}
		w.propose(fsm.Submit{Namespace: "default", Tasks: []job.TaskSpec{later}})
		pause(w.ctx, 2*by)
		w.wantOnTime()
		started := map[string]time.Time{}
		for _, of := range load.end() {
			started[of[0].Payload] = of[0].Start
		}
		if late := started[string(later.Payload)].Sub(due); late < 0 || late > by+time.Second {
			t.Errorf("what was submitted for a time started %s after it", late)
		}
		if late := started[string(soon.Payload)].Sub(found); late < 0 || late > by+time.Second {
			t.Errorf("what was submitted for now started after %s", late)
		}
	})
}
