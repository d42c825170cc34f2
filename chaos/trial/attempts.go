package trial

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/chaos"
	"github.com/axd-project/axd/job"
)

// script is the command of every task. It says through a pipe that it starts and
// how it ends, and who it is; $1 is the pipe, $2 how long it works, $3 how many
// attempts fail.
const script = `p=$1
echo "start $AXD_TASK_ID $AXD_ATTEMPT $AXD_FENCING_TOKEN $AXD_WORKER $$ $AXD_EXECUTE_TIME" >"$p"
sleep "$2"
if [ "$AXD_ATTEMPT" -le "$3" ]; then
  echo "fail $AXD_TASK_ID $AXD_FENCING_TOKEN" >"$p"
  exit 1
fi
echo "done $AXD_TASK_ID $AXD_FENCING_TOKEN" >"$p"`

// attempts records what the commands of tasks say, in the order in which they said
// it: the pipe keeps it.
type attempts struct {
	path string
	pipe *os.File
	done chan struct{}

	mu     sync.Mutex
	all    []*attempt
	byTask map[string][]*attempt
	broken error
}

type attempt struct {
	chaos.Attempt
	process int // a descriptor of it; -1: it has ended
}

func newAttempts(dir string) (*attempts, error) {
	a := &attempts{path: filepath.Join(dir, "attempts"), done: make(chan struct{}), byTask: map[string][]*attempt{}}
	if err := syscall.Mkfifo(a.path, 0o600); err != nil {
		return nil, fmt.Errorf("make the pipe of attempts: %w", err)
	}
	var err error
	// Open for both, so that neither side ever finds the other missing.
	if a.pipe, err = os.OpenFile(a.path, os.O_RDWR, 0); err != nil {
		return nil, err
	}
	go func() {
		defer close(a.done)
		for lines := bufio.NewScanner(a.pipe); lines.Scan(); {
			a.line(lines.Text())
		}
	}()
	return a, nil
}

// command is the executor of a task.
func (a *attempts) command(work time.Duration, fails int) job.Executor {
	return job.Executor{Exec: &job.Exec{Command: []string{
		"sh", "-c", script, "attempt", a.path, strconv.FormatFloat(work.Seconds(), 'f', 3, 64), strconv.Itoa(fails),
	}}}
}

func (a *attempts) line(text string) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	f := strings.Fields(text)
	var err error
	switch {
	case len(f) == 7 && f[0] == "start":
		err = a.start(now, f)
	case len(f) == 3 && (f[0] == "done" || f[0] == "fail"):
		err = a.end(now, f)
	default:
		err = fmt.Errorf("unknown line")
	}
	if err != nil && a.broken == nil {
		a.broken = fmt.Errorf("attempts said %q: %w", text, err)
	}
}

func (a *attempts) start(now time.Time, f []string) error {
	number, err := strconv.Atoi(f[2])
	if err != nil {
		return err
	}
	token, err := job.ParseToken(f[3])
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(f[5])
	if err != nil {
		return err
	}
	due, err := time.Parse(time.RFC3339Nano, f[6])
	if err != nil {
		return err
	}
	// Whoever still lives now does overlap with this one, which has begun before.
	for _, before := range a.byTask[f[1]] {
		before.look(now)
	}
	at := &attempt{process: -1, Attempt: chaos.Attempt{Task: f[1], Number: number, Token: token, Worker: f[4], Due: due, Start: now}}
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		at.process = fd
	} else {
		at.End = now
	}
	a.all, a.byTask[at.Task] = append(a.all, at), append(a.byTask[at.Task], at)
	return nil
}

func (a *attempts) end(now time.Time, f []string) error {
	token, err := job.ParseToken(f[2])
	if err != nil {
		return err
	}
	for _, at := range a.byTask[f[1]] {
		if at.Token == token {
			at.End, at.OK = now, f[0] == "done"
			return nil
		}
	}
	return fmt.Errorf("it never started")
}

// look notes the end of a process that has gone.
func (at *attempt) look(now time.Time) {
	if at.process < 0 {
		return
	}
	poll := []unix.PollFd{{Fd: int32(at.process), Events: unix.POLLIN}} //nolint:gosec // a descriptor
	if n, err := unix.Poll(poll, 0); err != nil || n == 0 {
		return
	}
	if at.End.IsZero() {
		at.End = now
	}
	_ = unix.Close(at.process)
	at.process = -1
}

// looked notes who has gone, for tasks that never start again.
func (a *attempts) looked() {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	for _, at := range a.all {
		at.look(now)
	}
}

// list returns all, in the order of their starts.
func (a *attempts) list() ([]chaos.Attempt, error) {
	a.looked()
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]chaos.Attempt, len(a.all))
	for i, at := range a.all {
		out[i] = at.Attempt
	}
	return out, a.broken
}

func (a *attempts) close() {
	_ = a.pipe.Close()
	<-a.done
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, at := range a.all {
		if at.process >= 0 {
			_ = unix.Close(at.process)
			at.process = -1
		}
	}
}
