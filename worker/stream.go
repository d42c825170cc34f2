package worker

import (
	"os"
	"sync"
	"time"

	"github.com/axd-project/axd/rpc"
)

const (
	streamBuffer = 32 << 10  // bytes read, and forwarded, at one time
	streamWindow = 256 << 10 // bytes that a follower has not taken yet, before the command waits
	pipeRoom     = 128 << 10 // bytes more, for what is in the pipe when the command has ended
	// streamPatience is how long a command waits for a follower that takes nothing;
	// then output is dropped and counted until the follower goes on.
	streamPatience = 2 * time.Second
)

// stream reads a command's stdout or stderr for as long as anybody holds the
// pipe. Only the tail is kept. The command waits only for those who follow it.
type stream struct {
	seq    uint64
	stderr bool
	pipe   *os.File
	out    *outbox
	news   chan struct{} // room for one: what offer or await looks at has changed

	mu         sync.Mutex
	tail       tail
	generation uint64 // of the follow that wants chunks; 0: nobody
	wait       bool   // for the follower, instead of dropping
	stalled    bool   // it waited in vain, and nothing was taken since
	hurried    bool   // the command has ended
	sent       int64  // cost of this generation's chunks
	taken      int64  // of these
	pending    int64  // bytes that wait
	skipped    int64  // bytes of this follow dropped since the last chunk
}

func newStream(seq uint64, stderr bool, pipe *os.File, out *outbox) *stream {
	return &stream{
		seq: seq, stderr: stderr, pipe: pipe, out: out, tail: newTail(rpc.MaxTailBytes), news: make(chan struct{}, 1),
	}
}

// pump reads until the pipe ends or is closed.
func (s *stream) pump() {
	buf := make([]byte, streamBuffer)
	for {
		n, err := s.pipe.Read(buf)
		if n > 0 {
			s.take(buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) take(b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tail.add(b)
	if s.generation == 0 {
		return
	}
	c := &chunkReport{Seq: s.seq, Generation: s.generation, Stderr: s.stderr, Data: b}
	s.pending = int64(len(b))
	defer func() { s.pending = 0 }()
	for s.generation == c.Generation { // another one begins with a tail that has b
		ok, room := s.offer(c)
		switch {
		case ok:
			s.skipped = 0
			return
		case !s.wait || s.stalled:
			s.skipped += int64(len(b))
			return
		}
		s.stalled = !s.await(room)
	}
}

// offer sends a chunk, with a copy of its data, if follower and outbox have room; else room tells when the
// outbox has, if that is what is full.
func (s *stream) offer(c *chunkReport) (ok bool, room <-chan struct{}) {
	limit := int64(streamWindow)
	if !s.wait {
		limit = maxHead // all that the worker keeps without a follower
	}
	if s.hurried {
		limit += pipeRoom
	}
	cost := int64(len(c.Data)) + chunkCost
	if s.sent-s.taken+cost > limit {
		return false, nil
	}
	c.Skipped = s.skipped
	if ok, room = s.out.offer(c); ok {
		s.sent += cost
	}
	return ok, room
}

// await gives the lock away until something changes; false: nothing did.
func (s *stream) await(room <-chan struct{}) bool {
	s.mu.Unlock()
	defer s.mu.Lock()
	timer := time.NewTimer(streamPatience)
	defer timer.Stop()
	select {
	case <-s.news:
		return true
	case <-room:
		return true
	case <-timer.C:
		return false
	}
}

func (s *stream) signal() {
	select {
	case s.news <- struct{}{}:
	default:
	}
}

// follow begins with the tail so far, unless it only changes who waits: then
// what was dropped last, when nobody did, is made good as far as the tail goes.
// Generation 0 ends.
func (s *stream) follow(generation uint64, wait bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.signal()
	s.wait = wait
	if generation == s.generation {
		if wait && s.skipped > 0 {
			s.makeGood(s.skipped, s.pending)
		}
		return
	}
	s.generation, s.stalled = generation, false
	s.skipped, s.sent, s.taken = 0, 0, 0
	if generation != 0 && s.tail.total > 0 {
		c := &chunkReport{
			Seq: s.seq, Generation: generation, Stderr: s.stderr, Data: s.tail.bytes(), Skipped: s.tail.skipped(),
		}
		s.sent = int64(len(c.Data)) + chunkCost
		s.out.add(report{Chunk: c})
	}
}

// makeGood sends the end of what was dropped; behind it in the tail lies what waits.
func (s *stream) makeGood(dropped, behind int64) {
	b := s.tail.bytes()
	b = b[:int64(len(b))-min(behind, int64(len(b)))]
	b = b[int64(len(b))-min(dropped, int64(len(b))):]
	c := &chunkReport{
		Seq: s.seq, Generation: s.generation, Stderr: s.stderr, Data: b, Skipped: dropped - int64(len(b)),
	}
	s.skipped = 0
	s.sent += int64(len(b)) + chunkCost
	s.out.add(report{Chunk: c})
}

// took makes room.
func (s *stream) took(generation uint64, taken int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if generation == s.generation && taken > s.taken {
		s.taken, s.stalled = min(taken, s.sent), false
		s.signal()
	}
}

// hurry is when the command has ended: what is left in its pipe has room.
func (s *stream) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hurried = true
	s.signal()
}

// end returns the tail, after it made good what was dropped last.
func (s *stream) end() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.signal()
	if dropped := s.skipped + s.pending; s.generation != 0 && dropped > 0 {
		s.makeGood(dropped, 0)
	}
	s.generation = 0
	return s.tail.bytes()
}
