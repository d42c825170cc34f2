package raftnode

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/internal/mutant"
)

const (
	// maxAccepted bounds Raft's inbound connections. A peer holds a handful:
	// pooled ones, one for a snapshot, one for a vote.
	maxAccepted = 128
	// writeStall is how long one write, of 512 KiB at most, may take on a
	// connection; answerLimit how long a peer may take over an answer, an
	// installed snapshot's included; rpcCap how long one request may take in all,
	// whatever the size of the snapshot that it carries.
	writeStall  = 5 * time.Second
	answerLimit = time.Minute
	rpcCap      = time.Hour
)

var errStreamClosed = errors.New("raft transport is closed")

// stream is raft's stream layer over an injected listener and dialer. Addresses
// are server names here; they are resolved when a connection is dialled, so a
// server that moved is found without a change of configuration.
//
// Deadlines belong to the connection, not to raft: raft sets none while it
// receives, so a sender that dies silently in the middle of a snapshot would
// hold a follower's main loop, and with it the election, for ever.
type stream struct {
	listener net.Listener
	dial     func(ctx context.Context, name, address string) (net.Conn, error)
	resolve  func(name string) (address string, ok bool)
	idle     time.Duration // read limit of accepted connections
	fresh    time.Duration // a pooled connection unused for longer is dialled anew

	mu      sync.Mutex
	closed  bool
	in      map[*inConn]struct{}
	out     map[*outConn]struct{}
	renewed map[string]time.Time // connections to a name last used before this are stale
	serving sync.WaitGroup       // accepted connections whose handler hasn't ended
}

func newStream(cfg Config, resolve func(string) (string, bool)) *stream {
	idle := max(writeStall, 2*cfg.ElectionTimeout)
	return &stream{
		listener: cfg.Listener,
		dial:     cfg.Dial,
		resolve:  resolve,
		idle:     idle,
		fresh:    idle / 2, // well before the peer gives the connection up
		in:       make(map[*inConn]struct{}),
		out:      make(map[*outConn]struct{}),
		renewed:  make(map[string]time.Time),
	}
}

// Accept yields the next connection, with its limits.
func (s *stream) Accept() (net.Conn, error) {
	for {
		nc, err := s.listener.Accept()
		if err != nil {
			return nil, err
		}
		tune(nc)
		c := &inConn{Conn: nc, s: s}
		s.mu.Lock()
		full := s.closed || len(s.in) >= maxAccepted
		if !full {
			s.in[c] = struct{}{}
			s.serving.Add(1)
		}
		s.mu.Unlock()
		if !full {
			return c, nil
		}
		_ = nc.Close()
	}
}

// Addr returns the listener's address.
func (s *stream) Addr() net.Addr { return s.listener.Addr() }

// Close stops accepting. Connections end with kill.
func (s *stream) Close() error { return s.listener.Close() }

// Dial opens a connection to a server by name.
func (s *stream) Dial(name raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	c := &outConn{s: s, name: string(name)}
	if err := c.connect(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	return c, nil
}

// renew makes pooled connections to a name be dialled anew at their next use.
func (s *stream) renew(name string) {
	s.mu.Lock()
	s.renewed[name] = time.Now()
	s.mu.Unlock()
}

func (s *stream) isStale(name string, lastUse time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(lastUse) > s.fresh || lastUse.Before(s.renewed[name])
}

// kill ends every connection and waits for those who served them.
func (s *stream) kill() {
	s.mu.Lock()
	s.closed = true
	conns := make([]net.Conn, 0, len(s.in)+len(s.out))
	for c := range s.in {
		conns = append(conns, c.Conn)
	}
	for c := range s.out {
		conns = append(conns, c.nc)
	}
	s.mu.Unlock()
	for _, nc := range conns {
		_ = nc.Close() // it is being given up
	}
}

// inConn is an accepted connection. A read that gets nothing for the idle limit
// fails, and so does each read after it: raft drains what is left of a failed
// snapshot, which must not cost another limit.
type inConn struct {
	net.Conn
	s     *stream
	err   error // read by the one goroutine that reads
	close sync.Once
}

func (c *inConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	limit := time.Now().Add(c.s.idle)
	if mutant.EndlessRead {
		limit = time.Time{}
	}
	if err := c.SetReadDeadline(limit); err != nil {
		c.err = err
		return 0, err
	}
	n, err := c.Conn.Read(p)
	c.err = err
	return n, err
}

func (c *inConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(writeStall)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Close is called by the connection's handler, as its last act.
func (c *inConn) Close() error {
	err := c.Conn.Close()
	c.close.Do(func() {
		c.s.mu.Lock()
		delete(c.s.in, c)
		c.s.mu.Unlock()
		c.s.serving.Done()
	})
	return err
}

// outConn is a dialled connection as raft's pool holds it. Raft sets the
// deadline before each request; at that moment no byte of an earlier answer is
// left, so a connection that lay idle can be replaced without raft's notice
// instead of failing a request, which might be a vote.
type outConn struct {
	s    *stream
	name string

	// Used by one goroutine at a time: raft's pool hands it over. nc alone is
	// read by kill, under the stream's lock.
	nc       net.Conn
	lastUse  time.Time
	deadline time.Time
	err      error
}

// connect dials, until deadline.
func (c *outConn) connect(deadline time.Time) error {
	address, ok := c.s.resolve(c.name)
	if !ok {
		return errors.New("no address is known for server " + c.name)
	}
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	nc, err := c.s.dial(ctx, c.name, address)
	if err != nil {
		return err
	}
	tune(nc)
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.closed {
		return errors.Join(errStreamClosed, nc.Close())
	}
	c.nc, c.lastUse = nc, time.Now()
	c.s.out[c] = struct{}{}
	return nil
}

// SetDeadline begins a request.
func (c *outConn) SetDeadline(t time.Time) error {
	if latest := time.Now().Add(rpcCap); t.After(latest) {
		t = latest
	}
	c.deadline = t
	if c.err == nil && c.s.isStale(c.name, c.lastUse) {
		_ = c.nc.Close()
		c.err = c.connect(t)
	}
	return c.err
}

func (c *outConn) Write(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if err := c.nc.SetWriteDeadline(c.within(writeStall)); err != nil {
		return 0, err
	}
	n, err := c.nc.Write(p)
	c.lastUse = time.Now()
	return n, err
}

func (c *outConn) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if err := c.nc.SetReadDeadline(c.within(answerLimit)); err != nil {
		return 0, err
	}
	n, err := c.nc.Read(p)
	c.lastUse = time.Now()
	return n, err
}

// within returns the request's deadline or a limit from now, the earlier one.
func (c *outConn) within(limit time.Duration) time.Time {
	t := time.Now().Add(limit)
	if !c.deadline.IsZero() && c.deadline.Before(t) {
		return c.deadline
	}
	return t
}

func (c *outConn) Close() error {
	c.s.mu.Lock()
	delete(c.s.out, c)
	nc := c.nc
	c.s.mu.Unlock()
	return nc.Close()
}

func (c *outConn) LocalAddr() net.Addr  { return c.nc.LocalAddr() }
func (c *outConn) RemoteAddr() net.Addr { return c.nc.RemoteAddr() }

// Raft sets these two only when it pipelines, which it doesn't here.
func (c *outConn) SetReadDeadline(t time.Time) error  { return c.nc.SetReadDeadline(t) }
func (c *outConn) SetWriteDeadline(t time.Time) error { return c.nc.SetWriteDeadline(t) }

var keepAlive = net.KeepAliveConfig{Enable: true, Idle: writeStall, Interval: writeStall / 2, Count: 3}

// tcpOf finds the TCP connection below a wrapper, nil if there is none.
func tcpOf(nc net.Conn) *net.TCPConn {
	for {
		switch c := nc.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }:
			nc = c.NetConn()
		default:
			return nil
		}
	}
}
