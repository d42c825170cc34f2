package server

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/rpc"
)

// boottime is a monotonic clock that counts suspend, unlike Go's own.
func boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("axd: CLOCK_BOOTTIME is not available: " + err.Error()) // Linux has had it since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// The bounds of how the clock follows the quorum's median.
const (
	clockStep     = time.Second // a forward correction above it steps, everything else is slewed
	clockSlewRate = 20          // slewed at most 1 ms per 20 ms
	clockInterval = 10 * time.Second
	askTimeout    = time.Second // for asking one server
	clockVotes    = 3           // clocks that make a median worth following, where there are as many
)

// clock is the cluster's clock as this server knows it. While it leads, the
// clock is anchored to the quorum's median and advances with boottime, so that
// steps of the wall clock neither repeat nor delay anything. Elsewhere it is
// the wall clock's reading.
type clock struct {
	wall func() time.Time
	mono func() time.Duration

	mu struct {
		sync.Mutex
		anchored bool
		base     int64         // cluster time at the anchor, Unix ns
		at       time.Duration // mono at the anchor
		slew     time.Duration // still to be worked in, by slewing
	}
}

func newClock(wall func() time.Time, mono func() time.Duration) *clock {
	return &clock{wall: wall, mono: mono}
}

// Now returns the cluster's time in Unix ms, rounded down: nothing is due early.
func (c *clock) Now() int64 { return c.nanos() / int64(time.Millisecond) }

// NowMicros returns the cluster's time in Unix µs.
func (c *clock) NowMicros() int64 { return c.nanos() / int64(time.Microsecond) }

// stamp is Now for log entries: 0 until a term's clock is agreed. Raft leads
// before that, and what this server's own wall says must not reach state.
func (c *clock) stamp() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored {
		return 0
	}
	return c.advance() / int64(time.Millisecond)
}

func (c *clock) nanos() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored {
		return c.wall().UnixNano()
	}
	return c.advance()
}

// advance moves the anchor to the present and works in a part of the slew. It
// never goes back.
func (c *clock) advance() int64 {
	elapsed := c.mono() - c.mu.at
	most := elapsed / clockSlewRate
	part := max(min(c.mu.slew, most), -most)
	c.mu.base += int64(elapsed + part)
	c.mu.at += elapsed
	c.mu.slew -= part
	return c.mu.base
}

// anchor starts a term at the given offset from this server's wall clock.
func (c *clock) anchor(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.base = c.wall().Add(offset).UnixNano()
	c.mu.at = c.mono()
	c.mu.slew = 0
	c.mu.anchored = true
}

// release ends the term: the clock follows the wall again.
func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.anchored = false
}

// correct brings the clock towards the given offset: forward over a second at
// once, everything else by slewing, so that it never goes back. It returns the
// correction.
func (c *clock) correct(offset time.Duration) (by time.Duration, stepped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored {
		return 0, false
	}
	by = time.Duration(c.wall().Add(offset).UnixNano() - c.advance())
	if by > clockStep {
		c.mu.base, c.mu.slew = c.mu.base+int64(by), 0
		return by, true
	}
	c.mu.slew = by
	return by, false
}

// clockOffset asks the voters for their wall clocks and returns the median's
// distance from this server's own. Fewer than a quorum of answers is an error.
// sure tells that the answers are enough to overrule one clock that is wrong: of
// two that differ nobody knows which.
func (s *Server) clockOffset(ctx context.Context) (offset time.Duration, sure bool, err error) {
	servers, err := s.node.Servers()
	if err != nil {
		return 0, false, err
	}
	answers := make(chan time.Duration, len(servers))
	asked, voters := 0, 0
	for _, srv := range servers {
		if !srv.Voter {
			continue
		}
		voters++
		if srv.Name == s.cfg.Name {
			continue
		}
		asked++
		go func() {
			d, err := s.peerOffset(ctx, srv.Name, srv.Address)
			if err != nil {
				s.log.Debug("asking a server for its clock failed", "server", srv.Name, "error", err)
				d = unknownOffset
			}
			answers <- d
		}()
	}
	offsets := []time.Duration{0}
	for range asked {
		if d := <-answers; d != unknownOffset {
			offsets = append(offsets, d)
		}
	}
	if len(offsets) < voters/2+1 {
		return 0, false, errNoQuorum
	}
	return median(offsets), len(offsets) >= min(voters, clockVotes), nil
}

// peerOffset asks a server for its wall clock and returns the distance to this
// server's, with half the round trip taken off.
func (s *Server) peerOffset(ctx context.Context, name, address string) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	before, sent := s.clock.wall(), s.clock.mono()
	var reply rpc.ClockReply
	if err := s.peers.Call(ctx, s.address(name, address), rpc.MethodClock, rpc.Empty{}, &reply); err != nil {
		return 0, err
	}
	halfway := before.Add((s.clock.mono() - sent) / 2)
	return time.UnixMicro(reply.UnixMicros).Sub(halfway), nil
}

const unknownOffset = time.Duration(-1 << 63)

// median returns the middle value; of an even number the one nearer to zero, so
// that two servers follow the leader.
func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	hi := d[len(d)/2]
	if len(d)%2 == 1 {
		return hi
	}
	if lo := d[len(d)/2-1]; lo.Abs() < hi.Abs() {
		return lo
	}
	return hi
}

// followMedian keeps an anchored clock near the quorum's median until ctx ends.
func (s *Server) followMedian(ctx context.Context, log *slog.Logger) {
	tick := time.NewTicker(clockInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		offset, sure, err := s.clockOffset(ctx)
		if err != nil || !sure {
			continue
		}
		if by, stepped := s.clock.correct(offset); stepped {
			log.Warn("the cluster's clock stepped forward to the servers' median", "by", by)
		}
	}
}
