package scheduler

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// hookLog lets a test step between the log and the loop.
type hookLog struct {
	c    *cluster
	hook atomic.Pointer[hook]
}

// hook handles a proposal, or returns false.
type hook func(cmd fsm.Command, done func(fsm.Result, error)) bool

func (h *hookLog) set(fn hook) { h.hook.Store(&fn) }

func (h *hookLog) ProposeAsync(cmd fsm.Command, done func(fsm.Result, error)) {
	if fn := h.hook.Load(); fn != nil && *fn != nil && (*fn)(cmd, done) {
		return
	}
	h.c.ProposeAsync(cmd, done)
}

func newHooked(t *testing.T, change ...func(*Config)) (*cluster, *hookLog) {
	h := &hookLog{}
	c := newCluster(t, append(change, func(cfg *Config) { h.c = cfg.Log.(*cluster); cfg.Log = h })...)
	return c, h
}

// An inbox full of hints must not drop the result of an assign: after maxAssigning
// lost ones nothing would ever be assigned again.
func TestAssignResultsLostToAFullInboxDontStopTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newHooked(t)
		var full atomic.Bool
		h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
			if _, ok := cmd.(fsm.Assign); !ok || !full.Load() {
				return false
			}
			c.ProposeAsync(cmd, func(res fsm.Result, err error) {
				b := &c.sched.inbox // as if 100,000 events of submits waited
				b.mu.Lock()
				b.mu.hints = maxInbox
				b.mu.Unlock()
				done(res, err)
			})
			return true
		})
		w := c.worker("w1", 100, time.Millisecond)
		w.mustConnect()
		full.Store(true)
		for range maxAssigning {
			c.submit(handler(0))
			time.Sleep(time.Second)
		}
		full.Store(false)
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Minute)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("a task submitted after four overflows is %s a minute later, want success", s)
		}
	})
}

// A worker that comes back while its last life's lease ends must not be marked
// lost after it registered: it would get no work as long as it stays connected.
func TestALeaseThatEndsDuringARegistrationDoesNotLoseTheNewLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newHooked(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		w.disconnect()
		time.Sleep(11900 * time.Millisecond)
		h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
			go func() { // a slow disk: one second from proposal to apply, in order
				time.Sleep(time.Second)
				done(c.apply(cmd), nil)
			}()
			return true
		})
		again := c.worker("w1", 1, time.Millisecond)
		again.boot = "b2"
		again.mustConnect()
		time.Sleep(2 * time.Second)
		h.set(nil)
		ref := c.submit(handler(0))[0]
		time.Sleep(10 * time.Minute)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("the task is %s ten minutes after its worker came back and heartbeats, want success", s)
		}
	})
}

// A result sent over the old connection commits after the registration and
// before the loop hears of either: the ended attempt must not be filed anew.
func TestAResultBesideARegistrationLeaksNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newHooked(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		first := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		held := w.seen()[0].ref
		w.disconnect()
		h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
			if _, ok := cmd.(fsm.RegisterWorker); !ok {
				return false
			}
			go func() {
				res := c.apply(cmd)
				w.finish(held, job.OutcomeSuccess) // was in flight on the old connection
				synctest.Wait()
				done(res, nil)
			}()
			return true
		})
		w.mustConnect()
		if s := c.task(first).State; s != job.Success {
			t.Fatalf("the first task is %s", s)
		}
		c.submit(handler(0))
		time.Sleep(10 * time.Minute)
		sent := map[fsm.AttemptRef]bool{}
		for _, d := range w.seen() {
			sent[d.ref] = true
		}
		if len(sent) != 2 {
			t.Errorf("%d attempts were sent, want 2: the slot of the ended one is free", len(sent))
		}
	})
}

// Cancelled while its dispatch was lost: what is sent again comes with the wish.
func TestACancelledAttemptThatNeverArrivedIsNotRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.disconnect()
		w.neverGot(w.seen()[0].ref)
		if res := c.apply(fsm.Cancel{Ref: ref}); res.Err != nil {
			t.Fatal(res.Err)
		}
		time.Sleep(time.Second)
		w.mustConnect()
		time.Sleep(time.Minute)
		if s := c.task(ref).State; s != job.Cancelled {
			t.Errorf("the task is %s a minute after its worker came back, want cancelled", s)
		}
	})
}

// Where the event of a cancel is lost to a full inbox, the rebuild repeats it.
func TestACancelLostToAFullInboxReachesTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		c.apply(fsm.Started{AttemptRef: w.seen()[0].ref, At: time.Now().UnixMilli()})
		time.Sleep(time.Second)
		c.sched.inbox.mu.Lock()
		c.sched.inbox.mu.hints = maxInbox
		c.sched.inbox.mu.Unlock()
		c.apply(fsm.Cancel{Ref: ref})
		time.Sleep(time.Minute)
		if s := c.task(ref).State; s != job.Cancelled {
			t.Errorf("the task is %s, want cancelled", s)
		}
	})
}

// Tasks that no worker can run, even over half of MaxLoaded, which stops the scan.
func TestManyTasksWithoutAWorkerDontHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.MaxLoaded = 200 })
		nobody := job.TaskSpec{Executor: job.Executor{Handler: "unknown"}}
		specs := make([]job.TaskSpec, 150)
		for i := range specs {
			specs[i] = nobody
		}
		c.submit(specs...)
		w := c.worker("w1", 10, time.Millisecond)
		w.mustConnect()
		c.submit(specs...)
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Hour)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("the task that fits an idle worker is %s after an hour, want success", s)
		}
	})
}

// A job loses on_disconnect: continue while an attempt of the old version runs;
// that attempt may still go on.
func TestAnAttemptIsJudgedByThePolicyItWasSentWith(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		timeout := job.Duration(10 * time.Minute)
		put := func(p job.Policy) {
			spec := job.Spec{Executor: job.Executor{Handler: "work"}, Policy: p}
			if res := c.apply(fsm.PutJob{Namespace: "default", Name: "report", Spec: spec}); res.Err != nil {
				t.Fatal(res.Err)
			}
		}
		put(job.Policy{Timeout: &timeout, OnDisconnect: job.DisconnectContinue})
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(job.TaskSpec{Job: "report"})[0]
		time.Sleep(time.Second)
		put(job.Policy{Timeout: &timeout})
		w.disconnect() // and the attempt goes on, as it was told: for ten minutes
		time.Sleep(9 * time.Minute)
		if s := c.task(ref).State; s != job.Dispatched {
			t.Errorf("the task is %s while its attempt may still run, want dispatched", s)
		}
	})
}

// The connection ends while the registration is in flight: attached after its end,
// the session would be sent tasks that nobody receives.
func TestADeadSessionIsNotAttached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		dead := c.worker("w1", 1, time.Millisecond)
		gone := make(chan struct{})
		go func() {
			time.Sleep(commitDelay / 2)
			close(gone)
		}()
		_, err := c.sched.Attach(context.Background(), &link{m: dead, gone: gone}, Hello{
			Worker: fsm.RegisterWorker{Name: "w1", Boot: "b1", Slots: 1}, Offers: []string{"handler:work"},
		})
		if err == nil {
			t.Fatal("attached over a connection that had ended")
		}
		time.Sleep(time.Second)
		live := c.worker("w2", 1, time.Millisecond)
		live.mustConnect()
		c.submit(handler(0))
		time.Sleep(5 * time.Second)
		if n, m := len(dead.seen()), len(live.seen()); n != 0 || m != 1 {
			t.Errorf("the dead session was sent %d attempts, the live one %d; want 0 and 1", n, m)
		}
	})
}

// A rebuild must not grant a lease anew that has ended.
func TestARebuildGrantsNoEndedLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		spec := handler(0)
		timeout := job.Duration(10 * time.Minute)
		spec.Policy.Timeout, spec.Policy.OnDisconnect = &timeout, job.DisconnectContinue
		c.submit(spec)
		time.Sleep(time.Second)
		w.disconnect()
		time.Sleep(time.Minute)
		if c.sched.Renew("w1", "b1") {
			t.Fatal("renewed")
		}
		c.sched.Reset()
		time.Sleep(time.Second)
		if c.sched.Renew("w1", "b1") {
			t.Error("after a rebuild a heartbeat renewed a lease that had ended, for a worker that the loop holds no session of")
		}
	})
}

// A dispatch that the worker dropped without a word is repeated after
// redispatchAfter.
func TestADispatchThatGotLostInALiveSessionIsSentAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		c.submit(handler(0))
		time.Sleep(time.Second)
		first := w.seen()[0].ref
		w.neverGot(first)
		time.Sleep(time.Hour)
		if n := len(w.seen()); n < 2 {
			t.Errorf("the attempt was sent %d times in an hour, though it never started", n)
		}
	})
}

// Servers may differ in --raft-multiplier, and so in the lease's time to live, as
// in a rolling change of it.
func TestANewLeaderWithAShorterTTLWaitsForTheLongerLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.LeaseTTL = 30 * time.Second })
		w := c.worker("w1", 1, 0)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(time.Second)
		w.disconnect() // the worker holds a lease of 30 s
		c.stop()
		cfg := c.sched.cfg
		cfg.LeaseTTL = 10 * time.Second
		c.sched = New(cfg)
		c.lead()
		time.Sleep(20 * time.Second)
		if s := c.task(ref).State; s != job.Dispatched {
			t.Errorf("the task is %s 20 s after the change of leader, while its worker's lease still runs", s)
		}
	})
}

// refuser gives back whatever it is sent, at once and with all its slots free:
// its supervisor can't be started, or it can't decode the executor.
type refuser struct {
	c    *cluster
	gone chan struct{}
	n    atomic.Int64
	off  atomic.Bool
}

func (r *refuser) Gone() <-chan struct{}                   { return r.gone }
func (r *refuser) Kill(fsm.AttemptRef, uint32, KillReason) {}
func (r *refuser) Revoke([]Held)                           {}
func (r *refuser) Dispatch(_ uint64, items []Dispatch) {
	for _, d := range items {
		if r.off.Load() {
			return
		}
		r.n.Add(1)
		ref := fsm.AttemptRef{Ref: d.Task.Ref(), Token: d.Task.Token}
		go func() { // as server.onGiveBack
			r.c.sched.Room("w1", 4)
			time.Sleep(commitDelay)
			r.c.apply(fsm.GiveBack{Attempts: []fsm.AttemptRef{ref}, Reason: "the supervisor is not running"})
		}()
	}
}

// Refusals must not make the loop assign, and Raft commit, without a pause.
func TestAWorkerThatRefusesEverythingIsNotAskedAtRaftSpeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := &refuser{c: c, gone: make(chan struct{})}
		_, err := c.sched.Attach(t.Context(), w, Hello{
			Worker: fsm.RegisterWorker{Name: "w1", Boot: "b1", Slots: 4}, Offers: []string{"handler:work"},
		})
		if err != nil {
			t.Fatal(err)
		}
		c.submit(handler(0))
		for range 10 {
			time.Sleep(time.Second)
			c.sched.Renew("w1", "b1")
			c.sched.Room("w1", 4)
		}
		w.off.Store(true)
		time.Sleep(time.Second)
		if n := w.n.Load(); n > 50 {
			t.Errorf("one task was assigned and given back %d times in 10 s", n)
		}
	})
}

// What comes in while the loop works must wake it for another turn: with a
// channel without room the signal is lost, and the message waits for the timer.
func TestAMessageDuringATurnIsHandledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		time.Sleep(houseInterval / 4) // off the loop's own beat
		began := time.Now()
		handled := make(chan time.Duration, 1)
		c.sched.inbox.put(func(l *loop) {
			l.inbox.put(func(*loop) { handled <- time.Since(began) })
		})
		if d := <-handled; d > 5*time.Millisecond {
			t.Errorf("a message that came during a turn waited %s", d)
		}
	})
}

// Changes of jobs that have nothing to do with it must not hide a task behind
// those that no worker fits.
func TestUnrelatedChangesDontHideTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		w := c.worker("w1", 1, time.Millisecond)
		w.mustConnect()
		picky := handler(0)
		picky.Policy.Selector = map[string]string{"gpu": "yes"}
		specs := make([]job.TaskSpec, maxUnfit+4*maxScan)
		for i := range specs {
			specs[i] = picky
		}
		c.submit(specs...)
		time.Sleep(time.Minute)
		var refs []fsm.TaskRef
		for i := range 100 {
			spec := job.Spec{Executor: job.Executor{Handler: "other"}, Description: time.Duration(i).String()}
			if res := c.apply(fsm.PutJob{Namespace: "default", Name: "unrelated", Spec: spec}); res.Err != nil {
				t.Fatal(res.Err)
			}
			if i%10 == 0 {
				refs = append(refs, c.submit(handler(0))...)
			}
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(100 * time.Millisecond)
		for _, ref := range refs {
			if s := c.task(ref).State; s != job.Success {
				t.Errorf("a task is %s while unrelated jobs change, want success", s)
			}
		}
		gpu := c.worker("w2", 100, time.Millisecond)
		gpu.labels = map[string]string{"gpu": "yes"}
		gpu.mustConnect()
		time.Sleep(time.Minute)
		if n := len(gpu.seen()); n != len(specs) {
			t.Errorf("%d of %d tasks ran once a worker fitted them", n, len(specs))
		}
	})
}

// The only worker of a shape goes while half of memory is full of its tasks.
func TestTasksWhoseWorkerIsGoneDontHideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, func(cfg *Config) { cfg.MaxLoaded = 1000 })
		gpu := c.worker("w2", 1, 0)
		gpu.labels = map[string]string{"gpu": "yes"}
		gpu.mustConnect()
		picky := handler(0)
		picky.Policy.Selector = map[string]string{"gpu": "yes"}
		specs := make([]job.TaskSpec, 3000)
		for i := range specs {
			specs[i] = picky
		}
		c.submit(specs...)
		time.Sleep(time.Second)
		gpu.disconnect()
		w := c.worker("w1", 1, time.Millisecond)
		w.mustConnect()
		ref := c.submit(handler(0))[0]
		time.Sleep(5 * time.Second)
		if s := c.task(ref).State; s != job.Success {
			t.Errorf("a task that fits is %s behind those whose worker is gone, want success", s)
		}
	})
}

// A life that registered and was never heard of again is counted as lost.
func TestALifeThatRegisteredAndVanishedIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, h := newHooked(t)
		w := c.worker("w1", 1, 0)
		h.set(func(cmd fsm.Command, done func(fsm.Result, error)) bool {
			if _, ok := cmd.(fsm.RegisterWorker); !ok {
				return false
			}
			go func() {
				res := c.apply(cmd)
				w.disconnect()
				synctest.Wait()
				done(res, nil)
			}()
			return true
		})
		if err := w.connect(); err == nil {
			t.Fatal("a connection that ended was attached")
		}
		h.set(nil)
		time.Sleep(time.Minute)
		r, release := c.Read()
		defer release()
		if rec, ok := fsm.GetWorker(r, "w1"); !ok || !rec.Lost {
			t.Errorf("the worker is %+v a minute later, want it lost", rec)
		}
	})
}
