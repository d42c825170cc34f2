package worker

import (
	"os"
	"sync"

	"github.com/axd-project/axd/rpc"
)

const streamBuffer = 32 << 10 // bytes read, and forwarded, at one time

// stream reads a command's stdout or stderr for as long as anybody holds the
// pipe, so that the command never blocks on output. Only the tail is kept.
type stream struct {
	seq    uint64
	stderr bool
	pipe   *os.File
	out    *outbox

	mu         sync.Mutex
	tail       tail
	generation uint64 // of the follow that wants chunks; 0: nobody
	skipped    int64  // bytes of this follow dropped since the last chunk
}

func newStream(seq uint64, stderr bool, pipe *os.File, out *outbox) *stream {
	return &stream{seq: seq, stderr: stderr, pipe: pipe, out: out, tail: newTail(rpc.MaxTailBytes)}
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
	c := &chunkReport{Seq: s.seq, Generation: s.generation, Stderr: s.stderr, Data: append([]byte(nil), b...), Skipped: s.skipped}
	if !s.out.offer(c) {
		s.skipped += int64(len(b))
		return
	}
	s.skipped = 0
}

// follow begins with the tail so far; generation 0 ends.
func (s *stream) follow(generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.generation, s.skipped = generation, 0
	if generation != 0 && s.tail.total > 0 {
		s.out.add(report{Chunk: &chunkReport{
			Seq: s.seq, Generation: generation, Stderr: s.stderr, Data: s.tail.bytes(), Skipped: s.tail.skipped(),
		}})
	}
}

// end returns the tail, after it told a follower of what was dropped last.
func (s *stream) end() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.generation != 0 && s.skipped > 0 {
		s.out.add(report{Chunk: &chunkReport{Seq: s.seq, Generation: s.generation, Stderr: s.stderr, Skipped: s.skipped}})
	}
	s.generation = 0
	return s.tail.bytes()
}
