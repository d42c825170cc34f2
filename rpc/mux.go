package rpc

import (
	"bufio"
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// The limits of a Mux.
const (
	MaxConns     = 8192 // RPC connections; more are closed at once
	MaxUndecided = 256  // connections before the end of their hello; the oldest gives way

	raftBacklog    = 16                     // connections that Raft has not accepted yet
	acceptDelay    = 5 * time.Millisecond   // after a failed accept, doubling
	acceptDelayMax = 500 * time.Millisecond // ditto
)

// MuxStats counts connections since the start.
type MuxStats struct {
	Raft    uint64 // handed to Raft
	RPC     uint64 // opened as RPC
	Foreign uint64 // closed: the first byte or the hello was none of ours
	Silent  uint64 // closed: undecided for too long, or to make room for others
	Refused uint64 // closed: refused by hello, or over MaxConns
}

// Mux shares one listener between Raft and RPC by a connection's first byte.
type Mux struct {
	ln   net.Listener
	raft *raftListener
	wg   sync.WaitGroup

	mu        sync.Mutex
	undecided *list.List // of net.Conn, oldest first
	conns     map[*Conn]struct{}

	countRaft, countRPC, foreign, silent, refused atomic.Uint64
}

// NewMux wraps a listener; Serve must run for either side to accept.
func NewMux(ln net.Listener) *Mux {
	return &Mux{
		ln:        ln,
		raft:      &raftListener{addr: ln.Addr(), conns: make(chan net.Conn, raftBacklog), closed: make(chan struct{})},
		undecided: list.New(),
		conns:     make(map[*Conn]struct{}),
	}
}

// Raft returns the listener that yields Raft's connections, without their
// protocol byte. Closing it leaves RPC alone.
func (m *Mux) Raft() net.Listener { return m.raft }

// Stats returns what became of the connections so far.
func (m *Mux) Stats() MuxStats {
	return MuxStats{
		Raft: m.countRaft.Load(), RPC: m.countRPC.Load(), Foreign: m.foreign.Load(),
		Silent: m.silent.Load(), Refused: m.refused.Load(),
	}
}

// Serve accepts until ctx ends or the listener fails, and serves RPC
// connections with h. It checks the protocol and the cluster's id of each hello
// (self is asked for every connection, since the id may come later); accept, if
// not nil, may refuse a peer for other reasons. Serve closes the listener and
// every RPC connection, and returns when their handlers have; nil after ctx
// ended. Raft's connections are Raft's to close.
func (m *Mux) Serve(ctx context.Context, self func() Hello, accept func(Hello) *Error, h Handler, opts ...Option) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = m.ln.Close() })
	defer stop()
	s := &session{mux: m, ctx: ctx, self: self, accept: accept, handler: h, opts: newOptions(opts)}
	err := m.acceptAll(ctx, s)
	cancel()
	_ = m.ln.Close()
	_ = m.raft.Close()
	m.closeAll()
	m.wg.Wait()
	return err
}

func (m *Mux) acceptAll(ctx context.Context, s *session) error {
	delay := acceptDelay
	for {
		nc, err := m.ln.Accept()
		switch {
		case err == nil:
			delay = acceptDelay
			place := m.enter(nc)
			m.wg.Go(func() { s.decide(nc, place) })
		case ctx.Err() != nil:
			return nil
		case passing(err):
			s.opts.logger.Warn("rpc: accept failed", "error", err, "retry_in", delay)
			select {
			case <-time.After(delay):
			case <-ctx.Done():
				return nil
			}
			delay = min(2*delay, acceptDelayMax)
		default:
			return err
		}
	}
}

// passing tells whether accepting may work again later.
func passing(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EINTR} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// enter notes an undecided connection. The oldest makes room: an honest peer
// sends its first bytes at once, so whoever waits longest is the likeliest
// idler, and idlers can't shut the others out.
func (m *Mux) enter(nc net.Conn) *list.Element {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.undecided.Len() >= MaxUndecided {
		oldest := m.undecided.Front()
		_ = m.undecided.Remove(oldest).(net.Conn).Close()
		m.silent.Add(1)
	}
	return m.undecided.PushBack(nc)
}

// leave tells whether the connection was still wanted.
func (m *Mux) leave(place *list.Element) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.undecided.Len()
	m.undecided.Remove(place)
	return m.undecided.Len() < before
}

func (m *Mux) closeAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for e := m.undecided.Front(); e != nil; e = e.Next() {
		_ = e.Value.(net.Conn).Close()
	}
	for c := range m.conns {
		_ = c.Close()
	}
}

// session is what one Serve serves with.
type session struct {
	mux     *Mux
	ctx     context.Context
	self    func() Hello
	accept  func(Hello) *Error
	handler Handler
	opts    options
}

// decide reads the first byte and hands the connection on.
func (s *session) decide(nc net.Conn, place *list.Element) {
	m := s.mux
	var first [1]byte
	err := nc.SetReadDeadline(time.Now().Add(HelloTimeout))
	if err == nil {
		_, err = nc.Read(first[:])
	}
	switch {
	case err != nil:
		if m.leave(place) {
			m.silent.Add(1)
		}
		_ = nc.Close()
	case first[0] == byteRaft:
		s.raft(nc, place)
	case first[0] == byteRPC:
		s.serve(nc, place)
	default:
		m.leave(place)
		m.foreign.Add(1)
		_ = nc.Close()
	}
}

// raft hands a connection to Raft if a server of this cluster has dialled it.
func (s *session) raft(nc net.Conn, place *list.Element) {
	m := s.mux
	conn, peer, err := acceptRaft(nc, s.self())
	wanted := m.leave(place)
	var refusal *Error
	switch {
	case errors.As(err, &refusal):
		m.refused.Add(1)
		s.opts.logger.Warn("rpc: raft connection refused", "peer", peer.Name, "address", nc.RemoteAddr(), "reason", refusal.Text)
	case errors.Is(err, errFrame):
		m.foreign.Add(1)
	case err != nil && wanted:
		m.silent.Add(1)
	}
	if err != nil || !wanted || nc.SetReadDeadline(time.Time{}) != nil || !m.raft.give(s.ctx, conn) {
		_ = nc.Close()
		return
	}
	m.countRaft.Add(1)
}

// serve exchanges hellos and stays until the connection has ended.
func (s *session) serve(nc net.Conn, place *list.Element) {
	m := s.mux
	// The hello has one deadline as a whole, or its bytes could be dripped in.
	drip := time.AfterFunc(HelloTimeout, func() { _ = nc.Close() })
	br := bufio.NewReaderSize(deadlineReader{nc}, ioBuffer)
	peer, err := acceptHello(nc, br, s.self(), s.admit)
	inTime, wanted := drip.Stop(), m.leave(place)
	if err != nil || !inTime || !wanted {
		var refusal *Error
		switch {
		case errors.As(err, &refusal):
			m.refused.Add(1)
			s.opts.logger.Warn("rpc: connection refused", "peer", peer.Name, "address", nc.RemoteAddr(), "reason", refusal.Text)
		case errors.Is(err, errFrame):
			m.foreign.Add(1)
		case wanted:
			m.silent.Add(1)
		}
		_ = nc.Close()
		return
	}
	c := s.open(nc, br, peer)
	if c == nil {
		m.refused.Add(1)
		_ = nc.Close()
		return
	}
	m.countRPC.Add(1)
	c.Wait()
	m.mu.Lock()
	delete(m.conns, c)
	m.mu.Unlock()
}

// admit refuses a peer while there are too many, or as the server says.
func (s *session) admit(peer Hello) *Error {
	s.mux.mu.Lock()
	n := len(s.mux.conns)
	s.mux.mu.Unlock()
	if n >= MaxConns {
		return &Error{Code: codeOverloaded, Text: fmt.Sprintf("this server has %d connections already", n)}
	}
	if s.accept == nil {
		return nil
	}
	return s.accept(peer)
}

// open starts the connection, unless there are too many or Serve ends.
func (s *session) open(nc net.Conn, br *bufio.Reader, peer Hello) *Conn {
	s.mux.mu.Lock()
	defer s.mux.mu.Unlock()
	if len(s.mux.conns) >= MaxConns || s.ctx.Err() != nil {
		return nil
	}
	c := newConn(nc, br, peer, s.handler, s.opts)
	s.mux.conns[c] = struct{}{}
	return c
}

// raftListener yields the connections that the mux hands to Raft.
type raftListener struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// give waits a bounded time for Raft to take a connection.
func (l *raftListener) give(ctx context.Context, nc net.Conn) bool {
	late := time.NewTimer(HelloTimeout)
	defer late.Stop()
	select {
	case <-l.closed:
		return false
	default:
	}
	select {
	case l.conns <- nc:
		select {
		case <-l.closed: // it may have come too late to be drained
			l.drain()
		default:
		}
		return true
	case <-l.closed:
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

func (l *raftListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
		return nil, net.ErrClosed
	default:
	}
	select {
	case nc := <-l.conns:
		return nc, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *raftListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.drain()
	})
	return nil
}

func (l *raftListener) drain() {
	for {
		select {
		case nc := <-l.conns:
			_ = nc.Close()
		default:
			return
		}
	}
}

func (l *raftListener) Addr() net.Addr { return l.addr }
