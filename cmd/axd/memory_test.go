package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"testing"
	"time"
)

func TestMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ used, want int64 }{
		{0, 150 * mib},
		{140 * mib, 156 * mib}, // a million waiting tasks
		{165 * mib, 265 * mib}, // ten million
		{1000 * mib, 2000 * mib},
	} {
		if got := memoryLimit(c.used); got != c.want {
			t.Errorf("used %d MiB: limit %d MiB, want %d", c.used/mib, got/mib, c.want/mib)
		}
	}
}

// TestMemoryLimitFollowsTheLiveHeap wants the limit above what lives.
func TestMemoryLimitFollowsTheLiveHeap(t *testing.T) {
	gc, limit := debug.SetGCPercent(-1), debug.SetMemoryLimit(-1)
	defer func() {
		debug.SetGCPercent(gc)
		debug.SetMemoryLimit(limit)
	}()
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	ctx, cancel := context.WithCancel(t.Context())
	wait := keepMemory(ctx)
	defer wait()
	defer cancel()
	held := make([]byte, 256<<20)
	runtime.GC()
	now := int64(0)
	for end := time.Now().Add(10 * time.Second); now <= int64(len(held)) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		now = debug.SetMemoryLimit(-1)
	}
	runtime.KeepAlive(held)
	if now <= int64(len(held)) {
		t.Errorf("the limit is %d MiB while 256 MiB live", now>>20)
	}
}
