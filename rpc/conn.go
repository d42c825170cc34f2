package rpc

import (
	"context"
	"net"
)

// Hello is exchanged when a connection opens; each side refuses a peer of
// another cluster or an incompatible protocol, saying what to do.
type Hello struct {
	Protocol  int    `msgpack:"p"`
	ClusterID string `msgpack:"c,omitempty"` // empty: not yet known
	Role      string `msgpack:"r"`           // "server", "worker" or "client"
	Name      string `msgpack:"n"`
	Boot      string `msgpack:"b"`
	Version   string `msgpack:"v"`
}

// Error is an error that the peer answered; Code is one of job's codes.
type Error struct {
	Code   string `msgpack:"c"`
	Text   string `msgpack:"t"`
	Field  string `msgpack:"f,omitempty"`
	Value  string `msgpack:"v,omitempty"`
	Leader string `msgpack:"l,omitempty"` // with no_leader: the address to dial, if known
}

func (e *Error) Error() string { return e.Text }

// Request is one call, notification or stream as the handler sees it.
type Request struct {
	Method string
	Conn   *Conn
	body   []byte
	send   func(any) error
}

// Decode reads the request's message.
func (r *Request) Decode(into any) error { panic("to be written") }

// Send writes one chunk of a stream; it fails once the caller is gone.
func (r *Request) Send(chunk any) error { return r.send(chunk) }

// Handler answers requests. It runs on a goroutine of its own for calls and
// streams, bounded per connection; notifications are handled in order of
// arrival, one after the other. The reply is nil for notifications and streams.
type Handler func(ctx context.Context, r *Request) (reply any, err error)

// Conn is a connection on which both sides may call.
type Conn struct{}

// Dial opens a connection over nc, which it owns: it writes the protocol byte,
// exchanges hellos and then serves the peer's requests with h (nil: refuses).
func Dial(ctx context.Context, nc net.Conn, self Hello, h Handler) (*Conn, error) {
	panic("to be written")
}

// Peer returns the peer's hello.
func (c *Conn) Peer() Hello { panic("to be written") }

// RemoteAddr returns the peer's network address.
func (c *Conn) RemoteAddr() string { panic("to be written") }

// Call sends a request and waits for the reply, which is decoded into reply
// unless that is nil. An error that the peer answered is an *Error.
func (c *Conn) Call(ctx context.Context, method string, req, reply any) error {
	panic("to be written")
}

// Notify sends a message without an answer. It fails if the connection is
// closed or its bounded send queue stays full until ctx ends.
func (c *Conn) Notify(ctx context.Context, method string, msg any) error {
	panic("to be written")
}

// Stream sends a request and calls each for every chunk until the peer ends the
// stream or ctx ends; decode reads the chunk.
func (c *Conn) Stream(ctx context.Context, method string, req any, each func(decode func(any) error) error) error {
	panic("to be written")
}

// Done is closed when the connection has ended; Err then tells why.
func (c *Conn) Done() <-chan struct{} { panic("to be written") }

// Err returns why the connection ended, nil while it is up.
func (c *Conn) Err() error { panic("to be written") }

// Close ends the connection at once.
func (c *Conn) Close() error { panic("to be written") }

// Mux shares one listener between Raft and RPC by a connection's first byte.
type Mux struct{}

// NewMux wraps a listener; Serve must run for either side to accept.
func NewMux(ln net.Listener) *Mux { panic("to be written") }

// Raft returns the listener that yields Raft's connections, without their
// protocol byte.
func (m *Mux) Raft() net.Listener { panic("to be written") }

// Serve accepts until ctx ends or the listener fails, and serves RPC
// connections with h. accept may refuse a peer by its hello (and is the place
// to check the cluster's id); onConn, if not nil, is told of each connection.
func (m *Mux) Serve(ctx context.Context, self func() Hello, accept func(Hello) *Error, h Handler) error {
	panic("to be written")
}

// DialRaft writes the protocol byte that makes the peer's mux hand the
// connection to Raft.
func DialRaft(nc net.Conn) (net.Conn, error) { panic("to be written") }
