package main

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// A server's live heap is small beside the garbage of a busy one, so that collecting
// seldom costs little memory and saves a fifth of the processor time. The state
// store's cache and memtables count as live, and a limit keeps their double from
// being waited for.
const (
	serverGC = 200 // percent, as GOGC
	// minMemory is the lowest limit, in bytes, as GOMEMLIMIT: where collecting gets
	// more frequent.
	minMemory = 150 << 20
	// stillMemory is what a server with a million waiting tasks holds still, about:
	// that makes no garbage, so no room is left for that of it. Beyond, room is given
	// more freely than small servers have it.
	stillMemory    = 140 << 20
	garbageFactor  = 4
	minGarbage     = 16 << 20
	memoryInterval = time.Second
)

// memoryLimit is the limit for what a collection can't free. A fixed limit that this
// reaches, as with ten million waiting tasks, has the collector run without pause and
// take half of the processor.
func memoryLimit(used int64) int64 {
	room := min(garbageFactor*(used-stillMemory), used)
	return max(minMemory, used+max(minGarbage, room))
}

// keepMemory tunes the collector until ctx ends, unless the operator did, and
// returns what waits for that.
func keepMemory(ctx context.Context) (wait func()) {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	debug.SetGCPercent(serverGC)
	debug.SetMemoryLimit(minMemory)
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		followMemory(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func followMemory(ctx context.Context) {
	tick := time.NewTicker(memoryInterval)
	defer tick.Stop()
	for limit := int64(minMemory); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if want := memoryLimit(usedMemory()); want != limit {
			limit = want
			debug.SetMemoryLimit(limit)
		}
	}
}

// usedMemory is what the last collection left alive, in bytes, and what the runtime
// holds beside objects: stacks, its own records, and room between objects that
// nothing else fits into.
func usedMemory() int64 {
	s := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(s)
	n := func(i int) int64 { return int64(s[i].Value.Uint64()) } //nolint:gosec // bytes of a process
	return n(0) + n(1) - n(2) - n(3) - n(4)
}
