package server

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// readClock reads one of the kernel's clocks.
func readClock(id int32) time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(id, &ts); err != nil {
		panic("axd: a clock of the kernel can't be read: " + err.Error()) // Linux has had them since 2.6.39
	}
	return time.Duration(ts.Nano())
}

// boottime is a monotonic clock that counts suspend, unlike Go's own.
func boottime() time.Duration { return readClock(unix.CLOCK_BOOTTIME) }

// awake is a monotonic clock that stops in suspend.
func awake() time.Duration { return readClock(unix.CLOCK_MONOTONIC) }

// The bounds of how the clock follows the servers.
const (
	clockStep    = time.Second      // a forward correction above it steps, everything else is slewed
	clockRunaway = 30 * time.Second // ahead of what a majority vouches for: the clock is set back, see reinIn
	clockHaste   = 20               // the clock gains at most 1 ms per 20 ms while it is slewed
	clockDelay   = 2000             // and loses at most 1 ms per 2 s: workers rely on it, see worker's clockDrift
	sleepLimit   = time.Second      // a shorter suspend is taken for none
)

// clock is the cluster's clock as this server knows it. While it leads, the
// clock was agreed with a quorum and advances with mono, so that steps of the
// wall clock neither repeat nor delay anything. Elsewhere it is what the servers
// last said of the time, or the wall clock's reading before they did.
//
// What other clocks say is expressed as a lead: their Unix time minus mono, so
// that it can be kept without growing old.
type clock struct {
	wall  func() time.Time
	mono  func() time.Duration // counts suspend
	awake func() time.Duration // doesn't

	mu struct {
		sync.Mutex
		anchored bool
		halted   bool          // found wrong: nothing goes by it until it is right, or another leads
		base     int64         // cluster time at the anchor, Unix ns
		at       time.Duration // mono at the anchor
		slew     time.Duration // still to be worked in, by slewing
		slept    time.Duration // mono minus awake when that was last looked into
		heard    bool
		lead     time.Duration // what the servers last said, if heard
	}
}

func newClock(h Host) *clock {
	c := &clock{wall: h.Wall, mono: h.Mono, awake: h.Awake}
	c.woken()
	return c
}

// Now returns the cluster's time in Unix ms, rounded down: nothing is due early.
func (c *clock) Now() int64 { return c.nanos() / int64(time.Millisecond) }

// stamp is Now for log entries: 0 until a term's clock is agreed. Raft leads
// before that, and what this server's own wall says must not reach state.
func (c *clock) stamp() int64 { return c.told() / 1000 }

// told is what workers hear of the cluster's time, in Unix µs. It is 0, which tells
// nothing, while no term's clock is agreed: what a server that leads no more takes
// for the time may be its own wall's. It is 0 after a suspend too, until that was
// looked into: the cluster may have gone on without this server, or the machine may
// be wrong on how long it slept. And it is 0 while the clock is halted.
func (c *clock) told() int64 {
	slept := c.sleep()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored || c.mu.halted || slept > sleepLimit {
		return 0
	}
	return c.advance() / int64(time.Microsecond)
}

func (c *clock) nanos() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.mu.anchored:
		return c.advance()
	case c.mu.heard:
		return int64(c.mu.lead + c.mono())
	}
	return c.wall().UnixNano()
}

// hear takes what the servers say of the time, for while this one doesn't lead.
func (c *clock) hear(lead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.lead, c.mu.heard = lead, true
}

// advance moves the anchor to the present and works in a part of the slew. It
// never goes back.
func (c *clock) advance() int64 {
	elapsed := c.mono() - c.mu.at
	part := max(min(c.mu.slew, elapsed/clockHaste), -elapsed/clockDelay)
	c.mu.base += int64(elapsed + part)
	c.mu.at += elapsed
	c.mu.slew -= part
	return c.mu.base
}

// wallLead is the wall clock's lead.
func (c *clock) wallLead() time.Duration {
	return time.Duration(c.wall().UnixNano()) - c.mono()
}

// lead turns a time in Unix ms into a lead.
func (c *clock) lead(ms int64) time.Duration {
	return time.Duration(ms)*time.Millisecond - c.mono()
}

// anchor starts a term, or begins anew within one, at the given lead.
func (c *clock) anchor(lead time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.at = c.mono()
	c.mu.base = int64(lead + c.mu.at)
	c.mu.slew = 0
	c.mu.anchored, c.mu.halted = true, false
}

// halt keeps the clock from being told and stamped with, or lets it again.
func (c *clock) halt(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.halted = on
}

// release ends the term: the clock is again what the others say.
func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.anchored, c.mu.halted = false, false
}

// correct brings the clock towards a lead: forward over a second at once,
// everything else by slewing, so that it never goes back. It returns how far
// off the clock was.
func (c *clock) correct(to time.Duration) (by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored {
		return 0
	}
	now := c.advance()
	by = time.Duration(int64(to+c.mu.at) - now)
	if by > clockStep {
		c.mu.base, c.mu.slew = now+int64(by), 0
	} else {
		c.mu.slew = by
	}
	return by
}

// setBack sets the clock to the lead that a majority of the voters vouches for,
// if it is further ahead of it than that, and returns by how much. The state may
// have seen a later time: its clock stands still until this one has come so far.
func (c *clock) setBack(vouched, than time.Duration) (by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored {
		return 0
	}
	now := c.advance()
	by = time.Duration(int64(vouched+c.mu.at) - now)
	if by >= -than {
		return 0
	}
	c.mu.base, c.mu.slew = now+int64(by), 0
	return by
}

// aheadOf is how far the clock is ahead of a lead.
func (c *clock) aheadOf(lead time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.mu.anchored {
		return 0
	}
	return time.Duration(c.advance() - int64(lead+c.mu.at))
}

// sleep returns how long the machine was suspended since woken was last called.
func (c *clock) sleep() time.Duration {
	slept := c.mono() - c.awake()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slept - c.mu.slept
}

// woken forgets the suspends so far.
func (c *clock) woken() {
	slept := c.mono() - c.awake()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.slept = slept
}
