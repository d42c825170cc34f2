package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// The limits of a connection.
const (
	MaxCalls     = 1024             // calls and streams in flight, in each direction; more wait at the caller
	StreamWindow = 64               // chunks of a stream that its reader has not taken yet
	PingInterval = 2 * time.Second  // without traffic, a ping is sent
	IdleTimeout  = 8 * time.Second  // a peer silent for so long is dead
	WriteTimeout = 10 * time.Second // a peer that takes nothing for so long is dead
	HelloTimeout = 5 * time.Second  // for the protocol byte, and again for the hello

	ioBuffer = 16 << 10 // bytes of buffer for each direction
)

// ErrClosed matches the error of every call on a connection that ended. Whether
// the peer acted on the request is unknown, unless ErrNotSent matches too.
var ErrClosed = errors.New("rpc: connection closed")

// ErrNotSent matches the error of a request that never left this process: the
// peer has not acted on it.
var ErrNotSent = errors.New("rpc: request not sent")

// Handler answers requests. It runs on a goroutine of its own for calls and
// streams, at most MaxCalls per connection; more are refused with code
// "overloaded". ctx ends with the connection, or when the caller no longer
// waits. The reply is nil for notifications and streams.
//
// Notifications are handled in order of arrival, one after the other. While too
// many of them wait (1024, or 8 MiB) the connection isn't read, so a handler of
// notifications must not wait for an answer on the same connection.
//
// An error that is (or wraps) an *Error reaches the caller as it is, others as
// the ErrorEncoder says, by default with code "internal". A panic is a bug: it
// is logged with its stack and answered as an internal error.
type Handler func(ctx context.Context, r *Request) (reply any, err error)

// Option changes how connections behave.
type Option func(*options)

type options struct {
	encodeError func(error) *Error
	logger      *slog.Logger
}

// WithErrorEncoder says how errors of handlers that aren't *Error are answered.
// Where encode returns nil the code is "internal".
func WithErrorEncoder(encode func(error) *Error) Option {
	return func(o *options) { o.encodeError = encode }
}

// WithLogger says where to log; the default is slog.Default().
func WithLogger(l *slog.Logger) Option {
	return func(o *options) { o.logger = l }
}

func newOptions(opts []Option) options {
	o := options{encodeError: func(error) *Error { return nil }, logger: slog.Default()}
	for _, set := range opts {
		set(&o)
	}
	return o
}

// Conn is a connection on which both sides may call. Its methods are safe for
// concurrent use.
type Conn struct {
	nc      net.Conn
	br      *bufio.Reader
	peer    Hello
	handler Handler
	opts    options

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	wg     sync.WaitGroup // reader, writer, notifier and handlers

	out     *queue[*bytes.Buffer]
	control chan *bytes.Buffer // from the reader, which must not wait for room
	notes   *queue[*Request]
	slots   *semaphore.Weighted // calls of this side
	lastID  atomic.Uint64

	mu      sync.Mutex
	err     error
	pending map[uint64]*pending // by our ids
	served  map[uint64]*served  // by the peer's ids
}

// newConn starts a connection after the hellos.
func newConn(nc net.Conn, br *bufio.Reader, peer Hello, h Handler, opts options) *Conn {
	c := &Conn{
		nc: nc, br: br, peer: peer, handler: h, opts: opts,
		done:    make(chan struct{}),
		out:     newQueue[*bytes.Buffer](),
		control: make(chan *bytes.Buffer, controlFrames),
		notes:   newQueue[*Request](),
		slots:   semaphore.NewWeighted(MaxCalls),
		pending: make(map[uint64]*pending),
		served:  make(map[uint64]*served),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.wg.Go(c.read)
	c.wg.Go(c.write)
	c.wg.Go(c.notify)
	return c
}

// Peer returns the peer's hello.
func (c *Conn) Peer() Hello { return c.peer }

// RemoteAddr returns the peer's network address.
func (c *Conn) RemoteAddr() string { return c.nc.RemoteAddr().String() }

// Done is closed when the connection has ended; Err then tells why.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, nil while it is up. It matches ErrClosed.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection at once, also from within a handler. The contexts
// of handlers end; Wait tells when they have returned.
func (c *Conn) Close() error {
	c.fail(errors.New("closed by this side"))
	return nil
}

// Wait returns when the connection has ended and with it everything it started,
// handlers included. A handler must not call it.
func (c *Conn) Wait() { c.wg.Wait() }

func (c *Conn) fail(cause error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = fmt.Errorf("%w: %s %s at %s: %w", ErrClosed, c.peer.Role, c.peer.Name, c.RemoteAddr(), cause)
	c.cancel()
	_ = c.nc.Close()
	close(c.done)
}

// enqueue hands a frame to the writer, waiting for room until ctx or the
// connection ends.
func (c *Conn) enqueue(ctx context.Context, b *bytes.Buffer) error {
	size := b.Len()
	if err := c.Err(); err != nil {
		putBuf(b)
		return err
	}
	if c.out.tryPut(b, size) {
		return nil
	}
	ctx, cancel := c.joined(ctx)
	defer cancel()
	if err := c.out.put(ctx, b, size); err != nil {
		putBuf(b)
		return c.whyEnded(err)
	}
	return nil
}

// joined returns a context that ends with ctx or with the connection.
func (c *Conn) joined(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// whyEnded prefers the connection's end over the error of a joined context.
func (c *Conn) whyEnded(err error) error {
	if cerr := c.Err(); cerr != nil {
		return cerr
	}
	return err
}
