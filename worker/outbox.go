package worker

import (
	"bufio"
	"io"
	"sync"
)

// maxQueuedOutput bounds the live output that waits for a slow worker, in
// bytes. Beyond it chunks are dropped and counted.
const maxQueuedOutput = 1 << 20

// outbox holds what the supervisor has to tell a worker that may be slow or
// stopped. Output is bounded by bytes; starts and exits by the number of
// commands, since a worker that doesn't read doesn't start more.
type outbox struct {
	mu     sync.Mutex
	wake   *sync.Cond
	queue  []report
	output int // bytes of queued chunks
}

func newOutbox() *outbox {
	o := &outbox{}
	o.wake = sync.NewCond(&o.mu)
	return o
}

// add queues a report that must not be lost.
func (o *outbox) add(r report) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.queue = append(o.queue, r)
	if r.Chunk != nil {
		o.output += len(r.Chunk.Data)
	}
	o.wake.Signal()
}

// offer queues output unless too much waits already.
func (o *outbox) offer(c *chunkReport) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.output+len(c.Data) > maxQueuedOutput {
		return false
	}
	o.output += len(c.Data)
	o.queue = append(o.queue, report{Chunk: c})
	o.wake.Signal()
	return true
}

// run writes until the worker is gone; the process ends with it.
func (o *outbox) run(w io.Writer) {
	out := bufio.NewWriter(w)
	for {
		o.mu.Lock()
		for len(o.queue) == 0 {
			o.wake.Wait()
		}
		next := o.queue[0]
		o.queue = o.queue[1:]
		if next.Chunk != nil {
			o.output -= len(next.Chunk.Data)
		}
		o.mu.Unlock()
		if writeFrame(out, next) != nil {
			return // the reader sees the end of the worker's pipe too, and ends everything
		}
	}
}
