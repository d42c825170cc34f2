package process

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const patience = time.Minute

// TestMain lets the test binary be a program that starts a process of its own,
// says which, and waits to be killed; or that draws a port, and says which.
func TestMain(m *testing.M) {
	if os.Getenv("PROCESS_TEST_PARENT") == "" {
		os.Exit(m.Run())
	}
	if os.Getenv("PROCESS_TEST_PARENT") == "draws" {
		port, err := FreeRow(1)
		if err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString(strconv.Itoa(port) + "\n")
		_ = syscall.Pause()
	}
	g := NewGroup(os.Getenv("PROCESS_TEST_PARENT") == "detached")
	p := g.Add(Command{Name: "child", Path: "sleep", Args: []string{"60"}})
	if err := p.Start(); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString(strconv.Itoa(p.PID()) + "\n")
	select {}
}

func newGroup(t *testing.T) *Group {
	t.Helper()
	g := NewGroup(false)
	t.Cleanup(g.Close)
	return g
}

func start(t *testing.T, g *Group, script string) *Process {
	t.Helper()
	p := g.Add(Command{Name: "script", Path: "sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")})
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// eventually polls what the kernel does in its own time.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

func TestALifeAndTheNext(t *testing.T) {
	p := start(t, newGroup(t), "echo hello; exec sleep 60")
	if err := p.Start(); err == nil {
		t.Error("a process that runs was started again")
	}
	eventually(t, "it has spoken", func() bool { return strings.Contains(p.Tail(), "hello") })
	first := p.PID()
	if err := p.Kill(); err != nil || p.Running() || p.ExitCode() != -1 {
		t.Fatalf("after a kill: %v, running %t, code %d", err, p.Running(), p.ExitCode())
	}
	if err := p.Start(); err != nil || p.PID() == first || !p.Running() {
		t.Fatalf("after a restart: %v, PID %d, running %t", err, p.PID(), p.Running())
	}
	if err := p.Stop(patience); err != nil {
		t.Error(err)
	}
	if err := errors.Join(p.Kill(), p.Pause(), p.Stop(patience)); err != nil {
		t.Errorf("signals to one that has ended: %v", err)
	}
}

func TestAPausedProcessStands(t *testing.T) {
	p := start(t, newGroup(t), "exec sleep 60")
	if err := p.Pause(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it stands", p.Standing)
	if err := p.Resume(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it goes on", func() bool { return !p.Standing() })
}

func TestStopKillsWhatDoesNotHeedIt(t *testing.T) {
	p := start(t, newGroup(t), `trap "" TERM; echo deaf; while :; do sleep 1; done`)
	eventually(t, "it is deaf", func() bool { return strings.Contains(p.Tail(), "deaf") })
	if err := p.Stop(50 * time.Millisecond); err == nil || p.Running() {
		t.Errorf("error %v, running %t; want one that says it was killed", err, p.Running())
	}
}

func TestCloseEndsAllAndStartsNoMore(t *testing.T) {
	g := NewGroup(false)
	p, paused := start(t, g, "exec sleep 60"), start(t, g, "exec sleep 60")
	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	g.Close()
	g.Close()
	if p.Running() || paused.Running() {
		t.Error("a process outlived its group")
	}
	if err := p.Start(); !errors.Is(err, errClosed) {
		t.Errorf("start in a closed group: %v", err)
	}
}

// A parent that is killed takes its processes along, but not detached ones.
func TestProcessesDieWithTheirParent(t *testing.T) {
	for mode, dies := range map[string]bool{"attached": true, "detached": false} {
		t.Run(mode, func(t *testing.T) {
			parent := exec.Command(os.Args[0])
			parent.Env = append(os.Environ(), "PROCESS_TEST_PARENT="+mode)
			child := startTold(t, parent)
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait()
			if dies {
				eventually(t, "the child is gone", func() bool { return gone(child) })
				return
			}
			if gone(child) {
				t.Error("a detached process died with its parent")
			}
			_ = syscall.Kill(child, syscall.SIGKILL)
		})
	}
}

// gone tells whether a process has ended, be it that nobody has reaped it.
func gone(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return true
	}
	rest := afterName(data)
	return strings.HasPrefix(strings.TrimSpace(string(rest)), "Z")
}

func TestEnvironmentHasNoSettingsOfOurs(t *testing.T) {
	t.Setenv("AXD_RETENTION", "1s")
	g := newGroup(t)
	p := g.Add(Command{
		Name: "env", Path: "sh", Args: []string{"-c", "echo [$AXD_RETENTION] [$AXD_SLOTS]"}, Env: []string{"AXD_SLOTS=3"},
		Log: filepath.Join(t.TempDir(), "log"),
	})
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	<-p.Done()
	if got := p.Tail(); got != "[] [3]\n" {
		t.Errorf("the process saw %q", got)
	}
}

func TestUsageCountsEarlierLives(t *testing.T) {
	p := start(t, newGroup(t), "while :; do :; done")
	usage := func() Usage {
		u, err := p.Usage()
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	eventually(t, "it has used 50 ms", func() bool { return usage().CPU >= 50*time.Millisecond })
	if usage().RSS == 0 {
		t.Error("a running process has no memory")
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	spent := usage()
	if spent.CPU < 50*time.Millisecond || spent.RSS != 0 {
		t.Errorf("after its end it has used %s and has %d bytes", spent.CPU, spent.RSS)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if again := usage(); again.CPU < spent.CPU {
		t.Errorf("after a restart it has used %s, before %s", again.CPU, spent.CPU)
	}
}

func TestStatOfAnyName(t *testing.T) {
	rss, cpu, err := parseStat([]byte("7 (a) b (c)) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 1 0 100 4096 25 0"))
	if err != nil || rss != 25*int64(os.Getpagesize()) || cpu != 2*time.Second {
		t.Errorf("rss %d, cpu %s, %v", rss, cpu, err)
	}
	if _, _, err := parseStat([]byte("7 (short) S 1")); err == nil {
		t.Error("a short line was taken")
	}
}

func TestDiskUsageCountsAFileOnce(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	one, err := DiskUsage(dir)
	if err != nil || one < 1<<20 {
		t.Fatalf("%d bytes, %v", one, err)
	}
	if err := os.Link(file, filepath.Join(dir, "b")); err != nil {
		t.Fatal(err)
	}
	if two, err := DiskUsage(dir); err != nil || two != one {
		t.Errorf("with a second link %d bytes, before %d (%v)", two, one, err)
	}
}

func TestFreePorts(t *testing.T) {
	ports, err := FreePorts(9)
	if err != nil {
		t.Fatal(err)
	}
	row, err := FreeRow(3)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		ports = append(ports, net.JoinHostPort("127.0.0.1", strconv.Itoa(row+i)))
	}
	seen := map[string]bool{}
	for _, p := range ports {
		_, port, err := net.SplitHostPort(p)
		n, _ := strconv.Atoi(port)
		if err != nil || seen[p] || n < firstPort || n >= lastPort {
			t.Errorf("port %s: %v", p, err)
		}
		seen[p] = true
		if l, err := net.Listen("tcp", p); err != nil {
			t.Error(err)
		} else {
			_ = l.Close()
		}
	}
	if len(seen) != 12 {
		t.Errorf("%d ports", len(seen))
	}
}

// A port is nobody else's from when it was drawn, though nothing listens on it yet, until
// the process that drew it has ended.
func TestAPortIsGivenToOneProcessAlone(t *testing.T) {
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), "PROCESS_TEST_PARENT=draws")
	other.Stderr = os.Stderr
	port := startTold(t, other)
	if claim(port) {
		t.Errorf("port %d was given to two", port)
	}
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = other.Wait()
	eventually(t, "the port is free again", func() bool { return claim(port) })
}

// startTold starts a command and reads the number that it prints first.
func startTold(t *testing.T, cmd *exec.Cmd) int {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 20)
	n, err := out.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	if err != nil {
		t.Fatal(err)
	}
	return number
}

func TestMetrics(t *testing.T) {
	m, err := ParseMetrics(strings.NewReader("# HELP a b\na 1.5\nb{x=\"y\"} 2\nc 3e2\n"))
	if err != nil || len(m) != 2 || m["a"] != 1.5 || m["c"] != 300 {
		t.Errorf("%v, %v", m, err)
	}
}
