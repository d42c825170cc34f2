package worker

import (
	"bufio"
	"io"
	"sync"
)

// maxQueuedOutput bounds the live output that waits for a slow worker, in
// bytes. Beyond it output is offered in vain.
const maxQueuedOutput = 2 << 20

// outbox holds what the supervisor has to tell a worker that may be slow or
// stopped. Output is bounded by bytes; starts and exits by the number of
// commands, since a worker that doesn't read doesn't start more.
type outbox struct {
	mu     sync.Mutex
	wake   *sync.Cond
	queue  []report
	output int           // bytes of queued chunks
	room   chan struct{} // closed once half is free; nil: nobody waits for that
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
	o.push(r)
}

func (o *outbox) push(r report) {
	o.queue = append(o.queue, r)
	if r.Chunk != nil {
		o.output += len(r.Chunk.Data) + chunkCost
	}
	o.wake.Signal()
}

// offer queues a copy of output unless too much waits already; then room is
// closed once there is less.
func (o *outbox) offer(c *chunkReport) (ok bool, room <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.output+len(c.Data)+chunkCost <= maxQueuedOutput {
		kept := *c
		kept.Data = append([]byte(nil), c.Data...)
		o.push(report{Chunk: &kept})
		return true, nil
	}
	if o.room == nil {
		o.room = make(chan struct{})
	}
	return false, o.room
}

// pop waits for the next report.
func (o *outbox) pop() report {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 {
		o.wake.Wait()
	}
	next := o.queue[0]
	o.queue[0] = report{}
	o.queue = o.queue[1:]
	if next.Chunk != nil {
		o.output -= len(next.Chunk.Data) + chunkCost
		if o.room != nil && o.output <= maxQueuedOutput/2 {
			close(o.room)
			o.room = nil
		}
	}
	return next
}

// run writes until the worker is gone; the process ends with it.
func (o *outbox) run(w io.Writer) {
	out := bufio.NewWriter(w)
	for {
		if writeFrame(out, o.pop()) != nil {
			return // the reader sees the end of the worker's pipe too, and ends everything
		}
	}
}
