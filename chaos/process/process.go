package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxTail bounds what Tail returns, in bytes.
const maxTail = 4000

// Process is one program, in whichever of its lives. Its methods are safe for
// concurrent use.
type Process struct {
	group   *Group
	command Command

	mu    sync.Mutex
	cmd   *exec.Cmd     // of the latest life; nil before the first
	done  chan struct{} // closed when that has ended
	spent time.Duration // processor time of earlier lives
}

// Name is what the command is called.
func (p *Process) Name() string { return p.command.Name }

// Start begins a life. The one before must have ended.
func (p *Process) Start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd != nil && !isClosed(p.done) {
		return fmt.Errorf("%s runs already", p.command.Name)
	}
	log, err := p.command.open()
	if err != nil {
		return err
	}
	cmd := exec.Command(p.command.Path, p.command.Args...)
	cmd.Dir, cmd.Env = p.command.Dir, append(environ(), p.command.Env...)
	if log != nil { // a nil *os.File in the interface would not be nil
		cmd.Stdout, cmd.Stderr = log, log
		defer func() { _ = log.Close() }()
	}
	if p.command.Stdin != nil {
		cmd.Stdin = p.command.Stdin
	}
	if p.command.Stdout != nil {
		cmd.Stdout = p.command.Stdout
	}
	if err := p.group.launch(cmd); err != nil {
		return fmt.Errorf("start %s: %w", p.command.Name, err)
	}
	if p.cmd != nil {
		p.spent += cpuOf(p.cmd.ProcessState)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	go func() {
		_ = cmd.Wait()
		close(done)
	}()
	return nil
}

// environ is this process's environment without AXD_*, which would be settings
// of the program that nobody asked for.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "AXD_") })
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// life returns the latest life; nil where there was none.
func (p *Process) life() (*exec.Cmd, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cmd, p.done
}

// Running tells whether the process lives, be it stopped.
func (p *Process) Running() bool {
	cmd, done := p.life()
	return cmd != nil && !isClosed(done)
}

// Done is closed when the present life has ended; nil before the first.
func (p *Process) Done() <-chan struct{} {
	_, done := p.life()
	return done
}

// PID is the process's number; 0 before its first life.
func (p *Process) PID() int {
	cmd, _ := p.life()
	if cmd == nil {
		return 0
	}
	return cmd.Process.Pid
}

// ExitCode tells how the latest life ended; -1 while it lasts, and after a
// signal.
func (p *Process) ExitCode() int {
	cmd, done := p.life()
	if cmd == nil || !isClosed(done) {
		return -1
	}
	return cmd.ProcessState.ExitCode()
}

// Signal sends a signal. A process that has ended takes none, without an error.
func (p *Process) Signal(s syscall.Signal) error {
	cmd, done := p.life()
	if cmd == nil || isClosed(done) {
		return nil
	}
	if err := cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("signal %s: %w", p.command.Name, err)
	}
	return nil
}

// Kill ends the process without a chance to say goodbye, and waits for its end.
func (p *Process) Kill() error {
	if err := p.Signal(syscall.SIGKILL); err != nil {
		return err
	}
	if done := p.Done(); done != nil {
		<-done
	}
	return nil
}

// Pause stops the process where it is (SIGSTOP), until Resume.
func (p *Process) Pause() error { return p.Signal(syscall.SIGSTOP) }

// Standing tells whether the kernel holds the process where it is.
func (p *Process) Standing() bool {
	if !p.Running() {
		return false
	}
	data, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(p.PID()), "stat"))
	if err != nil {
		return false
	}
	fields := strings.Fields(string(afterName(data)))
	return len(fields) > 0 && fields[0] == "T"
}

// Resume lets a paused process go on.
func (p *Process) Resume() error { return p.Signal(syscall.SIGCONT) }

// Stop asks the process to end (SIGTERM) and waits for that; after limit it is
// killed, which is an error.
func (p *Process) Stop(limit time.Duration) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	done := p.Done()
	if done == nil {
		return nil
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s did not end within %s of TERM and was killed", p.command.Name, limit), p.Kill())
	}
}

// Tail is the end of the process's log, for an error message.
func (p *Process) Tail() string {
	data, err := os.ReadFile(p.command.Log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-maxTail):])
}
