package worker

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// arming is a leader and a worker in a bubble of the test's own time.
type arming struct {
	*leader
	w   *Worker
	end func() error

	mu     sync.Mutex
	starts map[job.ID][]time.Time
	late   map[job.ID]time.Duration
}

func inBubble(t *testing.T, test func(t *testing.T, b *arming), change ...func(*Config)) {
	t.Helper()
	inBubbleAhead(t, 0, test, change...)
}

// inBubbleAhead is inBubble with a cluster's clock that isn't the worker's.
func inBubbleAhead(t *testing.T, ahead time.Duration, test func(t *testing.T, b *arming), change ...func(*Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p, began := newPipes(), time.Now()
		b := &arming{leader: newLeaderOn(t, p), starts: map[job.ID][]time.Time{}, late: map[job.ID]time.Duration{}}
		b.ahead = ahead
		b.w = newWorker(t, b.leader, append([]func(*Config){func(c *Config) {
			c.Dial, c.Slots, c.Clock = p.dial, 300, func() time.Duration { return time.Since(began) }
		}}, change...)...)
		b.w.Handle("note", func(_ context.Context, task Task) ([]byte, error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.starts[task.ID] = append(b.starts[task.ID], time.Now())
			b.late[task.ID] = task.Late
			return nil, nil
		})
		b.end = runWorker(t, b.w)
		receive(t, b.hellos, 5*time.Second)
		test(t, b)
		if err := b.end(); err != nil {
			t.Error(err)
		}
		b.stop()
	})
}

// pass lets the bubble's time pass.
func (b *arming) pass(d time.Duration) { time.Sleep(d) }

// in makes a dispatch that is due after a time, by the cluster's clock.
func (b *arming) in(d time.Duration, change ...func(*rpc.DispatchItem)) rpc.DispatchItem {
	item := b.item(handler("note"), change...)
	item.DueMS = time.Now().Add(b.ahead + d).UnixMilli()
	return item
}

// checkStarts wants each to have started once, in time by the cluster's clock.
func (b *arming) checkStarts(t *testing.T, ahead time.Duration, items ...rpc.DispatchItem) {
	t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, item := range items {
		at := b.starts[item.Ref.ID]
		if len(at) != 1 {
			t.Errorf("started %d times", len(at))
			continue
		}
		late := at[0].Add(ahead).Sub(time.UnixMilli(item.DueMS))
		if late < 0 || late > 5*time.Millisecond || b.late[item.Ref.ID] > late {
			t.Errorf("started %v late, told the handler %v", late, b.late[item.Ref.ID])
		}
	}
}

func TestArmedAttemptsStartInTimeWithoutASlotBefore(t *testing.T) {
	t.Parallel()
	const ahead = -37 * time.Minute
	inBubbleAhead(t, ahead, func(t *testing.T, b *arming) {
		var items []rpc.DispatchItem
		for i := range 300 {
			items = append(items, b.in(time.Duration(i*10)*time.Millisecond))
		}
		slices.Reverse(items)
		b.dispatch(items...)
		synctest.Wait()
		if s := b.w.Stats(); s.Armed != 299 || s.Free != 300 {
			t.Errorf("before they are due: %+v", s)
		}
		time.Sleep(4 * time.Second)
		b.checkStarts(t, ahead, items...)
	})
}

// A leader that dies delays nothing that it armed, nor does the clock of the
// next one change when that starts.
func TestArmedAttemptsStartWithoutALeader(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		var items []rpc.DispatchItem
		for i := range 200 {
			items = append(items, b.in(time.Duration(i*15)*time.Millisecond+time.Millisecond))
		}
		b.dispatch(items...)
		synctest.Wait()
		b.with(func() { b.deaf, b.ahead = true, -time.Second }) // no hello is answered
		_ = b.conn.Close()
		time.Sleep(1500 * time.Millisecond)
		b.checkStarts(t, 0, items[:100]...)
		b.with(func() { b.deaf, b.term = false, 2 })
		h := receive(t, b.hellos, 5*time.Second)
		armed := 0
		for _, held := range h.Held {
			if !held.Running && !held.Finished {
				armed++
			}
		}
		if armed < 50 || armed > 100 {
			t.Errorf("%d armed attempts are declared", armed)
		}
		next := b.in(time.Second)
		b.dispatch(next, items[199]) // sent again, with the same token
		time.Sleep(3 * time.Second)
		b.checkStarts(t, 0, items...)
		b.checkStarts(t, -time.Second, next)
	})
}

// A leader that ran far ahead sets its clock back: what is armed waits for the
// cluster's clock as it is now.
func TestArmedAttemptsWaitForAClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	const ahead = 40 * time.Second
	inBubbleAhead(t, ahead, func(t *testing.T, b *arming) {
		item := b.in(2 * time.Second)
		b.dispatch(item)
		synctest.Wait()
		b.with(func() { b.ahead = 0 })
		time.Sleep(ahead)
		if s := b.w.Stats(); s.Started != 0 || s.Armed != 1 {
			t.Errorf("before its time: %+v", s)
		}
		time.Sleep(5 * time.Second)
		b.checkStarts(t, 0, item)
	})
}

// So it does where the leader ends its sessions with that, or where its successor
// knows better.
func TestArmedAttemptsWaitForTheClockOfTheNextSession(t *testing.T) {
	t.Parallel()
	const ahead = 40 * time.Second
	inBubbleAhead(t, ahead, func(t *testing.T, b *arming) {
		item := b.in(2 * time.Second)
		b.dispatch(item)
		synctest.Wait()
		b.with(func() { b.ahead = 0 })
		_ = b.conn.Close()
		receive(t, b.hellos, 5*time.Second)
		time.Sleep(ahead)
		if s := b.w.Stats(); s.Started != 0 || s.Armed != 1 {
			t.Errorf("before its time: %+v", s)
		}
		time.Sleep(5 * time.Second)
		b.checkStarts(t, 0, item)
	})
}

func TestArmedAttemptWithoutALeaseDoesNotStart(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		item := b.in(longTTL + time.Second)
		b.dispatch(item)
		synctest.Wait()
		b.with(func() { b.deaf = true })
		_ = b.conn.Close()
		time.Sleep(longTTL + 2*time.Second)
		b.with(func() { b.deaf = false })
		if g := receive(t, b.giveBacks, 5*time.Second); g.Refs[0] != item.Ref || g.Reason != stopCause(stopLease).Error() {
			t.Errorf("got %+v", g)
		}
		if s := b.w.Stats(); s.Started != 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestArmedAttemptWithoutASlotIsGivenBackWhenDue(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		busy := b.item(handler("wait"))
		item, later := b.in(time.Second), b.in(2*time.Second)
		b.dispatch(busy, item, later)
		if g := receive(t, b.giveBacks, 1010*time.Millisecond); len(g.Refs) != 1 || g.Refs[0] != item.Ref || g.Free != 0 || g.Reason != "no free slot" {
			t.Errorf("got %+v", g)
		}
		b.kill(busy.Ref, rpc.KillCancel)
		time.Sleep(2 * time.Second)
		b.checkStarts(t, 0, later)
	}, func(c *Config) { c.Slots = 1 })
}

func TestArmedAttemptsAreTakenBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		running := b.item(handler("wait"))
		revoked, killed, stays := b.in(time.Second), b.in(time.Second), b.in(time.Second)
		b.dispatch(running, revoked, killed, stays)
		b.notify(rpc.MethodRevoke, rpc.Revoke{Refs: []rpc.Ref{revoked.Ref, running.Ref, {}}})
		if g := receive(t, b.giveBacks, time.Second); len(g.Refs) != 1 || g.Refs[0] != revoked.Ref || g.Reason != "revoked" {
			t.Errorf("got %+v", g)
		}
		b.kill(killed.Ref, rpc.KillCancel)
		f := receive(t, b.finished, time.Second)
		if f.Ref != killed.Ref || job.Outcome(f.Outcome) != job.OutcomeCancelled || f.Started != 0 {
			t.Errorf("got %+v", f)
		}
		time.Sleep(2 * time.Second)
		b.checkStarts(t, 0, stays)
		if s := b.w.Stats(); s.Started != 2 || s.Running != 1 || s.Armed != 0 {
			t.Errorf("got %+v", s)
		}
		b.kill(running.Ref, rpc.KillCancel)
		time.Sleep(time.Second)
	})
}

func TestNewerAttemptTakesTheArmedOnesPlace(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		older := b.in(time.Second)
		newer := b.in(2*time.Second, func(i *rpc.DispatchItem) { i.Ref.ID, i.Ref.Attempt = older.Ref.ID, 2 })
		b.dispatch(older, newer, older)
		if g := receive(t, b.giveBacks, time.Second); len(g.Refs) != 1 || g.Refs[0] != older.Ref {
			t.Errorf("got %+v", g)
		}
		time.Sleep(3 * time.Second)
		b.checkStarts(t, 0, newer)
		if s := b.w.Stats(); s.Duplicates != 1 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestDrainGivesArmedAttemptsBack(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		item := b.in(time.Hour)
		b.dispatch(item)
		synctest.Wait()
		if err := b.end(); err != nil {
			t.Error(err)
		}
		if g := receive(t, b.giveBacks, time.Second); g.Refs[0] != item.Ref || g.Reason != "the worker drains" {
			t.Errorf("got %+v", g)
		}
	})
}

func TestArmedAttemptsAreBounded(t *testing.T) {
	t.Parallel()
	tb := newTable(1)
	armed := func(n int) *attempt {
		return &attempt{item: rpc.DispatchItem{Ref: refOf(n), DueMS: int64(n * 7919 % 1000)}}
	}
	for i := range maxArmed {
		if v, _ := tb.accept(armed(i), true); v != verdictArmed {
			t.Fatalf("the %dth: verdict %d", i, v)
		}
	}
	if v, _ := tb.accept(armed(maxArmed), true); v != verdictTooManyArmed {
		t.Errorf("one too many: verdict %d", v)
	}
	for i := range maxArmed / 2 {
		if !tb.disarm(refOf(2*i)) || tb.disarm(refOf(2*i)) {
			t.Fatal("it is not taken back once")
		}
	}
	tb.pinStarts(new(clusterClock)) // of an unknown clock: they never start
	if v, _ := tb.accept(armed(maxArmed), true); v != verdictArmed {
		t.Errorf("where there is room again: verdict %d", v)
	}
	if got := len(tb.disarmAll()); got != maxArmed/2+1 || tb.counts().Armed != 0 {
		t.Errorf("%d were armed, then %d", got, tb.counts().Armed)
	}
}

// The kernel's alarm must go off when it should, and be set anew while it waits.
func TestKernelAlarm(t *testing.T) {
	t.Parallel()
	a, err := newAlarm(boottime, false)
	if err != nil {
		t.Fatal(err)
	}
	rings := make(chan time.Duration)
	go func() {
		defer close(rings)
		for a.wait() {
			rings <- boottime()
		}
	}()
	a.set(boottime() + time.Hour)
	for _, d := range []time.Duration{20 * time.Millisecond, 300 * time.Microsecond, -time.Second} {
		at := boottime() + d
		a.set(at)
		if rang := receive(t, rings, patience); rang < at {
			t.Errorf("%v: rang %v early", d, at-rang)
		}
	}
	at := boottime() + 100*time.Millisecond
	a.set(at)
	a.set(never)
	inTime := boottime() < at
	select {
	case <-rings:
		if inTime {
			t.Error("rang though it was set to never")
		}
	case <-time.After(150 * time.Millisecond):
	}
	a.close()
	if _, more := <-rings; more {
		t.Error("rang after it was closed")
	}
	a.set(boottime()) // does no harm
}

// What is armed leaves slots free that are kept for high priority, which finds them.
func TestArmedAttemptsLeaveKeptSlotsFree(t *testing.T) {
	tb := newTable(3)
	attemptOfTask := func(n int, lesser bool) *attempt {
		a := &attempt{item: rpc.DispatchItem{Ref: refOf(n)}}
		if a.item.Lesser = lesser; lesser {
			a.item.MostLesser = 2
		}
		return a
	}
	for n := range 4 {
		if v, _ := tb.accept(attemptOfTask(n+1, n < 3), true); v != verdictArmed {
			t.Fatalf("verdict %d", v)
		}
	}
	start, full := tb.takeDue(new(clusterClock), 0)
	if len(start) != 3 || len(full) != 1 || !full[0].item.Lesser {
		t.Fatalf("%d start, %d find no slot", len(start), len(full))
	}
	// One that comes late for its time is judged alike.
	late := attemptOfTask(9, true)
	for _, a := range start {
		if !a.item.Lesser {
			tb.release(a)
		}
	}
	if v, _ := tb.accept(late, false); v != verdictNoSlot {
		t.Errorf("with a slot kept: verdict %d", v)
	}
	for _, a := range start {
		if a.item.Lesser {
			tb.release(a)
			break
		}
	}
	if v, _ := tb.accept(late, false); v != verdictStart {
		t.Errorf("with a slot of its own: verdict %d", v)
	}
}
