package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

func TestHelloDeclaresTheWorker(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w := newWorker(t, l, func(c *Config) { c.Labels, c.Version = map[string]string{"zone": "a"}, "v1" })
	runWorker(t, w)
	h := receive(t, l.hellos, patience)
	if h.Name != "w1" || h.Slots != 2 || h.Labels["zone"] != "a" || h.Version != "v1" || h.Boot == "" || len(h.Held) != 0 {
		t.Errorf("got %+v", h)
	}
	if !slices.Contains(h.Kinds, "handler:echo") || slices.Contains(h.Kinds, "exec") {
		t.Errorf("kinds: %v", h.Kinds)
	}
}

func TestHandlers(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	g := newGauge(t)
	for _, c := range []struct {
		name    string
		timeout int64
		kill    string
		outcome job.Outcome
		output  string
		text    string
	}{
		{name: "echo", outcome: job.OutcomeSuccess, output: `{"a":1}`},
		{name: "fail", outcome: job.OutcomeFailed, output: "partial", text: "no luck"},
		{name: "panic", outcome: job.OutcomeFailed, text: "handler panic panicked: oh"},
		{name: "large", outcome: job.OutcomeSuccess, text: "output of 16385 bytes is over the limit of 16384 and was not kept"},
		{name: "wait", timeout: 50, outcome: job.OutcomeTimeout, text: "the attempt's time-out has passed"},
		{name: "wait", kill: rpc.KillCancel, outcome: job.OutcomeCancelled, text: "the task was cancelled"},
		{name: "deaf", timeout: 20, outcome: job.OutcomeSuccess, output: "done"},
	} {
		item := l.item(handler(c.name), func(i *rpc.DispatchItem) { i.TimeoutMS = c.timeout })
		l.dispatch(item)
		if c.kill != "" {
			eventually(t, patience, "attempt runs", func() bool { return w.Stats().Running == 1 })
			l.kill(item.Ref, c.kill)
		}
		f := receive(t, l.finished, patience)
		if f.Ref != item.Ref || job.Outcome(f.Outcome) != c.outcome || string(f.Output) != c.output || f.Error != c.text {
			t.Errorf("%s: got %+v", c.name, f)
		}
		if f.Started < item.DueMS || f.Ended < f.Started || f.LateStart != f.Started-item.DueMS || f.LateStart > g.within(2*time.Second).Milliseconds() {
			t.Errorf("%s: due %d, started %d, ended %d, late %d", c.name, item.DueMS, f.Started, f.Ended, f.LateStart)
		}
	}
	eventually(t, patience, "all is acknowledged", func() bool { s := w.Stats(); return s.Owed == 0 && s.Free == 2 })
	if s := w.Stats(); s.Started != 7 || s.Finished != 7 {
		t.Errorf("got %+v", s)
	}
}

// A short attempt costs one message, a longer one tells its start.
func TestStartIsToldOfLongAttemptsAlone(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		short, long := b.item(handler("echo")), b.item(handler("slow"))
		b.dispatch(short, long)
		b.pass(time.Second)
		if len(b.started) != 1 || len(b.finished) != 2 {
			t.Fatalf("%d starts and %d ends were told", len(b.started), len(b.finished))
		}
		if s := <-b.started; s.Ref != long.Ref || s.AtMS < long.DueMS {
			t.Errorf("got %+v", s)
		}
	})
}

func TestWhatCannotRunIsGivenBack(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	running := []rpc.DispatchItem{l.item(handler("wait")), l.item(handler("wait"))}
	l.dispatch(running...)
	for name, item := range map[string]rpc.DispatchItem{
		"no free slot": l.item(handler("echo")),
		"the worker does not offer the executor handler unknown": l.item(handler("unknown")),
		"the worker does not offer the executor exec ":           l.item(sh("true")),
	} {
		l.dispatch(item)
		g := receive(t, l.giveBacks, patience)
		if g.Reason != name || len(g.Refs) != 1 || g.Refs[0] != item.Ref || g.Free != 0 {
			t.Errorf("%s: got %+v", name, g)
		}
	}
	for _, item := range running {
		l.kill(item.Ref, rpc.KillCancel)
		receive(t, l.finished, patience)
	}
	eventually(t, patience, "slots are free", func() bool { return w.Stats().Free == 2 })
}

func TestSecondDispatchIsDropped(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	item := l.item(handler("wait"))
	l.dispatch(item)
	l.dispatch(item, item)
	eventually(t, patience, "duplicates are counted", func() bool { return w.Stats().Duplicates == 2 })
	l.kill(item.Ref, rpc.KillCancel)
	receive(t, l.finished, patience)
	eventually(t, patience, "the result is acknowledged", func() bool { return w.Stats().Owed == 0 })
	l.dispatch(item) // late, after the end
	eventually(t, patience, "duplicates are counted", func() bool { return w.Stats().Duplicates == 3 })
	if s := w.Stats(); s.Started != 1 || s.GivenBack != 0 {
		t.Errorf("got %+v", s)
	}
}

func TestNewerAttemptWaitsForTheOlderOnesEnd(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w := newWorker(t, l)
	var running atomic.Int32
	w.Handle("alone", func(ctx context.Context, task Task) ([]byte, error) {
		defer running.Add(-1)
		if running.Add(1) > 1 {
			return nil, errors.New("not alone")
		}
		if task.Attempt == 1 {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}
		return nil, nil
	})
	runWorker(t, w)
	receive(t, l.hellos, patience)
	older := l.item(handler("alone"))
	newer := l.item(handler("alone"), func(i *rpc.DispatchItem) { i.Ref.ID, i.Ref.Attempt = older.Ref.ID, 2 })
	l.dispatch(older)
	eventually(t, patience, "the older one runs", func() bool { return w.Stats().Started == 1 })
	l.dispatch(newer)
	got := map[rpc.Ref]finish{}
	for len(got) < 2 {
		f := receive(t, l.finished, patience)
		got[f.Ref] = f
	}
	first, second := got[older.Ref], got[newer.Ref]
	if job.Outcome(first.Outcome) != job.OutcomeLost || job.Outcome(second.Outcome) != job.OutcomeSuccess {
		t.Errorf("got %+v, then %+v", first, second)
	}
}

func TestDeposedLeadersDispatchIsDropped(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	l.with(func() { l.term = 7 })
	eventually(t, patience, "the term is known", func() bool {
		w.terms.mu.Lock()
		defer w.terms.mu.Unlock()
		return w.terms.highest == 7
	})
	l.notify(rpc.MethodDispatch, rpc.Dispatch{Term: 6, NowUS: time.Now().UnixMicro(), Items: []rpc.DispatchItem{l.item(handler("echo"))}})
	item := l.item(handler("echo"))
	l.dispatch(item)
	if f := receive(t, l.finished, patience); f.Ref != item.Ref {
		t.Errorf("got %+v", f)
	}
	if s := w.Stats(); s.Started != 1 {
		t.Errorf("got %+v", s)
	}
}

func TestDeposedLeaderGetsNoSession(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	w.terms.see(9)
	until := func() time.Duration { _, kill := w.lease.ends(0); return kill }
	eventually(t, patience, "it is asked again, in vain", func() bool { return len(l.hellos) > 1 })
	before := until()
	receive(t, l.hellos, patience)
	if until() != before {
		t.Error("a deposed leader renewed the lease")
	}
}

func TestFollowsTheWayToTheLeader(t *testing.T) {
	t.Parallel()
	l, other := newLeader(t), newLeader(t)
	other.with(func() { other.redirect = l.addr })
	w := newWorker(t, l, func(c *Config) { c.Servers = func() []string { return []string{other.addr} } })
	runWorker(t, w)
	receive(t, l.hellos, patience)
}

// The leader may have counted the lease from when it got the heartbeat, so the
// worker must not count from when it got the answer.
func TestLeaseCountsFromSending(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.with(func() { l.ttl, l.slow = shortTTL, 300*time.Millisecond })
	w, _ := startWorker(t, l)
	eventually(t, patience, "a heartbeat was answered", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.heartbeats > 1
	})
	for judged := 0; judged < 3; {
		l.mu.Lock()
		n := l.heartbeats
		l.mu.Unlock()
		var heard time.Duration
		eventually(t, patience, "another heartbeat", func() bool {
			l.mu.Lock()
			defer l.mu.Unlock()
			heard = l.heard
			return l.heartbeats > n
		})
		_, before := w.lease.ends(0)
		if boottime() >= heard+l.slow {
			continue // it may be answered by now
		}
		judged++
		if before > heard+shortTTL-l.slow+100*time.Millisecond {
			t.Errorf("the lease ends %v after the latest heartbeat came, which is not answered yet", before-heard)
		}
	}
}

func TestLostAnswerIsAskedForAgain(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	l.with(func() { l.closeOnFirst = true })
	item, running := l.item(handler("echo")), l.item(handler("wait"))
	l.dispatch(running, item)
	first := receive(t, l.finished, patience)
	h := receive(t, l.hellos, patience)
	want := []rpc.Held{{Ref: item.Ref, Finished: true}, {Ref: running.Ref, Running: true}}
	if len(h.Held) != 2 || !slices.Contains(h.Held, want[0]) || !slices.Contains(h.Held, want[1]) {
		t.Errorf("held: %+v", h.Held)
	}
	second := receive(t, l.finished, patience)
	if first.Ref != item.Ref || fmt.Sprint(first) != fmt.Sprint(second) {
		t.Errorf("got %+v, then %+v", first, second)
	}
	eventually(t, patience, "it is acknowledged", func() bool { return w.Stats().Owed == 0 })
	l.kill(running.Ref, rpc.KillCancel)
	receive(t, l.finished, patience)
}

func TestRefusedResultIsSentAgain(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	l.with(func() { l.refuse = &rpc.Error{Code: string(job.CodeOverloaded), Text: "full"} })
	l.dispatch(l.item(handler("echo")))
	eventually(t, patience, "a result is owed", func() bool { return w.Stats().Owed == 1 })
	l.with(func() { l.refuse = nil })
	receive(t, l.finished, patience)
	eventually(t, patience, "it is acknowledged", func() bool { return w.Stats().Owed == 0 })
}

func TestHandlerStopsBeforeTheLeaseEnds(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.with(func() { l.ttl = shortTTL })
	w, _ := startWorker(t, l)
	item := l.item(handler("wait"))
	continues := l.item(handler("slow"), func(i *rpc.DispatchItem) { i.Continue = true })
	l.dispatch(item, continues)
	eventually(t, patience, "both run", func() bool { return w.Stats().Started == 2 })
	l.with(func() { l.deaf = true })
	eventually(t, patience, "it was stopped", func() bool { return w.Stats().Running == 0 })
	if _, end := w.lease.ends(0); boottime() > end+slop {
		t.Errorf("it was stopped %v after the lease's end", boottime()-end)
	}
	l.with(func() { l.deaf = false })
	got := map[rpc.Ref]finish{}
	for len(got) < 2 {
		f := receive(t, l.finished, patience)
		got[f.Ref] = f
	}
	if f := got[item.Ref]; job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
	if f := got[continues.Ref]; job.Outcome(f.Outcome) != job.OutcomeSuccess {
		t.Errorf("got %+v", f)
	}
}

func TestFollowStreams(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	startWorker(t, l, withExec(dir))
	item := l.item(sh(`printf a; echo ready > "$AXD_OUTPUT_FILE"; while ! test -e go; do sleep 0.02; done; printf b; sleep 0.05; printf c >&2`))
	l.dispatch(item)
	receive(t, l.started, patience)
	type out struct {
		text string
		err  error
	}
	results := make(chan out, 2)
	begun := make(chan struct{}, 16)
	for i := range 2 {
		ref := item.Ref
		if i == 1 {
			ref.Token = rpc.Token{} // whatever runs
		}
		go func() {
			var text bytes.Buffer
			l.mu.Lock()
			conn := l.conn
			l.mu.Unlock()
			err := conn.Stream(t.Context(), rpc.MethodFollow, rpc.Follow{Ref: ref}, func(decode func(any) error) error {
				var o rpc.Output
				if err := decode(&o); err != nil {
					return err
				}
				text.Write(o.Data)
				begun <- struct{}{}
				return nil
			})
			results <- out{text.String(), err}
		}()
	}
	receive(t, begun, patience)
	receive(t, begun, patience)
	letGo(t, dir, item)
	for range 2 {
		if r := receive(t, results, patience); r.err != nil || r.text != "abc" {
			t.Errorf("got %q, %v", r.text, r.err)
		}
	}
	if f := receive(t, l.finished, patience); string(f.Stdout) != "ab" || string(f.Stderr) != "c" || string(f.Output) != "ready\n" {
		t.Errorf("got %+v", f)
	}
	var late bytes.Buffer // who comes a moment after the end gets it all the same
	err := l.conn.Stream(t.Context(), rpc.MethodFollow, rpc.Follow{Ref: item.Ref}, func(decode func(any) error) error {
		var o rpc.Output
		err := decode(&o)
		late.Write(o.Data)
		return err
	})
	if err != nil || late.String() != "abc" {
		t.Errorf("of an attempt that has just ended: %q, %v", late.String(), err)
	}
	unknown := item.Ref
	unknown.ID[0]++
	if err := l.conn.Stream(t.Context(), rpc.MethodFollow, rpc.Follow{Ref: unknown}, nil); err != nil {
		t.Errorf("of an attempt that is not known: %v", err)
	}
}

// The lease is looked at when an attempt starts, since a dispatch may have
// waited in a buffer while the worker was stopped.
func TestNothingStartsWithoutALease(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	count := func() int { l.mu.Lock(); defer l.mu.Unlock(); return l.heartbeats }
	l.with(func() { l.deaf = true })
	before := count()
	eventually(t, patience, "a heartbeat waits for its answer", func() bool { return count() > before })
	w.lease.mu.Lock()
	w.lease.until = boottime()
	w.lease.mu.Unlock()
	item := l.item(handler("echo"))
	l.dispatch(item)
	if g := receive(t, l.giveBacks, patience); g.Refs[0] != item.Ref || g.Reason != "the worker has lost contact with the leader" {
		t.Errorf("got %+v", g)
	}
	if s := w.Stats(); s.Started != 0 {
		t.Errorf("got %+v", s)
	}
	l.with(func() { l.deaf = false })
}

// Who followed an attempt to its end looks up its result, which must be there.
func TestFollowEndsWhenTheLeaderHasTheResult(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	l.with(func() { l.refuse = &rpc.Error{Code: string(job.CodeOverloaded), Text: "full"} })
	item := l.item(handler("slow"))
	l.dispatch(item)
	ended := make(chan error, 2)
	follow := func() { ended <- l.conn.Stream(t.Context(), rpc.MethodFollow, rpc.Follow{Ref: item.Ref}, nil) }
	go follow()
	eventually(t, patience, "the attempt has ended", func() bool { return w.Stats().Owed == 1 })
	go follow() // too late for its output
	l.mu.Lock()
	if len(ended) != 0 {
		t.Error("a follower was let go before the result was taken")
	}
	l.refuse = nil
	l.mu.Unlock()
	receive(t, l.finished, patience)
	for range 2 {
		if err := receive(t, ended, patience); err != nil {
			t.Error(err)
		}
	}
}

// letGo lets a command go on that waits for the file "go" in its directory.
func letGo(t *testing.T, dir string, item rpc.DispatchItem) {
	t.Helper()
	work := filepath.Join(dir, "attempts", "default", refName(item.Ref), "work")
	if err := os.WriteFile(filepath.Join(work, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
}
