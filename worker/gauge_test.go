package worker

import (
	"sync/atomic"
	"testing"
	"time"
)

// gauge tells how late this machine gives the processor to who wakes, at worst since
// the test began.
type gauge struct{ worst atomic.Int64 }

func newGauge(t *testing.T) *gauge {
	t.Helper()
	g := &gauge{}
	const every = 2 * time.Millisecond
	ticker := time.NewTicker(every)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for last := boottime(); ; {
			select {
			case <-ticker.C:
			case <-done:
				return
			}
			now := boottime()
			g.worst.Store(max(g.worst.Load(), int64(now-last-every)))
			last = now
		}
	}()
	t.Cleanup(func() { ticker.Stop(); close(done); <-ended })
	return g
}

// wakes is how often one process waits for another until a command has ended, and its
// end has been told.
const wakes = 10

// within is a bound for how soon something happens, on a machine that is as busy as
// this one is.
func (g *gauge) within(limit time.Duration) time.Duration {
	return limit + wakes*time.Duration(g.worst.Load())
}

// eventually polls until the condition holds, which it must within the limit.
func (g *gauge) eventually(t *testing.T, limit time.Duration, what string, holds func() bool) {
	t.Helper()
	began := boottime()
	for !holds() {
		if took := boottime() - began; took > g.within(limit) {
			t.Fatalf("not within %v, though nobody was woken more than %v late: %s", took, time.Duration(g.worst.Load()), what)
		}
		<-time.After(5 * time.Millisecond)
	}
}
