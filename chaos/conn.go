package chaos

import (
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

// stream is one direction of a connection. Its fields are guarded by the
// network's mu.
type stream struct {
	link     *link
	segments []segment // in flight or unread, in order
	size     int       // bytes of them
	last     time.Time // when the newest one arrives
	ended    error     // what the reader gets after the segments
	endedAt  time.Time // when it gets to know
	gone     bool      // nobody reads any more
	readable chan struct{}
	writable chan struct{}
}

type segment struct {
	at   time.Time // of arrival
	data []byte
}

func newStream(l *link) *stream {
	return &stream{link: l, readable: make(chan struct{}, 1), writable: make(chan struct{}, 1)}
}

// end lets the reader know, after all that is in flight, that nothing follows.
func (s *stream) end(err error, at time.Time) {
	if s.ended != nil {
		return
	}
	if at.Before(s.last) {
		at = s.last
	}
	s.ended, s.endedAt = err, at
	wake(s.readable)
}

// conn is one side of a connection.
type conn struct {
	n             *Network
	port          *Port
	local, remote hostPort
	in, out       *stream
	closed        chan struct{}
	isClosed      bool
	orphan        bool // the peer's host went silently

	// Set by SetDeadline, guarded by the network's mu.
	readUntil, writeUntil time.Time

	// One reader and one writer at a time. Places in channels instead of locks,
	// since waiting for a lock is no waiting in a bubble.
	reading, writing chan struct{}
}

func newConn(n *Network, p *Port, local, remote hostPort, in, out *stream) *conn {
	return &conn{
		n: n, port: p, local: local, remote: remote, in: in, out: out, closed: make(chan struct{}),
		reading: make(chan struct{}, 1), writing: make(chan struct{}, 1),
	}
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	select {
	case c.reading <- struct{}{}:
		defer func() { <-c.reading }()
	case <-c.closed:
		return 0, closedError("read")
	}
	for {
		n, wait, err := c.take(p)
		if n > 0 || err != nil {
			return n, err
		}
		c.wait(c.in.readable, wait)
	}
}

// take reads what has arrived; with neither bytes nor error it says how long to
// wait at most before looking again.
func (c *conn) take(p []byte) (n int, wait time.Duration, err error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	now := time.Now()
	if c.isClosed {
		return 0, 0, closedError("read")
	}
	if !c.readUntil.IsZero() && !now.Before(c.readUntil) {
		return 0, 0, os.ErrDeadlineExceeded
	}
	s, open := c.in, c.in.link.cuts == 0
	for open && n < len(p) && len(s.segments) > 0 && !s.segments[0].at.After(now) {
		first := &s.segments[0]
		k := copy(p[n:], first.data)
		n += k
		s.size -= k
		if first.data = first.data[k:]; len(first.data) == 0 {
			s.segments = s.segments[1:]
		}
	}
	if n > 0 {
		wake(s.writable)
		return n, 0, nil
	}
	if len(p) == 0 {
		return 0, 0, nil
	}
	wait = holdCheck
	switch {
	case !open:
		s.link.held++
	case len(s.segments) > 0:
		wait = s.segments[0].at.Sub(now)
	case s.ended != nil && !s.endedAt.After(now):
		return 0, 0, s.ended
	case s.ended != nil:
		wait = s.endedAt.Sub(now)
	}
	return 0, until(wait, c.readUntil, now), nil
}

// until shortens a wait to a deadline.
func until(wait time.Duration, deadline, now time.Time) time.Duration {
	if deadline.IsZero() {
		return wait
	}
	return min(wait, deadline.Sub(now))
}

func (c *conn) wait(woken <-chan struct{}, longest time.Duration) {
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-woken:
	case <-t.C:
	case <-c.closed:
	}
}

// Write implements net.Conn. Nil means that the bytes are on their way, not that
// they arrive.
func (c *conn) Write(p []byte) (int, error) {
	select {
	case c.writing <- struct{}{}:
		defer func() { <-c.writing }()
	case <-c.closed:
		return 0, closedError("write")
	}
	written := 0
	for {
		n, wait, err := c.put(p[written:])
		written += n
		if written == len(p) || err != nil {
			return written, err
		}
		c.wait(c.out.writable, wait)
	}
}

// put sends as much as the window takes.
func (c *conn) put(p []byte) (n int, wait time.Duration, err error) {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	now := time.Now()
	s := c.out
	if c.isClosed {
		return 0, 0, closedError("write")
	}
	if !c.writeUntil.IsZero() && !now.Before(c.writeUntil) {
		return 0, 0, os.ErrDeadlineExceeded
	}
	if s.gone && c.in.link.cuts == 0 && c.in.ended != nil && !c.in.endedAt.After(now) {
		return 0, 0, &net.OpError{Op: "write", Net: "sim", Err: syscall.EPIPE}
	}
	if s.link.resets > 0 && c.n.rng.Float64() < s.link.resets {
		s.link.reset++
		c.reset()
		return 0, 0, &net.OpError{Op: "write", Net: "sim", Err: syscall.ECONNRESET}
	}
	n = min(len(p), streamWindow-s.size)
	if n == 0 && len(p) > 0 {
		return 0, until(holdCheck, c.writeUntil, now), nil
	}
	at := now.Add(c.n.delay(s.link))
	if at.Before(s.last) {
		at = s.last
	}
	if s.link.cuts > 0 {
		s.link.held++
	}
	if s.gone { // it will be told when the news can reach it
		return n, 0, nil
	}
	s.last = at
	s.size += n
	s.segments = append(s.segments, segment{at, append([]byte(nil), p[:n]...)})
	wake(s.readable)
	return n, 0, nil
}

// reset breaks both directions at once; the caller holds mu.
func (c *conn) reset() {
	c.in.segments, c.out.segments = nil, nil
	c.in.size, c.out.size = 0, 0
	c.in.end(errReset, time.Now())
	c.out.end(errReset, time.Now())
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.isClosed {
		return closedError("close")
	}
	c.shut()
	c.out.end(io.EOF, time.Now().Add(c.n.delay(c.out.link)))
	return nil
}

// abandon ends the connection with its process: the peer sees a reset, or
// nothing. The caller holds mu.
func (c *conn) abandon(silent bool) {
	if c.isClosed {
		return
	}
	c.shut()
	if !silent {
		c.out.end(errReset, time.Now().Add(c.n.delay(c.out.link)))
		return
	}
	for peer := range c.n.conns {
		if peer.in == c.out {
			peer.orphan = true
		}
	}
}

// shut ends this side; the caller holds mu.
func (c *conn) shut() {
	c.isClosed = true
	close(c.closed)
	c.in.segments, c.in.size, c.in.gone = nil, 0, true
	wake(c.in.writable)
	delete(c.n.conns, c)
}

func closedError(op string) error { return &net.OpError{Op: op, Net: "sim", Err: net.ErrClosed} }

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.limit(&t, &t) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.limit(&t, nil) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.limit(nil, &t) }

func (c *conn) limit(read, write *time.Time) error {
	c.n.mu.Lock()
	defer c.n.mu.Unlock()
	if c.isClosed {
		return closedError("set")
	}
	if read != nil {
		if sooner(*read, c.readUntil) {
			wake(c.in.readable)
		}
		c.readUntil = *read
	}
	if write != nil {
		if sooner(*write, c.writeUntil) {
			wake(c.out.writable)
		}
		c.writeUntil = *write
	}
	return nil
}

// sooner tells whether who waits for a deadline must learn of a new one.
func sooner(next, was time.Time) bool {
	return !next.IsZero() && (was.IsZero() || next.Before(was))
}
