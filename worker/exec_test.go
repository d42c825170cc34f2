package worker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

func TestCommandKnowsItsTask(t *testing.T) {
	t.Setenv("AXD_TOKEN", "secret") // the worker's own settings are not the command's
	t.Setenv("INHERITED", "yes")
	l := newLeader(t)
	dir := t.TempDir()
	startWorker(t, l, withExec(dir))
	x := sh(`env | grep -E '^(AXD_|INHERITED|MINE|PATH=/mine)' | sort; pwd; cat "$AXD_PAYLOAD_FILE" > "$AXD_OUTPUT_FILE"; cat >&2`)
	x.Exec.Env = map[string]string{"MINE": "1", "AXD_JOB": "forged"}
	x.Exec.Stdin = "input"
	item := l.item(x, func(i *rpc.DispatchItem) { i.Ref.Attempt, i.DueMS = 3, 1796000000000 })
	l.dispatch(item)
	f := receive(t, l.finished, patience)
	attempt := filepath.Join(dir, "attempts", "default", refName(item.Ref))
	want := fmt.Sprintf(`AXD_ATTEMPT=3
AXD_EXECUTE_TIME=2026-11-30T00:53:20.000Z
AXD_FENCING_TOKEN=%s
AXD_JOB=test
AXD_NAMESPACE=default
AXD_OUTPUT_FILE=%s/io/output
AXD_PAYLOAD_FILE=%s/io/payload
AXD_TASK_ID=%s
AXD_WORKER=w1
INHERITED=yes
MINE=1
%s/work
`, tokenOf(item.Ref), attempt, attempt, job.ID(item.Ref.ID), attempt)
	if string(f.Stdout) != want {
		t.Errorf("stdout:\n%s\nwant:\n%s", f.Stdout, want)
	}
	if job.Outcome(f.Outcome) != job.OutcomeSuccess || *f.ExitCode != 0 || string(f.Output) != `{"a":1}` || string(f.Stderr) != "input" {
		t.Errorf("got %+v", f)
	}
	eventually(t, patience, "nothing is left on disk", func() bool {
		return !exists(attempt) && len(journaled(t, dir)) == 0
	})
}

// A command, and a handler, knows of which run it is a step, and for which time it was
// planned.
func TestTasksKnowTheirOrigin(t *testing.T) {
	l := newLeader(t)
	run := job.NewID(1796000000000, 1, 2)
	got := make(chan Task, 1)
	w := newWorker(t, l, withExec(t.TempDir()))
	w.Handle("origin", func(_ context.Context, t Task) ([]byte, error) { got <- t; return nil, nil })
	runWorker(t, w)
	receive(t, l.hellos, patience)
	of := func(i *rpc.DispatchItem) {
		i.Origin = &rpc.Origin{Run: run, Step: "clean", Schedule: "nightly", NominalMS: 1796000000000}
	}
	x := sh(`env | grep -E '^AXD_(RUN|STEP|SCHEDULE|NOMINAL)' | sort`)
	l.dispatch(l.item(x, of))
	want := "AXD_NOMINAL_TIME=2026-11-30T00:53:20.000Z\nAXD_RUN=" + run.String() + "\nAXD_SCHEDULE=nightly\nAXD_STEP=clean\n"
	if f := receive(t, l.finished, patience); string(f.Stdout) != want {
		t.Errorf("stdout:\n%s\nwant:\n%s", f.Stdout, want)
	}
	l.dispatch(l.item(x, func(i *rpc.DispatchItem) { i.Origin = &rpc.Origin{Schedule: "nightly", NominalMS: 1796000000000} }))
	want = "AXD_NOMINAL_TIME=2026-11-30T00:53:20.000Z\nAXD_SCHEDULE=nightly\n"
	if f := receive(t, l.finished, patience); string(f.Stdout) != want {
		t.Errorf("stdout:\n%s\nwant:\n%s", f.Stdout, want)
	}
	l.dispatch(l.item(handler("origin"), of))
	if task := receive(t, got, patience); task.Run != run || task.Step != "clean" || task.Schedule != "nightly" || task.Nominal.UnixMilli() != 1796000000000 {
		t.Errorf("the handler got %+v", task)
	}
}

func TestCommandOutcomes(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l, withExec(t.TempDir()))
	for _, c := range []struct {
		x       job.Executor
		codes   []int
		timeout int64
		kill    bool
		outcome job.Outcome
		code    int // -1: none
		text    string
	}{
		{x: sh("exit 4"), outcome: job.OutcomeFailed, code: 4, text: "the command ended with exit code 4"},
		{x: sh("exit 4"), codes: []int{0, 4}, outcome: job.OutcomeSuccess, code: 4},
		{x: sh("exit 0"), codes: []int{4}, outcome: job.OutcomeFailed, code: 0, text: "the command ended with exit code 0"},
		{x: sh("kill -SEGV $$"), outcome: job.OutcomeFailed, code: 139, text: "the command was ended by SIGSEGV"},
		{x: sh("exec sleep 60"), timeout: 100, outcome: job.OutcomeTimeout, code: 143, text: "the attempt's time-out has passed"},
		{x: sh("exec sleep 60"), kill: true, outcome: job.OutcomeCancelled, code: 143, text: "the task was cancelled"},
		{x: sh(`head -c 16385 /dev/zero > "$AXD_OUTPUT_FILE"`), outcome: job.OutcomeSuccess, text: "output of 16385 bytes is over the limit of 16384 and was not kept"},
		{x: sh(`rm "$AXD_OUTPUT_FILE"; ln -s /etc/passwd "$AXD_OUTPUT_FILE"`), outcome: job.OutcomeSuccess, text: "output file: too many levels of symbolic links"},
		{x: sh(`rm "$AXD_OUTPUT_FILE"; mkfifo "$AXD_OUTPUT_FILE"`), outcome: job.OutcomeSuccess, text: "output file: not a regular file"},
		{x: job.Executor{Exec: &job.Exec{Command: []string{"no-such"}}}, outcome: job.OutcomeFailed, code: 127, text: `command "no-such" not found in PATH`},
		{x: job.Executor{Exec: &job.Exec{Command: []string{"true"}, User: "no-such-user"}}, outcome: job.OutcomeFailed, code: -1,
			text: `exec.user: must be a user of the worker's machine (got "no-such-user")`},
	} {
		item := l.item(c.x, func(i *rpc.DispatchItem) { i.SuccessCodes, i.TimeoutMS, i.GraceMS = c.codes, c.timeout, 5000 })
		l.dispatch(item)
		if c.kill {
			eventually(t, patience, "it runs", func() bool {
				h := w.table.held()
				return len(h) == 1 && h[0].Running
			})
			l.kill(item.Ref, rpc.KillCancel)
		}
		f := receive(t, l.finished, patience)
		code := -1
		if f.ExitCode != nil {
			code = *f.ExitCode
		}
		if job.Outcome(f.Outcome) != c.outcome || code != c.code || f.Error != c.text || f.Output != nil {
			t.Errorf("%v: got %+v with code %d", c.x.Exec.Command, f, code)
		}
	}
}

func TestUserNeedsRoot(t *testing.T) {
	t.Parallel()
	self, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", self.Username, self.Uid} {
		if id, err := lookupUser(name); id != nil || err != nil {
			t.Errorf("%q: got %v, %v", name, id, err)
		}
	}
	if _, err := lookupUser("4294967290"); err == nil {
		t.Error("a number that belongs to nobody is taken")
	}
	id, err := lookupUser("nobody")
	switch {
	case os.Geteuid() != 0 && (err == nil || !strings.Contains(err.Error(), "must run as root")):
		t.Errorf("got %v, %v", id, err)
	case os.Geteuid() == 0 && (err != nil || id.UID == 0):
		t.Errorf("got %v, %v", id, err)
	}
}

func TestCommandAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	if _, err := lookupUser("nobody"); err != nil {
		t.Skip(err)
	}
	l := newLeader(t)
	dir, err := os.MkdirTemp("/tmp", "axd-worker-") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	startWorker(t, l, withExec(fileIn(dir, "data")))
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	x := sh(`id -un; cat "$AXD_PAYLOAD_FILE" > "$AXD_OUTPUT_FILE"; touch made; echo "$USER"; cat "$AXD_PAYLOAD_FILE/../../lock" 2>/dev/null; ls ../..`)
	x.Exec.User = "nobody"
	l.dispatch(l.item(x))
	f := receive(t, l.finished, patience)
	if string(f.Stdout) != "nobody\nnobody\n" || string(f.Output) != `{"a":1}` {
		t.Errorf("got %+v, stdout %s, stderr %s", f, f.Stdout, f.Stderr)
	}
}

// workerProcess runs a worker in a process of its own.
func workerProcess(t *testing.T, dir, leader string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0], "worker", dir, leader)
	cmd.Stderr = testWriter{t}
	cmd.WaitDelay = 10 * time.Millisecond // its supervisor may outlive it, with its stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

func marked(dir string, item rpc.DispatchItem) []int {
	d := dataDir{root: dir}
	return residueOf([]residueMark{{mark: d.attempt(item.Ref).mark()}}, readStats())
}

// Case K4-03: commands die with their worker, and the attempt ends as lost when
// the worker is back.
func TestK4_03_KilledWorkerTakesItsCommandsAlong(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	cmd := workerProcess(t, dir, l.addr)
	receive(t, l.hellos, patience)
	item := l.item(sh(`(setsid sleep 300 &); trap "" TERM; sleep 300 & sleep 300`))
	l.dispatch(item)
	receive(t, l.started, patience)
	if len(marked(dir, item)) < 3 {
		t.Fatal("the command's processes are not found")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	newGauge(t).eventually(t, time.Second, "all of the command is dead", func() bool { return len(marked(dir, item)) == 0 })

	workerProcess(t, dir, l.addr)
	h := receive(t, l.hellos, patience)
	if len(h.Held) != 1 || h.Held[0] != (rpc.Held{Ref: item.Ref, Finished: true}) {
		t.Errorf("held: %+v", h.Held)
	}
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
}

// A worker that hangs can't renew its lease, and its supervisor acts for it.
func TestStoppedWorkersCommandsEndWithTheLease(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.with(func() { l.ttl = shortTTL })
	dir := t.TempDir()
	cmd := workerProcess(t, dir, l.addr)
	receive(t, l.hellos, patience)
	item := l.item(sh(`trap "" TERM; sleep 300 & sleep 300`))
	l.dispatch(item)
	receive(t, l.started, patience)
	if err := cmd.Process.Signal(unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	eventually(t, shortTTL+slop, "all of the command is dead", func() bool { return len(marked(dir, item)) == 0 })
	if took := time.Since(stopped); took < shortTTL/3 {
		t.Errorf("it was killed %v after the stop, long before its lease ended", took)
	}
	if err := cmd.Process.Signal(unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
}

// Worker and supervisor may die together; then the next life kills the residue.
func TestResidueOfAnEarlierLifeIsKilled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := openDir(dir, "w1")
	if err != nil {
		t.Fatal(err)
	}
	l := newLeader(t)
	item := l.item(sh("true"))
	a := d.attempt(item.Ref)
	if err := a.take(startLock{
		Namespace: item.Ref.Namespace, ID: item.Ref.ID, Attempt: 1, Token: tokenOf(item.Ref), MachineBoot: machineBoot(),
	}); err != nil {
		t.Fatal(err)
	}
	// One process is known by its mark, one by its group alone.
	var left []*exec.Cmd
	for _, env := range [][]string{{a.mark()}, {}} {
		cmd := exec.Command("sleep", "300")
		cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		left = append(left, cmd)
	}
	s, _ := readStat(left[1].Process.Pid)
	if err := a.recordProcess(s.process, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.close(); err != nil {
		t.Fatal(err)
	}
	died := make(chan error, 2)
	for _, cmd := range left {
		go func() { died <- cmd.Wait() }()
	}

	startWorker(t, l, withExec(dir))
	for range left {
		if err := receive(t, died, patience); err == nil || err.Error() != "signal: killed" {
			t.Errorf("got %v", err)
		}
	}
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
	if exists(string(a)) {
		t.Error("the start lock is still there")
	}
}

func TestForeignProcessesAreNoResidue(t *testing.T) {
	self, _ := readStat(os.Getpid())
	cmd := exec.Command("sleep", "300")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	s, _ := readStat(cmd.Process.Pid)
	reused := s.process
	reused.Start-- // the number was another process's, which started earlier
	marks := []residueMark{{mark: "AXD_PAYLOAD_FILE=/none", leader: reused}, {mark: "AXD_PAYLOAD_FILE=/none", leader: process{PID: self.PID}}}
	if got := residueOf(marks, readStats()); len(got) != 0 {
		t.Errorf("would kill %v", got)
	}
}

func TestSupervisorDeathEndsAttemptsAsLost(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	w, _ := startWorker(t, l, withExec(dir))
	item := l.item(sh("(setsid sleep 300 &); sleep 300; true"))
	l.dispatch(item)
	receive(t, l.started, patience)
	w.super.current.kill()
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
	if left := marked(dir, item); len(left) > 0 {
		t.Errorf("processes survive: %v", left)
	}
	eventually(t, patience, "another supervisor runs commands", func() bool {
		l.dispatch(l.item(sh("true")))
		select {
		case f := <-l.finished:
			return job.Outcome(f.Outcome) == job.OutcomeSuccess
		case <-l.giveBacks:
			return false
		case <-time.After(time.Second):
			return false
		}
	})
}

func TestHangingSupervisorIsKilled(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.with(func() { l.ttl = shortTTL })
	w, _ := startWorker(t, l, withExec(t.TempDir()))
	link := w.super.current
	if err := unix.Kill(link.cmd.Process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	receive(t, link.gone, patience)
}

func TestResultsOutliveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := newLeader(t)
	_, end := startWorker(t, l, withExec(dir))
	l.with(func() { l.refuse = &rpc.Error{Code: string(job.CodeOverloaded), Text: "full"} })
	item := l.item(sh("echo kept; exit 3"))
	l.dispatch(item)
	eventually(t, patience, "the result is on disk", func() bool { return len(journaled(t, dir)) == 1 })
	if err := end(); err != nil {
		t.Fatal(err)
	}
	l.with(func() { l.refuse = nil })
	w, _ := startWorker(t, l, withExec(dir))
	f := receive(t, l.finished, patience)
	if f.Ref != item.Ref || string(f.Stdout) != "kept\n" || *f.ExitCode != 3 {
		t.Errorf("got %+v", f)
	}
	eventually(t, patience, "it is forgotten", func() bool {
		return w.Stats().Owed == 0 && len(journaled(t, dir)) == 0
	})
}

func TestDrain(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	w, end := startWorker(t, l, withExec(dir), func(c *Config) { c.DrainTime, c.Slots = 2*time.Second, 4 })
	finishing := l.item(sh("while ! test -e go; do sleep 0.02; done; echo finished"))
	command := l.item(sh("trap 'exit 0' TERM; while :; do sleep 0.02; done"))
	call := l.item(handler("wait"))
	l.dispatch(finishing, command, call)
	eventually(t, patience, "all run", func() bool { return w.Stats().Started == 3 })
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	eventually(t, patience, "it drains", func() bool { return w.Stats().Free == 0 })
	letGo(t, dir, finishing)
	late := l.item(handler("echo"))
	l.dispatch(late)
	given := map[rpc.Ref]string{}
	for len(given) < 3 {
		g := receive(t, l.giveBacks, patience)
		for _, ref := range g.Refs {
			given[ref] = g.Reason
		}
	}
	for _, item := range []rpc.DispatchItem{command, call, late} {
		if given[item.Ref] != "the worker drains" {
			t.Errorf("given back: %v", given)
		}
	}
	if f := receive(t, l.finished, patience); f.Ref != finishing.Ref || string(f.Stdout) != "finished\n" {
		t.Errorf("got %+v", f)
	}
	if err := receive(t, ended, patience); err != nil {
		t.Error(err)
	}
	if left := marked(dir, command); len(left) > 0 {
		t.Errorf("processes survive: %v", left)
	}
}

// A second signal: what runs is ended and given back at once, however long its
// grace and the drain.
func TestHurryGivesBack(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	dir := t.TempDir()
	w, end := startWorker(t, l, withExec(dir), func(c *Config) { c.DrainTime = time.Hour })
	command := l.item(sh("trap '' TERM; while :; do sleep 0.02; done"), func(i *rpc.DispatchItem) { i.GraceMS = 3_600_000 })
	call := l.item(handler("wait"))
	l.dispatch(command, call)
	eventually(t, patience, "both run", func() bool { return w.Stats().Started == 2 })
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	eventually(t, patience, "it drains", func() bool {
		w.table.mu.Lock()
		defer w.table.mu.Unlock()
		return w.table.draining
	})
	w.Hurry()
	w.Hurry() // a third signal does no harm
	given := map[rpc.Ref]bool{}
	for len(given) < 2 {
		for _, ref := range receive(t, l.giveBacks, patience).Refs {
			given[ref] = true
		}
	}
	if !given[command.Ref] || !given[call.Ref] {
		t.Errorf("given back: %v", given)
	}
	if err := receive(t, ended, patience); err != nil {
		t.Error(err)
	}
	if left := marked(dir, command); len(left) > 0 {
		t.Errorf("processes survive: %v", left)
	}
}
