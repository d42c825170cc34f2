package worker

import (
	"sync"

	"github.com/axd-project/axd/rpc"
)

const (
	maxFollowers = 16               // of one attempt
	tookEvery    = streamWindow / 4 // bytes taken before the source is told again
)

// source is where a command's output comes from: the supervisor. Its methods
// don't wait.
type source interface {
	// follow asks for output: generation 0 ends it, another one than before begins
	// with the tail. With wait the command waits for a slow reader, within bounds.
	follow(generation uint64, wait bool)
	// took tells the cost of the chunks of stdout and stderr that were taken since
	// the generation began.
	took(generation uint64, taken [2]int64)
}

// firstGeneration is of the output since a command's start.
const firstGeneration = 1

// hub passes an attempt's output on to those who follow it. The output's
// beginning is kept for who follows a moment after the start. Once that is too
// much, a command's output comes from the supervisor only while somebody follows.
type hub struct {
	mu         sync.Mutex
	followers  map[*follower]bool
	head       head
	tails      [2]tail // stdout and stderr
	source     source  // nil: output is written here
	generation uint64  // of the source's chunks; 0: it sends none
	lastGen    uint64
	begins     [2]bool  // the next chunk begins a later generation
	known      [2]int64 // bytes of the attempt's output that went before it
	taken      [2]int64 // cost of chunks that need no more room, in this generation
	told       [2]int64 // what the source knows of that
	closed     bool
}

// piece is output on its way to followers.
type piece struct {
	out        rpc.Output
	generation uint64 // whose source waits for it; 0: none
	waiting    int    // followers that have not taken it
}

func newHub(room *headRoom) *hub {
	h := &hub{
		followers: map[*follower]bool{}, head: head{room: room}, generation: firstGeneration, lastGen: firstGeneration,
	}
	h.resetTails()
	return h
}

func (h *hub) resetTails() {
	h.tails = [2]tail{newTail(rpc.MaxTailBytes), newTail(rpc.MaxTailBytes)}
}

// resumed is of a command that began in an earlier life of the worker: its output's
// beginning is gone, and it is sent only to who follows it.
func (h *hub) resumed() {
	h.head.cut()
	h.generation = 0
}

// attach tells where output comes from. Output and followers may have come before.
func (h *hub) attach(s source) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.source = s
	if h.generation == 0 && len(h.followers) > 0 { // of what was resumed
		h.begin(h.known)
		return
	}
	if h.generation == 0 || len(h.followers) > 0 {
		s.follow(h.generation, len(h.followers) > 0)
	}
	h.tell(1)
}

// begin asks for the output anew. Followers know some of it already.
func (h *hub) begin(known [2]int64) {
	h.lastGen++
	h.generation, h.begins, h.known = h.lastGen, [2]bool{true, true}, known
	h.taken, h.told = [2]int64{}, [2]int64{}
	h.resetTails()
	h.source.follow(h.generation, true)
}

// follow adds a follower, which is given what is kept first; nil when there are
// too many. After the attempt's end it finds what is kept of a short output.
func (h *hub) follow() *follower {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers) >= maxFollowers {
		return nil
	}
	f := newFollower(h)
	if h.closed {
		if h.head.whole() {
			f.give(h.head.chunks)
		}
		return f
	}
	h.followers[f] = true
	whole, known := h.head.whole(), h.head.bytes
	f.give(h.head.chunks)
	if !whole {
		h.head.drop()
	}
	switch {
	case h.source != nil && h.generation == 0:
		h.begin(known)
		return f
	case !whole:
		for i := range h.tails {
			if h.begins[i] { // the tail is on its way, without what went before it
				f.skipped[i] = h.known[i]
			} else if t := &h.tails[i]; t.total > 0 {
				f.give([]rpc.Output{beyond(rpc.Output{Stderr: i == 1, Data: t.bytes(), Skipped: t.skipped()}, known[i])})
			}
		}
	}
	if h.source != nil && len(h.followers) == 1 {
		h.source.follow(h.generation, true)
	}
	return f
}

// beyond cuts from output, counted from the attempt's start, what is known.
func beyond(out rpc.Output, known int64) rpc.Output {
	if out.Skipped >= known {
		out.Skipped -= known
		return out
	}
	out.Data = out.Data[min(known-out.Skipped, int64(len(out.Data))):]
	out.Skipped = 0
	return out
}

func (h *hub) leave(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f.patience.Stop()
	if !h.followers[f] {
		return
	}
	delete(h.followers, f)
	f.drop()
	if len(h.followers) > 0 || h.source == nil || h.generation == 0 || h.closed {
		return
	}
	if !h.head.whole() {
		h.generation = 0
	}
	h.source.follow(h.generation, false)
}

// chunk takes the source's output.
func (h *hub) chunk(c chunkReport) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Generation != h.generation || h.closed {
		return
	}
	out := rpc.Output{Stderr: c.Stderr, Data: c.Data, Skipped: c.Skipped}
	i := streamOf(out)
	h.note(out)
	cost := costOf(out)
	if h.begins[i] {
		h.begins[i] = false
		out = beyond(out, h.known[i])
	}
	h.taken[i] += cost - costOf(out) // what was cut off needs no room
	h.pass(&piece{out: out, generation: c.Generation})
}

// write takes output that is made in this process.
func (h *hub) write(stderr bool, b []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return
	}
	out := rpc.Output{Stderr: stderr, Data: append([]byte(nil), b...)}
	h.note(out)
	h.pass(&piece{out: out})
}

func (h *hub) note(out rpc.Output) {
	t := &h.tails[streamOf(out)]
	t.total += out.Skipped
	t.add(out.Data)
}

func (h *hub) pass(p *piece) {
	if h.head.whole() && !h.head.add(p.out) {
		h.overflow()
	}
	for f := range h.followers {
		f.offer(p)
	}
	if p.waiting == 0 {
		h.release(p)
	}
}

// overflow is when the head is full. Without a follower the source may be quiet
// from now on.
func (h *hub) overflow() {
	if len(h.followers) > 0 {
		h.head.drop()
		return
	}
	h.head.cut()
	if h.source != nil {
		h.source.follow(0, false)
	}
	h.generation = 0
}

// release makes room for more at the source.
func (h *hub) release(p *piece) {
	if p.generation == 0 || p.generation != h.generation {
		return
	}
	h.taken[streamOf(p.out)] += costOf(p.out)
	h.tell(tookEvery)
}

// tell tells the source when that is worth it.
func (h *hub) tell(least int64) {
	if h.source == nil || h.generation == 0 || h.closed {
		return
	}
	if h.taken[0]-h.told[0] >= least || h.taken[1]-h.told[1] >= least {
		h.told = h.taken
		h.source.took(h.generation, h.taken)
	}
}

// close ends every follower once it has read what waits for it. Without a hub
// there are none.
func (h *hub) close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for f := range h.followers {
		f.patience.Stop()
		f.signal()
	}
}

// keeps tells whether there is anything to forget.
func (h *hub) keeps() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.head.chunks) > 0
}

// forget frees what was kept for late followers.
func (h *hub) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.head.drop()
}

func streamOf(out rpc.Output) int {
	if out.Stderr {
		return 1
	}
	return 0
}
