package process

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// stopTime is how long a process gets to end after TERM before it is killed.
const stopTime = 20 * time.Second

// errClosed tells that the group starts nothing more.
var errClosed = errors.New("the group of processes is closed")

// Command says how to start one process.
type Command struct {
	Name string   // for people
	Path string   // of the program, or its name in PATH
	Args []string // without the program's name
	Env  []string // KEY=VALUE, added to this process's environment without its AXD_*
	Dir  string   // working directory; empty: this process's
	// Log is the file that standard error is appended to, and standard output
	// unless Stdout is set. Empty: they are dropped.
	Log           string
	Stdin, Stdout *os.File // optional; may be closed once the process has started
}

// Group owns processes. Close ends them.
type Group struct {
	detached bool
	starts   chan func() // run on one thread that lives as long as the group
	ended    chan struct{}

	mu     sync.Mutex
	closed bool
	all    []*Process
}

// NewGroup makes an empty group. Its processes die with this one, unless they
// are detached: those outlive it and, where Close is not called, the group.
func NewGroup(detached bool) *Group {
	g := &Group{detached: detached, starts: make(chan func()), ended: make(chan struct{})}
	go func() {
		defer close(g.ended)
		// The kernel sends the death signal when the thread that made the child
		// ends, which may be long before the process does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for start := range g.starts {
			start()
		}
	}()
	return g
}

// Add makes a process of the group, not yet started.
func (g *Group) Add(c Command) *Process {
	p := &Process{group: g, command: c}
	g.mu.Lock()
	g.all = append(g.all, p)
	g.mu.Unlock()
	return p
}

// launch starts cmd on the group's thread.
func (g *Group) launch(cmd *exec.Cmd) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return errClosed
	}
	// A session of its own: Ctrl-C is for this process, which ends them in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if !g.detached {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	started := make(chan error)
	g.starts <- func() { started <- cmd.Start() }
	return <-started
}

// Close ends all processes, the youngest first, so that workers go before the
// servers they speak with: TERM, and KILL for what doesn't heed it. It waits.
func (g *Group) Close() {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.closed = true
	all := slices.Clone(g.all)
	g.mu.Unlock()
	for _, p := range slices.Backward(all) {
		_ = p.Resume() // a stopped process does not heed TERM
		_ = p.Stop(stopTime)
	}
	close(g.starts)
	<-g.ended
}

// open opens the log for one process.
func (c *Command) open() (*os.File, error) {
	if c.Log == "" {
		return nil, nil
	}
	f, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600) //nolint:gosec // the caller says where
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", c.Name, err)
	}
	return f, nil
}
