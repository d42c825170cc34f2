package worker

import (
	"time"

	"github.com/axd-project/axd/rpc"
)

const (
	maxQueued = 4 << 20 // bytes that wait for one follower; beyond it they are dropped and counted
	// followerPatience is how long a follower may take nothing before what waits
	// for it is dropped and counted, so that it holds up neither the command nor
	// other followers. It is less than streamPatience.
	followerPatience = time.Second
)

// follower is one reader of a hub's output. Its fields belong to the hub's lock.
type follower struct {
	hub      *hub
	queue    []queued
	cost     int64
	skipped  [2]int64 // bytes dropped since the last chunk
	lagging  bool     // it has taken nothing for too long
	progress time.Time
	patience *time.Timer
	wake     chan struct{} // room for one
}

// queued is a piece for one follower.
type queued struct {
	*piece
	skipped int64 // bytes dropped before it, for this follower
}

func newFollower(h *hub) *follower {
	f := &follower{hub: h, wake: make(chan struct{}, 1)}
	f.patience = time.AfterFunc(followerPatience, f.expire)
	f.patience.Stop()
	return f
}

func (f *follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// give hands over output that no source waits for.
func (f *follower) give(chunks []rpc.Output) {
	for _, out := range chunks {
		f.offer(&piece{out: out})
	}
}

// offer queues a piece, or drops and counts it.
func (f *follower) offer(p *piece) {
	i := streamOf(p.out)
	if f.lagging || f.cost+costOf(p.out) > maxQueued {
		f.skipped[i] += p.out.Skipped + int64(len(p.out.Data))
		return
	}
	if len(f.queue) == 0 {
		f.progress = time.Now()
		f.patience.Reset(followerPatience)
	}
	p.waiting++
	f.queue = append(f.queue, queued{p, f.skipped[i]})
	f.skipped[i] = 0
	f.cost += costOf(p.out)
	f.signal()
}

// expire drops what waits for a follower that takes nothing.
func (f *follower) expire() {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	if len(f.queue) == 0 || f.hub.closed {
		return
	}
	if left := followerPatience - time.Since(f.progress); left > 0 { // it took something meanwhile
		f.patience.Reset(left)
		return
	}
	f.lagging = true
	f.drop()
}

// drop empties the queue and counts what was in it.
func (f *follower) drop() {
	for _, q := range f.queue {
		f.skipped[streamOf(q.out)] += q.skipped + q.out.Skipped + int64(len(q.out.Data))
		f.done(q.piece)
	}
	f.queue, f.cost = nil, 0
}

func (f *follower) done(p *piece) {
	if p.waiting--; p.waiting == 0 {
		f.hub.release(p)
	}
}

// next takes output. Without any, ok is false, and ended tells that none will come.
func (f *follower) next() (out rpc.Output, ok, ended bool) {
	f.hub.mu.Lock()
	defer f.hub.mu.Unlock()
	f.lagging, f.progress = false, time.Now()
	if len(f.queue) == 0 {
		return f.rest()
	}
	q := f.queue[0]
	f.queue[0] = queued{}
	f.queue = f.queue[1:]
	f.cost -= costOf(q.out)
	if len(f.queue) == 0 {
		f.queue = nil
		f.patience.Stop()
	}
	out = q.out
	out.Skipped += q.skipped
	f.done(q.piece)
	return out, true, false
}

// rest tells at the end what was dropped last.
func (f *follower) rest() (out rpc.Output, ok, ended bool) {
	if !f.hub.closed {
		return out, false, false
	}
	for i, n := range f.skipped {
		if n > 0 {
			f.skipped[i] = 0
			return rpc.Output{Stderr: i == 1, Skipped: n}, true, false
		}
	}
	return out, false, true
}
