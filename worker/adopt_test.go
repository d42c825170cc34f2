package worker

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// goingOn makes a dispatch outlive its worker.
func goingOn(timeout time.Duration) func(*rpc.DispatchItem) {
	return func(i *rpc.DispatchItem) { i.Continue, i.TimeoutMS = true, timeout.Milliseconds() }
}

// killedWorker is a worker process that was killed while it ran the items.
func killedWorker(t *testing.T, l *leader, dir string, items ...rpc.DispatchItem) {
	t.Helper()
	cmd := workerProcess(t, dir, l.addr)
	receive(t, l.hellos, patience)
	l.dispatch(items...)
	for range items {
		receive(t, l.started, patience)
	}
	killWorker(t, cmd)
}

func killWorker(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

func runs(dir string, item rpc.DispatchItem) bool { return len(marked(dir, item)) > 0 }

// A command that is to go on without contact outlives a killed worker, and the
// worker's next life has it again: its slot, its output, its exit code, under the same
// token. Another one dies with the worker.
func TestARestartedWorkerTakesItsCommandsOver(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir, files := t.TempDir(), t.TempDir()
	stays := l.item(sh(`cd `+files+`; echo before; while [ ! -e go ]; do sleep 0.05; done; echo after; echo '{"n":1}' > "$AXD_OUTPUT_FILE"; exit 3`), goingOn(time.Minute))
	dies := l.item(sh(`sleep 300`))
	killedWorker(t, l, dir, stays, dies)
	newGauge(t).eventually(t, time.Second, "the other command is dead", func() bool { return !runs(dir, dies) })

	w, _ := startWorkerHeld(t, l, dir)
	if n := w.Stats().Running; n != 1 {
		t.Errorf("%d slots are taken, want 1", n)
	}
	if f := receive(t, l.finished, patience); f.Ref != dies.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
	if item := receive(t, l.started, patience); item.Ref != stays.Ref {
		t.Errorf("started: %+v", item)
	}
	out := l.followTo(stays.Ref, func(rpc.Output) {})
	eventually(t, patience, "its output is followed", func() bool {
		w.table.mu.Lock()
		defer w.table.mu.Unlock()
		h := w.table.attempts[keyOf(stays.Ref)].hub
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.followers) > 0
	})
	touch(t, fileIn(files, "go"))
	f := receive(t, l.finished, patience)
	if f.Ref != stays.Ref || job.Outcome(f.Outcome) != job.OutcomeFailed || f.ExitCode == nil || *f.ExitCode != 3 ||
		string(f.Stdout) != "before\nafter\n" || strings.TrimSpace(string(f.Output)) != `{"n":1}` {
		t.Errorf("got %+v", f)
	}
	if got := receive(t, out, patience); got.err != nil || !strings.HasSuffix(got.data.String(), "before\nafter\n") {
		t.Errorf("followed %q, %v", got.data.String(), got.err)
	}
	eventually(t, patience, "its directory is gone", func() bool { return !exists(string(w.dir.attempt(stays.Ref))) })
	again := l.item(sh("echo new"))
	l.dispatch(again) // by the supervisor that was taken over
	if f := receive(t, l.finished, patience); f.Ref != again.Ref || string(f.Stdout) != "new\n" {
		t.Errorf("got %+v", f)
	}
}

func touch(t *testing.T, name string) {
	t.Helper()
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// startWorkerHeld starts the next life of a worker, which declares what goes on.
func startWorkerHeld(t *testing.T, l *leader, dir string) (*Worker, rpc.WorkerHello) {
	t.Helper()
	w := newWorker(t, l, withExec(dir))
	runWorker(t, w)
	h := receive(t, l.hellos, patience)
	goesOn := 0
	for _, held := range h.Held {
		if !held.Finished {
			goesOn++
		}
	}
	if goesOn != 1 {
		t.Errorf("held: %+v", h.Held)
	}
	return w, h
}

// What ended while the worker was away is told by its next life, also where that dies
// before the leader knows.
func TestWhatEndedWhileTheWorkerWasAwayIsTold(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir, files := t.TempDir(), t.TempDir()
	item := l.item(sh(`cd `+files+`; while [ ! -e go ]; do sleep 0.05; done; echo done; exit 7`), goingOn(time.Minute))
	killedWorker(t, l, dir, item)
	touch(t, fileIn(files, "go"))
	eventually(t, patience, "the command has ended", func() bool { return !runs(dir, item) })
	newWorkerOf(t, l, dir)
	f := receive(t, l.finished, patience)
	if f.Ref != item.Ref || f.ExitCode == nil || *f.ExitCode != 7 || string(f.Stdout) != "done\n" {
		t.Errorf("got %+v", f)
	}
}

func newWorkerOf(t *testing.T, l *leader, dir string) *Worker {
	t.Helper()
	w, _ := startWorker(t, l, withExec(dir))
	return w
}

// The time-out counts from the start, whoever looks after the command, and a second
// death of the worker changes nothing.
func TestTimeoutsGoOnWithoutTheWorker(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	const limit = 5 * time.Second // a busy machine must not need as long to start a worker
	item := l.item(sh(`sleep 300`), goingOn(limit))
	began := time.Now()
	killedWorker(t, l, dir, item)
	second := workerProcess(t, dir, l.addr)
	if h := receive(t, l.hellos, patience); len(h.Held) != 1 || h.Held[0] != (rpc.Held{Ref: item.Ref, Running: true}) {
		t.Errorf("held: %+v", h.Held)
	}
	killWorker(t, second)
	eventually(t, patience, "the command is dead", func() bool { return !runs(dir, item) })
	if took := time.Since(began); took < limit {
		t.Errorf("it was dead after %v", took)
	}
	newWorkerOf(t, l, dir)
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeTimeout || f.Ended-f.Started < limit.Milliseconds() {
		t.Errorf("got %+v", f)
	}
}

// A cancel reaches a command that was taken over.
func TestACancelReachesWhatWasTakenOver(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	item := l.item(sh(`sleep 300`), goingOn(time.Minute))
	killedWorker(t, l, dir, item)
	newWorkerOf(t, l, dir)
	l.kill(item.Ref, rpc.KillCancel)
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeCancelled || runs(dir, item) {
		t.Errorf("got %+v", f)
	}
}

// Where the supervisor is dead, or hangs, nothing is taken over: what it left is killed
// and lost.
func TestWithoutItsSupervisorNothingGoesOn(t *testing.T) {
	t.Parallel()
	for name, signal := range map[string]unix.Signal{"dead": unix.SIGKILL, "hangs": unix.SIGSTOP} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLeader(t)
			dir := t.TempDir()
			item := l.item(sh(`exec sleep 300`), goingOn(time.Minute)) // one process: the supervisor's child
			killedWorker(t, l, dir, item)
			first, _ := readStat(marked(dir, item)[0])
			if err := unix.Kill(first.parent, signal); err != nil {
				t.Fatal(err)
			}
			newWorkerOf(t, l, dir)
			if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeLost || runs(dir, item) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// A command whose record is gone is not wanted by the next life, and is killed.
func TestWhatNobodyKnowsIsNotTakenOver(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	lost := l.item(sh(`sleep 300`), goingOn(time.Minute))
	stays := l.item(sh(`sleep 300`), goingOn(time.Minute))
	killedWorker(t, l, dir, lost, stays)
	d := dataDir{root: dir}
	if err := os.Remove(d.attempt(lost.Ref).item()); err != nil {
		t.Fatal(err)
	}
	startWorkerHeld(t, l, dir)
	if f := receive(t, l.finished, patience); f.Ref != lost.Ref || job.Outcome(f.Outcome) != job.OutcomeLost || runs(dir, lost) || !runs(dir, stays) {
		t.Errorf("got %+v", f)
	}
}

// A supervisor without a worker ends when nothing is left that another life of it could
// ask for: not before the safe window of what has ended is over.
func TestASupervisorKeepsWhatEndedForTheSafeWindow(t *testing.T) {
	s := &supervisor{commands: map[uint64]*command{}, kept: map[uint64]*keptReport{
		1: {window: safeWindow(10 * time.Second)}, 2: {window: safeWindow(time.Duration(1<<63 - 1))},
	}}
	if s.idle(time.Hour) {
		t.Error("it ends while its worker is there")
	}
	s.abandoned = time.Minute
	if s.idle(time.Minute+15*time.Second-1) || len(s.kept) != 2 {
		t.Errorf("within the window %d reports are kept, want 2", len(s.kept))
	}
	if got := s.untilKept(time.Minute); got != 15*time.Second {
		t.Errorf("it looks again after %v, want 15s", got)
	}
	if s.idle(time.Minute+15*time.Second) || len(s.kept) != 1 {
		t.Errorf("after the window %d reports are kept, want 1", len(s.kept))
	}
	s.settled(2)
	if !s.idle(time.Minute + 15*time.Second) {
		t.Error("it stays though nothing is left")
	}
}
