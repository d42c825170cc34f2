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
//
// While no worker is there to read, what is added is dropped.
type outbox struct {
	mu     sync.Mutex
	wake   *sync.Cond
	reader uint64 // counts those who came to read
	away   bool   // the last of them has gone
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
	if o.away {
		return
	}
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

// detach drops what the reader has not read, and lets its run end.
func (o *outbox) detach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away, o.queue, o.output = true, nil, 0
	o.reader++
	if o.room != nil {
		close(o.room)
		o.room = nil
	}
	o.wake.Broadcast()
}

// attach begins to queue for a new reader, whose run is to follow.
func (o *outbox) attach() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = false
}

// pop waits for the next report; false: the reader is another one.
func (o *outbox) pop(reader uint64) (report, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && o.reader == reader {
		o.wake.Wait()
	}
	if o.reader != reader {
		return report{}, false
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
	return next, true
}

// run writes to a reader until that is gone.
func (o *outbox) run(w io.Writer) {
	o.mu.Lock()
	reader := o.reader
	o.mu.Unlock()
	out := bufio.NewWriter(w)
	for {
		r, ok := o.pop(reader)
		if !ok || writeFrame(out, r) != nil {
			return // who reads orders sees that the worker is gone too
		}
	}
}
