package worker

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// heartbeatFD is where a command writes its heartbeats: the first after
	// standard error. AXD_HEARTBEAT_FD names it to the command.
	heartbeatFD = 3

	pulseLooks    = 8 // how often a pipe is looked into within the time of a silence
	pulseMost     = 5 * time.Second
	pulseBuffer   = 4 << 10
	pulseReadings = 32 // of a buffer at one look: a pipe holds 64 KiB, and the loop has more to do
)

// pulse is the pipe that a command beats into: whatever it writes is a sign of
// life. The supervisor's loop looks into it now and then, and once more before it
// believes in a silence: so nothing that was written before is overlooked, however
// late the loop is. A silence may therefore be found an eighth later than it began.
// nil: the command need not beat.
type pulse struct {
	pipe  int // not blocking; -1: closed
	limit time.Duration
	last  time.Duration // when the last beat was seen
	look  time.Duration // when to look next
	every time.Duration
}

// openPulse returns the command's end and the supervisor's; none without a limit.
func openPulse(limit time.Duration) (beats *os.File, p *pulse, err error) {
	if limit <= 0 {
		return nil, nil, nil
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, fmt.Errorf("open a pipe for heartbeats: %w", err)
	}
	if err := unix.SetNonblock(fds[0], true); err != nil {
		return nil, nil, errors.Join(fmt.Errorf("open a pipe for heartbeats: %w", err), unix.Close(fds[0]), unix.Close(fds[1]))
	}
	p = &pulse{pipe: fds[0], limit: limit, every: min(limit/pulseLooks, pulseMost)}
	return os.NewFile(uintptr(fds[1]), "heartbeats"), p, nil
}

// begin counts from the command's start.
func (p *pulse) begin(now time.Duration) {
	if p != nil {
		p.last, p.look = now, now+p.every
	}
}

// silent looks into the pipe where it is time to, and tells whether the command
// has been silent for too long.
func (p *pulse) silent(now time.Duration) bool {
	if p == nil || now < p.look {
		return false
	}
	p.look = now + p.every
	if p.drain() {
		p.last = now
	}
	return now >= p.last+p.limit
}

// drain empties the pipe and tells whether anything was in it.
func (p *pulse) drain() (beat bool) {
	var b [pulseBuffer]byte
	for range pulseReadings {
		n, err := unix.Read(p.pipe, b[:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if n <= 0 { // empty, or every writer has closed it
			break
		}
		beat = true
	}
	return beat
}

// next is when silent may answer otherwise.
func (p *pulse) next() time.Duration {
	if p == nil {
		return never
	}
	return p.look
}

func (p *pulse) close() error {
	if p == nil || p.pipe < 0 {
		return nil
	}
	fd := p.pipe
	p.pipe = -1
	return unix.Close(fd)
}

func heartbeatEntry() string { return "AXD_HEARTBEAT_FD=" + strconv.Itoa(heartbeatFD) }
