package raftnode

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// stallTicks is how many ticks of the watcher a call may live. Counting ticks
// instead of comparing times forgives a process that was itself stopped: on
// SIGCONT at most one tick has passed.
const stallTicks = 5

// guard ends the process when the disk fails or stalls. Raft keeps sending
// heartbeats while its log write hangs, so a server whose disk is stuck would
// lead for ever without committing; and what a disk says after a failed sync
// can't be believed, so nothing is retried.
type guard struct {
	fatal func(code int, err error)
	stop  chan struct{}
	done  chan struct{}

	mu     sync.Mutex
	calls  map[*guarded]struct{} // running now
	phase  guardPhase
	failed error
}

// guardPhase says whom a failure concerns.
type guardPhase uint8

const (
	guardOpening guardPhase = iota // Open's caller gets the error
	guardArmed                     // the process ends
	guardClosing                   // nobody: the shutdown itself causes failures
)

// guarded is one running call.
type guarded struct {
	what string
	code int
	left int // ticks
}

func newGuard(limit time.Duration, fatal func(code int, err error)) *guard {
	g := &guard{
		fatal: fatal,
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
		calls: make(map[*guarded]struct{}),
	}
	go g.watch(limit)
	return g
}

// watch ages the running calls. It calls fatal itself, since the caller is the
// one that hangs.
func (g *guard) watch(limit time.Duration) {
	defer close(g.done)
	tick := time.NewTicker(limit / stallTicks)
	defer tick.Stop()
	for {
		select {
		case <-g.stop:
			return
		case <-tick.C:
		}
		if c := g.age(); c != nil {
			g.fatal(c.code, fmt.Errorf("%s takes too long (the limit for a write is %v): the disk has stalled", c.what, limit))
		}
	}
}

// age returns a call that has just become too old.
func (g *guard) age() (stalled *guarded) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for c := range g.calls {
		c.left--
		if c.left == 0 && g.phase == guardArmed {
			stalled = c
		}
	}
	return stalled
}

// begin puts a call under watch; stallCode is the exit code if it lives for
// more than so many limits.
func (g *guard) begin(what string, stallCode, limits int) *guarded {
	c := &guarded{what: what, code: stallCode, left: limits*stallTicks + 1}
	g.mu.Lock()
	g.calls[c] = struct{}{}
	g.mu.Unlock()
	return c
}

func (g *guard) end(c *guarded) {
	g.mu.Lock()
	delete(g.calls, c)
	g.mu.Unlock()
}

// do runs a disk call under watch. After an error there is none but the first:
// nothing is tried on a disk that failed.
func (g *guard) do(what string, code int, call func() error) error {
	g.mu.Lock()
	failed := g.failed
	g.mu.Unlock()
	if failed != nil {
		return g.fail(what, code, failed)
	}
	c := g.begin(what, ExitLogStalled, 1)
	err := recovered(call)
	g.end(c)
	if err != nil {
		return g.fail(what, code, err)
	}
	return nil
}

// fail ends the process once the guard is armed. Should fatal return, as it
// does in tests, the calling goroutine ends, because raft would otherwise go on
// as if the call had been a hiccup, or panic.
func (g *guard) fail(what string, code int, err error) error {
	err = fmt.Errorf("%s: %w", what, err)
	g.mu.Lock()
	first := g.failed == nil
	if first {
		g.failed = err
	}
	phase := g.phase
	g.mu.Unlock()
	if phase == guardOpening {
		return err
	}
	if first && phase == guardArmed {
		g.fatal(code, err)
	}
	runtime.Goexit()
	return err
}

// recovered turns a panic of the storage engine, its way to report a damaged
// page, into an error.
func recovered(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the storage engine panicked: %v", r)
		}
	}()
	return call()
}

// enter begins a phase.
func (g *guard) enter(p guardPhase) {
	g.mu.Lock()
	g.phase = p
	g.mu.Unlock()
}

// close ends the watcher.
func (g *guard) close() {
	close(g.stop)
	<-g.done
}
