package worker

import (
	"sync"

	"github.com/axd-project/axd/rpc"
)

const (
	maxFollowers  = 16 // of one attempt
	followerQueue = 64 // chunks that wait for one follower; beyond it they are dropped and counted
)

// hub passes an attempt's output on to those who follow it. Output of a command
// comes from the supervisor only while somebody follows, beginning with the tail.
type hub struct {
	mu         sync.Mutex
	followers  map[*follower]bool
	tails      [2]tail // stdout and stderr of this generation
	generation uint64  // of the supervisor's chunks; 0: nobody follows
	lastGen    uint64
	remote     func(generation uint64) // asks the supervisor; nil: output is written here
	closed     bool
}

type follower struct {
	chunks  chan rpc.Output
	skipped [2]int64
}

func newHub() *hub {
	h := &hub{followers: map[*follower]bool{}}
	h.resetTails()
	return h
}

func (h *hub) resetTails() {
	h.tails = [2]tail{newTail(rpc.MaxTailBytes), newTail(rpc.MaxTailBytes)}
}

// attach tells where output comes from. Followers may have come before.
func (h *hub) attach(remote func(generation uint64)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.remote = remote
	if len(h.followers) > 0 {
		h.begin()
	}
}

func (h *hub) begin() {
	h.lastGen++
	h.generation = h.lastGen
	h.resetTails()
	h.remote(h.generation)
}

// follow adds a follower, which is given the tail so far first; nil when there
// are too many. After the attempt's end its channel is closed.
func (h *hub) follow() *follower {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers) >= maxFollowers {
		return nil
	}
	f := &follower{chunks: make(chan rpc.Output, followerQueue)}
	if h.closed {
		close(f.chunks)
		return f
	}
	h.followers[f] = true
	if h.remote != nil && h.generation == 0 {
		h.begin()
		return f
	}
	for i := range h.tails {
		if t := &h.tails[i]; t.total > 0 {
			f.offer(i == 1, t.bytes(), t.skipped())
		}
	}
	return f
}

func (h *hub) leave(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers, f)
	if len(h.followers) == 0 && h.remote != nil && h.generation != 0 && !h.closed {
		h.generation = 0
		h.remote(0)
	}
}

// chunk takes the supervisor's output.
func (h *hub) chunk(c chunkReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Generation == h.generation {
		h.pass(c.Stderr, c.Data, c.Skipped)
	}
}

// write takes output that is made in this process.
func (h *hub) write(stderr bool, b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.pass(stderr, append([]byte(nil), b...), 0)
}

func (h *hub) pass(stderr bool, b []byte, skipped int64) {
	i := 0
	if stderr {
		i = 1
	}
	h.tails[i].total += skipped
	h.tails[i].add(b)
	for f := range h.followers {
		f.offer(stderr, b, skipped)
	}
}

func (f *follower) offer(stderr bool, b []byte, skipped int64) {
	i := 0
	if stderr {
		i = 1
	}
	skipped += f.skipped[i]
	select {
	case f.chunks <- rpc.Output{Stderr: stderr, Data: b, Skipped: skipped}:
		f.skipped[i] = 0
	default:
		f.skipped[i] = skipped + int64(len(b))
	}
}

// close ends every follower once it has read what waits for it.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	h.closed = true
	for f := range h.followers {
		close(f.chunks)
	}
}

// rest tells of bytes that were dropped last, after the channel was closed.
func (h *hub) rest(f *follower) []rpc.Output {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []rpc.Output
	for i, n := range f.skipped {
		if n > 0 {
			out = append(out, rpc.Output{Stderr: i == 1, Skipped: n})
		}
	}
	return out
}
