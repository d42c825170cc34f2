package worker

import (
	"bufio"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bench runs a real supervisor process and keeps the lease it is told of.
type bench struct {
	t    *testing.T
	link *link
	mark string
	dir  string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := newBenchOf(t, supervisorCommand())
	b.lease(time.Hour, time.Hour)
	return b
}

// newBenchOf starts a supervisor without a lease.
func newBenchOf(t *testing.T, argv []string) *bench {
	t.Helper()
	l, err := spawn(argv, "", testLog(t))
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, link: l, dir: t.TempDir()}
	b.mark = "AXD_PAYLOAD_FILE=" + b.dir
	t.Cleanup(func() { // whatever a test did, nothing of it survives
		l.close(false)
		if left := b.processes(); len(left) > 0 {
			t.Errorf("processes survive: %v", left)
			killResidue([]residueMark{{mark: b.mark}}, 5*time.Second)
		}
	})
	return b
}

func testLog(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(testWriter{t}, nil))
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(b)))
	return len(b), nil
}

// lease renews for a time from now, and tells when it ends.
func (b *bench) lease(left, ttl time.Duration) time.Duration {
	end := boottime() + left
	b.link.send(order{Renew: &renewOrder{Until: int64(end), TTL: int64(ttl)}})
	return end
}

// processes finds what carries the mark of this bench.
func (b *bench) processes() []int {
	return residueOf([]residueMark{{mark: b.mark}}, readStats())
}

type startOption func(*startOrder)

func grace(d time.Duration) startOption   { return func(o *startOrder) { o.Grace = int64(d) } }
func timeout(d time.Duration) startOption { return func(o *startOrder) { o.Timeout = int64(d) } }
func stdin(s string) startOption          { return func(o *startOrder) { o.Stdin = []byte(s) } }

func (b *bench) start(script string, options ...startOption) *supervised {
	b.t.Helper()
	return b.startWith([]string{"sh", "-c", script}, func(chunkReport) {}, options...)
}

func (b *bench) startWith(argv []string, chunk func(chunkReport), options ...startOption) *supervised {
	b.t.Helper()
	o := startOrder{
		Argv: argv, Env: []string{"PATH=" + os.Getenv("PATH"), b.mark}, Dir: b.dir, Mark: b.mark,
		Grace: int64(5 * time.Second),
	}
	for _, set := range options {
		set(&o)
	}
	s, err := b.link.start(o, chunk)
	if err != nil {
		b.t.Fatal(err)
	}
	return s
}

func receive[T any](t *testing.T, c <-chan T, limit time.Duration) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(limit):
		t.Fatalf("nothing came within %v", limit)
		panic("unreachable")
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

func (b *bench) awaitFile(name string) string {
	b.t.Helper()
	var content []byte
	eventually(b.t, patience, "file "+name, func() bool {
		var err error
		content, err = os.ReadFile(filepath.Join(b.dir, name))
		return err == nil && len(content) > 0
	})
	return strings.TrimSpace(string(content))
}

func TestCommandEnds(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for _, c := range []struct {
		script         string
		stdin          string
		code           int
		signal         string
		stdout, stderr string
	}{
		{script: "echo out; echo err >&2", stdout: "out\n", stderr: "err\n"},
		{script: "exit 3", code: 3},
		{script: "kill -KILL $$", code: 137, signal: "SIGKILL"},
		{script: "cat", stdin: "given", stdout: "given"},
		{script: "cat", stdout: ""},
		{script: "exec <&-; echo done", stdin: strings.Repeat("x", 300<<10), stdout: "done\n"},
		{script: "kill -TERM $$; echo not reached", code: 143, signal: "SIGTERM"},
		{script: "pwd", stdout: b.dir + "\n"},
	} {
		s := b.start(c.script, stdin(c.stdin))
		r := receive(t, s.exited, patience)
		if r.Code != c.code || r.Signal != c.signal || string(r.Stdout) != c.stdout || string(r.Stderr) != c.stderr ||
			r.Error != "" || r.Reason != stopNone || r.Started == 0 || r.Ended < r.Started {
			t.Errorf("%s: got %+v", c.script, r)
		}
	}
}

func TestCommandCannotRun(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	plain := filepath.Join(b.dir, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		argv []string
		dir  string
		code int
		text string
	}{
		{argv: []string{"no-such-command"}, code: 127, text: `"no-such-command" not found`},
		{argv: []string{"/no/such/command"}, code: 127, text: "not found"},
		{argv: []string{plain}, code: 126, text: "can't be executed"},
		{argv: []string{"true"}, dir: "/no/such/dir", text: "directory of the command"},
	} {
		s := b.startWith(c.argv, func(chunkReport) {}, func(o *startOrder) {
			if c.dir != "" {
				o.Dir = c.dir
			}
		})
		r := receive(t, s.exited, patience)
		if r.Started != 0 || r.Code != c.code || !strings.Contains(r.Error, c.text) {
			t.Errorf("%v: got %+v", c.argv, r)
		}
	}
}

// Cases K4-01: the whole tree gets TERM, and after the grace KILL.
func TestTimeoutEndsTheTree(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"children":       "sleep 300 & sleep 300 & wait",
		"ignores TERM":   `(trap "" TERM; sleep 300) & sleep 300`,
		"left the group": `setsid sleep 300 & (trap "" TERM; setsid sh -c 'sleep 300; true') & sleep 300`,
		"stopped":        "kill -STOP $$",
	} {
		withAndWithoutCgroups(t, func(t *testing.T, argv []string) {
			t.Parallel()
			t.Log(name)
			b := newBenchOf(t, argv)
			b.lease(time.Hour, time.Hour)
			g := newGauge(t)
			s := b.start(script, timeout(300*time.Millisecond), grace(400*time.Millisecond))
			r := receive(t, s.exited, patience)
			if r.Reason != stopTimeout {
				t.Errorf("got %+v", r)
			}
			if ran := time.Duration(r.Ended - r.Started); ran < 300*time.Millisecond || ran > g.within(1500*time.Millisecond) {
				t.Errorf("ran for %v", ran)
			}
			if left := b.processes(); len(left) > 0 {
				t.Errorf("processes survive the report: %v", left)
			}
		})
	}
}

func TestTermComesBeforeKill(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.start(`trap 'echo term; exit 7' TERM; echo ready > ready; while :; do sleep 0.05; done`)
	b.awaitFile("ready")
	b.link.stop(s, stopCancel, false)
	r := receive(t, s.exited, patience)
	if r.Reason != stopCancel || r.Code != 7 || string(r.Stdout) != "term\n" {
		t.Errorf("got %+v", r)
	}
}

func TestTermReachesWhatLeftTheGroup(t *testing.T) {
	t.Parallel()
	withAndWithoutCgroups(t, func(t *testing.T, argv []string) {
		t.Parallel()
		b := newBenchOf(t, argv)
		b.lease(time.Hour, time.Hour)
		s := b.start(`setsid sh -c 'trap "echo term > term; exit" TERM; echo up > up; while :; do sleep 0.02; done' & sleep 300`)
		b.awaitFile("up")
		b.link.stop(s, stopCancel, false)
		if r := receive(t, s.exited, patience); r.Reason != stopCancel {
			t.Errorf("got %+v", r)
		}
		b.awaitFile("term")
	})
}

// Cases K4-02: a child that holds the pipes doesn't hold the result.
func TestBackgroundChildDoesNotHoldTheResult(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"in the group":      "sleep 60 & echo done; exit 0",
		"own session":       "setsid sleep 60 & echo done; exit 0",
		"daemon":            "(setsid sleep 60 &) ; echo done",
		"ignores TERM":      `(trap "" TERM; exec sleep 60) & echo done`,
		"cleared its marks": "env -i setsid sleep 60 & echo done",
	} {
		withAndWithoutCgroups(t, func(t *testing.T, argv []string) {
			t.Parallel()
			t.Log(name)
			b := newBenchOf(t, argv)
			b.lease(time.Hour, time.Hour)
			s := b.start(script)
			r := receive(t, s.exited, patience)
			if r.Code != 0 || r.Reason != stopNone || string(r.Stdout) != "done\n" || r.Error != "" {
				t.Errorf("got %+v", r)
			}
			if left := b.processes(); len(left) > 0 {
				t.Errorf("processes survive the report: %v", left)
			}
		})
	}
}

func TestLeaseEndsCommands(t *testing.T) {
	t.Parallel()
	withAndWithoutCgroups(t, func(t *testing.T, argv []string) {
		t.Parallel()
		b := newBenchOf(t, argv)
		g := newGauge(t)
		b.lease(2*time.Second, 2*time.Second)
		s := b.start(`trap 'echo term > term' TERM; echo ready > ready; while :; do sleep 0.02; done`, grace(time.Second))
		survivor := b.start("while ! test -s go; do sleep 0.02; done; echo survived", func(o *startOrder) { o.Continue = true })
		b.awaitFile("ready")
		end := b.lease(2*time.Second, 2*time.Second)
		r := receive(t, s.exited, patience)
		if r.Reason != stopLease || r.Signal != "SIGKILL" {
			t.Errorf("got %+v", r)
		}
		if at := time.Duration(r.Ended); at < end || at > end+min(g.within(300*time.Millisecond), slop) {
			t.Errorf("killed %v after the lease's end", at-end)
		}
		b.awaitFile("term") // it came before KILL, or nobody could have written it
		if r := receive(t, b.start("echo ran > ran").exited, patience); r.Started != 0 || r.Reason != stopLease {
			t.Errorf("a command was started after the lease's end: %+v", r)
		}
		if err := os.WriteFile(filepath.Join(b.dir, "go"), []byte("on\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := receive(t, survivor.exited, patience); string(r.Stdout) != "survived\n" {
			t.Errorf("got %+v", r)
		}
	})
}

// A supervisor that dies takes its commands with it.
func TestSupervisorDeathIsReported(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.start("sleep 300; true")
	started := receive(t, s.started, patience)
	b.link.kill()
	if r := receive(t, s.exited, patience); r.Reason != stopGone {
		t.Errorf("got %+v", r)
	}
	newGauge(t).eventually(t, time.Second, "the command died with its supervisor", func() bool {
		p, found := readStat(started.Process.PID)
		return !found || p.state == 'Z'
	})
	if _, err := b.link.start(startOrder{Argv: []string{"true"}}, nil); err == nil {
		t.Error("a dead supervisor takes commands")
	}
	killResidue([]residueMark{{mark: b.mark}}, 5*time.Second)
}

// A worker that has died reads nothing: what the supervisor still has to say
// must not end it before it killed the commands.
func TestSupervisorSurvivesABrokenPipe(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mark := "AXD_PAYLOAD_FILE=" + dir
	cmd := exec.Command(os.Args[0], "supervisor")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	w := bufio.NewWriter(in)
	for _, o := range []order{
		{Renew: &renewOrder{Until: int64(boottime() + time.Hour), TTL: int64(time.Hour)}},
		{Start: &startOrder{
			Seq: 1, Argv: []string{"/bin/sh", "-c", "setsid sleep 300 & echo ready > ready; sleep 300"},
			Env: []string{"PATH=" + os.Getenv("PATH"), mark}, Dir: dir, Mark: mark,
		}},
	} {
		if err := writeFrame(w, o); err != nil {
			t.Fatal(err)
		}
	}
	(&bench{t: t, dir: dir}).awaitFile("ready")
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("the supervisor ended with %v", err)
	}
	if left := residueOf([]residueMark{{mark: mark}}, readStats()); len(left) > 0 {
		t.Errorf("processes survive: %v", left)
		killResidue([]residueMark{{mark: mark}}, 5*time.Second)
	}
}

// A terminal's ctrl-C goes to the whole foreground group, and service managers
// send TERM to every process: the supervisor must leave both to the worker.
func TestSupervisorLeavesSignalsToTheWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	s := b.start("trap 'echo int' INT; trap 'echo term' TERM; kill -INT $$; kill -TERM $$; while ! test -s go; do sleep 0.02; done", stdin(""))
	receive(t, s.started, patience) // it handles signals by now
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP} {
		if err := unix.Kill(b.link.cmd.Process.Pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(b.dir, "go"), []byte("on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := receive(t, s.exited, patience)
	if r.Code != 0 || string(r.Stdout) != "int\nterm\n" {
		t.Errorf("a command inherited ignored signals, or the supervisor ended: %+v", r)
	}
}

func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for memory, want := range map[int64]bool{0: true, 1 << 30: true, 24 << 20: false} {
		s := b.start("head -c 64m /dev/zero | tail -c 60m | wc -c", func(o *startOrder) { o.Limits.Memory = memory })
		r := receive(t, s.exited, patience)
		if got := strings.TrimSpace(string(r.Stdout)) == "62914560"; got != want {
			t.Errorf("memory %d: got %+v", memory, r)
		}
	}
}

func TestRunsAsAnotherUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	who, err := lookupUser("nobody")
	if err != nil {
		t.Skip(err)
	}
	b := newBench(t)
	s := b.startWith([]string{"/usr/bin/id", "-u"}, func(chunkReport) {}, func(o *startOrder) { o.Identity, o.Dir = who, "/" })
	if r := receive(t, s.exited, patience); strings.TrimSpace(string(r.Stdout)) != fmt.Sprint(who.UID) {
		t.Errorf("got %+v", r)
	}
}

func TestSupervisorRefusesArguments(t *testing.T) {
	t.Parallel()
	out, err := exec.Command(os.Args[0], "supervisor", "--what").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "takes no arguments") {
		t.Errorf("got %v, %s", err, out)
	}
}
