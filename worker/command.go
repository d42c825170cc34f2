package worker

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// stopReason tells why an attempt is being ended before its own end.
type stopReason string

const (
	stopNone    stopReason = ""
	stopTimeout stopReason = "timeout"
	stopTotal   stopReason = "total"  // all attempts together took too long
	stopSilent  stopReason = "silent" // no heartbeat of the attempt
	stopCancel  stopReason = "cancelled"
	stopStale   stopReason = "stale"
	stopLease   stopReason = "lease" // no contact with the leader
	stopDrain   stopReason = "drain" // the worker stops
	stopGone    stopReason = "gone"  // the worker, or its supervisor, died
)

const (
	leftoverGrace = 2 * time.Second        // from TERM to KILL for what a command left running when it ended
	leftoverLimit = 2 * time.Second        // after KILL, for it to be gone and its pipes to be closed
	streamPause   = 5 * time.Millisecond   // for the pipes to come to their end, before a first look
	leftoverPause = 20 * time.Millisecond  // between two looks
	killRepeat    = 100 * time.Millisecond // between two KILLs while forks may outrun them
)

// command is one process tree as the supervisor's loop sees it. Instants are
// CLOCK_BOOTTIME; zero means none.
type command struct {
	order   startOrder
	group   cgroup
	pid     int // also its process group and session
	process process
	feed    *stdinFeed
	streams [2]*stream
	pulse   *pulse
	reading int // streams not yet at their end

	generation uint64 // of the follow that wants output
	wait       bool   // ditto

	startedAt time.Duration
	exitedAt  time.Duration
	status    unix.WaitStatus
	reason    stopReason
	hurried   bool // its grace is short
	doomed    bool // it is killed: its worker is gone, or wants it no more
	killAt    time.Duration
	nextLook  time.Duration
	note      string
}

func (c *command) grace() time.Duration {
	if c.hurried {
		return min(time.Duration(c.order.Grace), hurryGrace)
	}
	return time.Duration(c.order.Grace)
}

// leaseView is the lease as of one pass of the loop.
type leaseView struct{ until, ttl time.Duration }

// action is what a pass must do to a command.
type action int

const (
	actNothing action = iota
	actTerm
	actKill
)

// ended notes how the first process ended.
func (c *command) ended(status unix.WaitStatus) {
	c.status, c.exitedAt = status, boottime()
	c.nextLook = c.exitedAt + streamPause
	for _, s := range c.streams {
		s.hurry()
	}
}

// follow passes the wish for output on, once there are streams.
func (c *command) follow() {
	if c.pid == 0 {
		return
	}
	for _, s := range c.streams {
		s.follow(c.generation, c.wait)
	}
}

// decide says what a running command is due for: its time-out, the lease's end
// or the end of its grace. It is pure, so that time can be tested.
func (c *command) decide(now time.Duration, l leaseView) (action, stopReason) {
	if !c.order.Continue && now >= l.until {
		return actKill, stopLease
	}
	if c.killAt != 0 {
		if now >= c.killAt {
			return actKill, c.reason
		}
		return actNothing, c.reason
	}
	if c.order.Timeout > 0 && now-c.startedAt >= time.Duration(c.order.Timeout) {
		return actTerm, stopTimeout
	}
	if c.pulse.silent(now) {
		return actTerm, stopSilent
	}
	if !c.order.Continue && now >= leaseTerm(l.until, l.ttl, c.grace()) {
		return actTerm, stopLease
	}
	return actNothing, stopNone
}

// next is when decide may answer otherwise.
func (c *command) next(l leaseView) time.Duration {
	if c.killAt != 0 {
		if c.order.Continue {
			return c.killAt
		}
		return min(c.killAt, l.until)
	}
	at := time.Duration(1<<63 - 1)
	if c.order.Timeout > 0 {
		at = later(c.startedAt, time.Duration(c.order.Timeout))
	}
	at = min(at, c.pulse.next())
	if !c.order.Continue {
		at = min(at, leaseTerm(l.until, l.ttl, c.grace()))
	}
	return at
}

// report tells how it ended.
func (c *command) report(left bool) *exitedReport {
	r := &exitedReport{
		Seq: c.order.Seq, Reason: c.reason,
		Started: int64(c.startedAt), Ended: int64(c.exitedAt),
	}
	if c.status.Signaled() {
		r.Code, r.Signal = 128+int(c.status.Signal()), unix.SignalName(c.status.Signal())
	} else {
		r.Code = c.status.ExitStatus()
	}
	if left {
		r.Error = "processes of the command could not be ended"
	}
	if c.note != "" && r.Error == "" {
		r.Error = c.note
	}
	for i, s := range c.streams {
		b := s.end()
		if i == 0 {
			r.Stdout = b
		} else {
			r.Stderr = b
		}
	}
	return r
}

// tree finds the command's processes outside its process group: descendants of
// its first process, and orphans that left the group, which the kernel hands to
// the supervisor (PR_SET_CHILD_SUBREAPER) and which the mark in their
// environment gives away. With alone, an orphan without any mark is its too.
func (c *command) tree(known map[int]*command, alone bool) []int {
	if c.group.dir != "" {
		return c.group.outside(c.pid)
	}
	stats := readStats()
	self := os.Getpid()
	roots := map[int]bool{}
	for _, s := range stats {
		switch {
		case s.PID == c.pid && c.exitedAt == 0:
			roots[s.PID] = true
		case s.parent == self && known[s.PID] == nil && s.group != c.pid && c.owns(s.PID, alone):
			roots[s.PID] = true
		}
	}
	if len(roots) == 0 {
		return nil
	}
	var outside []int
	groups := make(map[int]int, len(stats))
	for _, s := range stats {
		groups[s.PID] = s.group
	}
	for _, pid := range withDescendants(stats, roots) {
		if groups[pid] != c.pid {
			outside = append(outside, pid)
		}
	}
	return outside
}

// left finds what the command left running outside its group when it ended. A
// look at the children alone answers the common case: nothing.
func (c *command) left(known map[int]*command, alone bool) []int {
	if c.group.dir == "" {
		strangers := false
		for _, pid := range children() {
			strangers = strangers || known[pid] == nil
		}
		if !strangers {
			return nil
		}
	}
	return c.tree(known, alone)
}

func (c *command) owns(pid int, alone bool) bool {
	return alone || anyMarked(pid, map[string]bool{c.order.Mark: true})
}

// signal sends to the group and to what left it.
func (c *command) signal(sig unix.Signal, outside []int) {
	if sig == unix.SIGKILL {
		c.group.kill()
	}
	_ = unix.Kill(-c.pid, sig)
	for _, pid := range outside {
		_ = unix.Kill(pid, sig)
	}
	if sig == unix.SIGTERM { // a stopped process takes no TERM before it goes on
		_ = unix.Kill(-c.pid, unix.SIGCONT)
		for _, pid := range outside {
			_ = unix.Kill(pid, unix.SIGCONT)
		}
	}
}

// closePipes ends reading and writing, whoever still holds the other ends.
func (c *command) closePipes() {
	_ = c.feed.Close()
	_ = c.pulse.close()
	for _, s := range c.streams {
		_ = s.pipe.Close()
	}
}

// refusal tells why it never ran.
func (c *command) refusal(err error) *exitedReport {
	r := &exitedReport{Seq: c.order.Seq, Reason: c.reason, Error: err.Error()}
	var e *startError
	if errors.As(err, &e) {
		r.Code, r.Error = e.code, e.text
	}
	return r
}
