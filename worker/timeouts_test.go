package worker

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

func beatEvery(d time.Duration) func(*rpc.DispatchItem) {
	return func(i *rpc.DispatchItem) { i.HeartbeatMS = d.Milliseconds() }
}

// Case K4-01: at a time-out and at a cancel the whole tree gets TERM, and after the
// grace KILL; nothing of it is left when the result is told.
func TestK4_01_TimeoutEndsAllProcesses(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"background children": `sleep 300 & sleep 300 & wait`,
		"ignores TERM":        `(trap "" TERM; sleep 300) & sleep 300`,
		"double fork":         `(setsid sh -c '(trap "" TERM; sleep 300) & sleep 300' &) ; sleep 300`,
	} {
		for _, c := range []struct {
			ending string
			want   job.Outcome
		}{{"time-out", job.OutcomeTimeout}, {"total time-out", job.OutcomeTimeout}, {"cancel", job.OutcomeCancelled}} {
			t.Run(name+"/"+c.ending, func(t *testing.T) {
				t.Parallel()
				l := newLeader(t)
				dir := t.TempDir()
				startWorker(t, l, withExec(dir))
				const limit, grace = time.Second, 500 * time.Millisecond
				item := l.item(sh(script), func(i *rpc.DispatchItem) {
					i.GraceMS = grace.Milliseconds()
					switch c.ending {
					case "time-out":
						i.TimeoutMS = limit.Milliseconds()
					case "total time-out":
						i.TimeoutMS, i.EndByMS = time.Hour.Milliseconds(), time.Now().Add(limit).UnixMilli()
					}
				})
				g := newGauge(t)
				l.dispatch(item)
				receive(t, l.started, patience)
				if c.want == job.OutcomeCancelled {
					l.kill(item.Ref, rpc.KillCancel)
				}
				f := receive(t, l.finished, patience)
				if job.Outcome(f.Outcome) != c.want || f.Ended-f.Started > g.within(limit+grace+leftoverLimit).Milliseconds() {
					t.Errorf("%v after %d ms: %s", job.Outcome(f.Outcome), f.Ended-f.Started, f.Error)
				}
				if left := marked(dir, item); len(left) > 0 {
					t.Errorf("processes %v are left", left)
				}
			})
		}
	}
}

// Case K4-02: a child that holds the output's pipe doesn't hold the job; it is ended.
func TestK4_02_BackgroundChildHoldsNoJob(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"in the group": `sleep 60 & echo done; exit 0`,
		"own session":  `setsid sleep 60 & echo done; exit 0`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeader(t)
			dir := t.TempDir()
			startWorker(t, l, withExec(dir))
			item := l.item(sh(script))
			l.dispatch(item)
			f := receive(t, l.finished, patience)
			if job.Outcome(f.Outcome) != job.OutcomeSuccess || *f.ExitCode != 0 || string(f.Stdout) != "done\n" {
				t.Errorf("got %+v", f)
			}
			if left := marked(dir, item); len(left) > 0 {
				t.Errorf("processes %v are left", left)
			}
		})
	}
}

func TestNothingStartsAfterTheTotalTimeout(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	l.dispatch(l.item(handler("wait"), func(i *rpc.DispatchItem) { i.EndByMS = time.Now().UnixMilli() - 1 }))
	if f := receive(t, l.finished, patience); job.Outcome(f.Outcome) != job.OutcomeTimeout || f.Started != 0 {
		t.Errorf("got %+v", f)
	}
	l.dispatch(l.item(handler("wait"), func(i *rpc.DispatchItem) { i.EndByMS = time.Now().UnixMilli() + 300 }))
	f := receive(t, l.finished, patience)
	if job.Outcome(f.Outcome) != job.OutcomeTimeout || f.Error != stopCause(stopTotal).Error() {
		t.Errorf("got %+v", f)
	}
	if n := w.Stats().Started; n != 1 {
		t.Errorf("%d attempts ran", n)
	}
}

// A command beats by writing to the descriptor that AXD_HEARTBEAT_FD names.
func TestCommandThatFallsSilentIsEnded(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	startWorker(t, l, withExec(dir), func(c *Config) { c.Slots = 4 })
	const limit = time.Second
	silent := l.item(sh(`(trap "" TERM; sleep 300) & sleep 300`), beatEvery(limit))
	falls := l.item(sh(`for i in 1 2 3 4 5 6; do echo $i >&3; sleep 0.25; done; sleep 300`), beatEvery(limit))
	beats := l.item(sh(`for i in 1 2 3 4 5 6 7 8; do echo beat >&$AXD_HEARTBEAT_FD; sleep 0.25; done; echo done`), beatEvery(limit))
	flood := l.item(sh(`head -c 1000000 /dev/zero >&3; echo done`), beatEvery(limit))
	plain := l.item(sh(`test -z "$AXD_HEARTBEAT_FD" `)) // without the time-out there is none
	g := newGauge(t)
	l.dispatch(silent, falls, beats, flood)
	got := map[rpc.Ref]finish{}
	for len(got) < 4 {
		f := receive(t, l.finished, patience)
		got[f.Ref] = f
	}
	l.dispatch(plain)
	got[plain.Ref] = receive(t, l.finished, patience)
	for _, c := range []struct {
		name    string
		item    rpc.DispatchItem
		outcome job.Outcome
		least   time.Duration
		most    time.Duration
	}{
		{"silent", silent, job.OutcomeTimeout, limit, g.within(2500 * time.Millisecond)},
		{"fell silent", falls, job.OutcomeTimeout, 1200*time.Millisecond + limit, g.within(4 * time.Second)},
		{"beats", beats, job.OutcomeSuccess, 2 * limit, time.Minute},
		{"flood", flood, job.OutcomeSuccess, 0, time.Minute},
		{"without", plain, job.OutcomeSuccess, 0, time.Minute},
	} {
		f := got[c.item.Ref]
		ran := time.Duration(f.Ended-f.Started) * time.Millisecond
		if job.Outcome(f.Outcome) != c.outcome || ran < c.least || ran > c.most {
			t.Errorf("%s: %v after %v: %s", c.name, job.Outcome(f.Outcome), ran, f.Error)
		}
		if c.outcome == job.OutcomeTimeout && f.Error != stopCause(stopSilent).Error() {
			t.Errorf("%s: %q", c.name, f.Error)
		}
		if left := marked(dir, c.item); len(left) > 0 {
			t.Errorf("%s: processes %v are left", c.name, left)
		}
	}
}

func TestHandlerThatFallsSilentIsEnded(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w := newWorker(t, l)
	w.Handle("beats-five-times", func(ctx context.Context, task Task) ([]byte, error) {
		for range 5 {
			task.Heartbeat()
			sleep(ctx, 300*time.Millisecond)
		}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})
	runWorker(t, w)
	receive(t, l.hellos, patience)
	g := newGauge(t)
	l.dispatch(l.item(handler("beats-five-times"), beatEvery(time.Second)))
	f := receive(t, l.finished, patience)
	if ran := f.Ended - f.Started; job.Outcome(f.Outcome) != job.OutcomeTimeout || ran < 2200 || ran > g.within(3500*time.Millisecond).Milliseconds() ||
		f.Error != stopCause(stopSilent).Error() {
		t.Errorf("%v after %d ms: %s", job.Outcome(f.Outcome), ran, f.Error)
	}
	Task{}.Heartbeat() // a test may call a handler with a task of its own
}

// 500 attempts run on one worker, each with a heartbeat time-out of its own beside
// the worker's one heartbeat: none is timed out that beats, and each that doesn't is.
func TestFiveHundredAttemptsBeat(t *testing.T) {
	t.Parallel()
	const attempts, silent, limit = 500, 25, 1500 * time.Millisecond
	l := newLeader(t)
	w := newWorker(t, l, func(c *Config) { c.Slots = attempts + silent })
	w.Handle("beats", func(ctx context.Context, task Task) ([]byte, error) {
		ticker := time.NewTicker(limit / 4)
		defer ticker.Stop()
		for range 4 * 4 { // four times as long as it may be silent
			select {
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			case <-ticker.C:
				task.Heartbeat()
			}
		}
		return nil, nil
	})
	runWorker(t, w)
	receive(t, l.hellos, patience)
	l.with(func() { l.started = make(chan rpc.StartedItem, attempts+silent) })
	quiet := map[rpc.Ref]bool{}
	for i := range attempts + silent {
		name := "beats"
		if i%21 == 20 {
			name = "wait"
		}
		item := l.item(handler(name), beatEvery(limit))
		quiet[item.Ref] = name == "wait"
		l.dispatch(item)
	}
	for range quiet {
		f := receive(t, l.finished, patience)
		want := job.OutcomeSuccess
		if quiet[f.Ref] {
			want = job.OutcomeTimeout
		}
		if job.Outcome(f.Outcome) != want {
			t.Errorf("%v, want %v: %s", job.Outcome(f.Outcome), want, f.Error)
		}
	}
}

// The pipe is looked into once more before a silence is believed in: a supervisor
// that was late must not take its own lateness for the command's.
func TestLateSupervisorSeesWhatWasWritten(t *testing.T) {
	t.Parallel()
	const s = time.Second
	beats, p, err := openPulse(10 * s)
	if err != nil {
		t.Fatal(err)
	}
	p.begin(100 * s)
	if p.silent(101*s) || p.next() != 101*s+250*time.Millisecond {
		t.Errorf("next look at %v", p.next())
	}
	if _, err := fmt.Fprintln(beats, "alive"); err != nil {
		t.Fatal(err)
	}
	if p.silent(200 * s) {
		t.Error("what was written is overlooked")
	}
	if p.silent(210*s - 1) {
		t.Error("silent too early")
	}
	if err := beats.Close(); err != nil { // it closed the descriptor: silence too
		t.Fatal(err)
	}
	if !p.silent(212 * s) {
		t.Error("it is not silent")
	}
	if err := errors.Join(p.close(), p.close()); err != nil {
		t.Error(err)
	}
	if beats, p, err := openPulse(0); beats != nil || p != nil || err != nil || p.silent(s) || p.next() != never {
		t.Error("a pulse without a limit")
	}
}

// A worker that is cut off ends its commands before its lease does, and those that
// may go on are left alone. Their results come when it is back.
func TestCutOffWorkerEndsItsCommands(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.with(func() { l.ttl = shortTTL })
	dir := t.TempDir()
	startWorker(t, l, withExec(dir))
	dies := l.item(sh(`trap "" TERM; (trap "" TERM; sleep 300) & sleep 300`))
	goesOn := l.item(sh(`sleep 3; echo done`), func(i *rpc.DispatchItem) { i.Continue, i.TimeoutMS = true, 60_000 })
	l.dispatch(dies, goesOn)
	for range 2 {
		receive(t, l.started, patience)
	}
	l.with(func() { l.deaf = true })
	eventually(t, shortTTL+slop, "all of the command is dead", func() bool { return len(marked(dir, dies)) == 0 })
	if len(marked(dir, goesOn)) == 0 {
		t.Error("what may go on was ended too")
	}
	l.with(func() { l.deaf = false })
	for range 2 {
		f := receive(t, l.finished, patience)
		want := map[rpc.Ref]job.Outcome{dies.Ref: job.OutcomeLost, goesOn.Ref: job.OutcomeSuccess}[f.Ref]
		if job.Outcome(f.Outcome) != want {
			t.Errorf("%v, want %v: %s", job.Outcome(f.Outcome), want, f.Error)
		}
	}
}
