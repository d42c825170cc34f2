package rpc

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"time"
)

// Protocol is the version of frames and hellos that this build speaks.
const Protocol = 1

// The first byte of a connection says who serves it.
const (
	byteRaft = 'R'
	byteRPC  = 'A'
)

// The roles of peers.
const (
	RoleServer = "server"
	RoleWorker = "worker"
)

// Hello is exchanged when a connection opens; each side refuses a peer of
// another cluster or an incompatible protocol, saying what to do.
type Hello struct {
	Protocol  int    `msgpack:"p"`           // filled in by Dial and Serve
	ClusterID string `msgpack:"c,omitempty"` // empty: not yet known
	Role      string `msgpack:"r"`           // RoleServer or RoleWorker
	Name      string `msgpack:"n"`
	Boot      string `msgpack:"b"`
	Version   string `msgpack:"v"`
}

// Dial opens a connection over nc, which it owns: it writes the protocol byte,
// exchanges hellos and then serves the peer's requests with h (nil: refuses).
// It fails when ctx ends or the peer is silent for HelloTimeout; a peer that
// refuses is an *Error. The connection outlives ctx.
func Dial(ctx context.Context, nc net.Conn, self Hello, h Handler, opts ...Option) (*Conn, error) {
	br := bufio.NewReaderSize(deadlineReader{nc}, ioBuffer)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	peer, err := dialHello(nc, br, self)
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		if ctx.Err() != nil {
			err = fmt.Errorf("rpc: no hello from %s: %w", nc.RemoteAddr(), ctx.Err())
		}
		return nil, err
	}
	return newConn(nc, br, peer, h, newOptions(opts)), nil
}

func dialHello(nc net.Conn, br *bufio.Reader, self Hello) (Hello, error) {
	self.Protocol = Protocol
	b, err := encodeFrame(kindHello, 0, "", &self)
	if err != nil {
		return Hello{}, err
	}
	defer putBuf(b)
	if err := nc.SetWriteDeadline(time.Now().Add(HelloTimeout)); err != nil {
		return Hello{}, err
	}
	if _, err := nc.Write(append([]byte{byteRPC}, b.Bytes()...)); err != nil {
		return Hello{}, fmt.Errorf("rpc: send hello to %s: %w", nc.RemoteAddr(), err)
	}
	f, err := readFrame(br, maxHello)
	if err != nil {
		return Hello{}, fmt.Errorf("rpc: no hello from %s: %w", nc.RemoteAddr(), readCause(err))
	}
	if f.kind == kindRefuse {
		return Hello{}, decodeError(f)
	}
	peer, err := decodeHello(f)
	if err != nil {
		return Hello{}, err
	}
	if e := checkHello(self, peer); e != nil {
		return Hello{}, e
	}
	return peer, nil
}

// acceptHello answers a dialer, whose protocol byte has been read. A refused
// one is told why.
func acceptHello(nc net.Conn, br *bufio.Reader, self Hello, accept func(Hello) *Error) (Hello, error) {
	f, err := readFrame(br, maxHello)
	if err != nil {
		return Hello{}, err
	}
	peer, err := decodeHello(f)
	if err != nil {
		return Hello{}, err
	}
	self.Protocol = Protocol
	refusal := checkHello(self, peer)
	if refusal == nil && accept != nil {
		refusal = accept(peer)
	}
	kind, msg := uint8(kindHello), any(&self)
	if refusal != nil {
		kind, msg = kindRefuse, refusal
	}
	b, err := encodeFrame(kind, 0, "", msg)
	if err != nil {
		return Hello{}, err
	}
	defer putBuf(b)
	if err := nc.SetWriteDeadline(time.Now().Add(HelloTimeout)); err != nil {
		return Hello{}, err
	}
	if _, err := nc.Write(b.Bytes()); err != nil {
		return Hello{}, err
	}
	if refusal != nil {
		return peer, refusal
	}
	return peer, nil
}

func decodeHello(f frame) (Hello, error) {
	var h Hello
	if f.kind != kindHello {
		return h, fmt.Errorf("%w: kind %d instead of a hello", errFrame, f.kind)
	}
	if err := decodeBody(f.body, &h); err != nil {
		return h, fmt.Errorf("%w: hello: %w", errFrame, err)
	}
	return h, nil
}

// checkHello tells why two processes can't work together, as seen by self.
func checkHello(self, peer Hello) *Error {
	if peer.Protocol != self.Protocol {
		return &Error{
			Code: codeUnsupported, Field: "protocol", Value: fmt.Sprint(peer.Protocol),
			Text: fmt.Sprintf("%s %s (axd %s) speaks rpc protocol %d, %s %s (axd %s) speaks %d: upgrade the older of the two",
				self.Role, self.Name, self.Version, self.Protocol, peer.Role, peer.Name, peer.Version, peer.Protocol),
		}
	}
	if self.ClusterID != "" && peer.ClusterID != "" && self.ClusterID != peer.ClusterID {
		return &Error{
			Code: codeConflict, Field: "cluster", Value: peer.ClusterID,
			Text: fmt.Sprintf("%s %s belongs to cluster %s, %s %s to cluster %s: check the addresses it joins, or whether its data directory is of another cluster",
				self.Role, self.Name, self.ClusterID, peer.Role, peer.Name, peer.ClusterID),
		}
	}
	return nil
}

// DialRaft says hello as Raft's dialer: the peer's mux hands the connection to
// Raft if it comes from a server of its cluster, and closes it otherwise. Nothing
// is answered. It closes nc where that fails.
func DialRaft(nc net.Conn, self Hello) (net.Conn, error) {
	self.Protocol = Protocol
	b, err := encodeFrame(kindHello, 0, "", &self)
	if err != nil {
		_ = nc.Close()
		return nil, err
	}
	defer putBuf(b)
	err = nc.SetWriteDeadline(time.Now().Add(HelloTimeout))
	if err == nil {
		_, err = nc.Write(append([]byte{byteRaft}, b.Bytes()...))
	}
	if err == nil {
		err = nc.SetWriteDeadline(time.Time{})
	}
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("rpc: open a raft connection to %s: %w", nc.RemoteAddr(), err)
	}
	return nc, nil
}

// acceptRaft reads the hello of Raft's dialer and returns the connection without
// it.
func acceptRaft(nc net.Conn, self Hello) (net.Conn, Hello, error) {
	br := bufio.NewReaderSize(nc, maxHello)
	f, err := readFrame(br, maxHello)
	if err != nil {
		return nil, Hello{}, err
	}
	peer, err := decodeHello(f)
	if err != nil {
		return nil, peer, err
	}
	self.Protocol = Protocol
	if e := checkHello(self, peer); e != nil {
		return nil, peer, e
	}
	if peer.Role != RoleServer {
		return nil, peer, &Error{
			Code: codeForbidden, Field: "role", Value: peer.Role,
			Text: fmt.Sprintf("Raft speaks to servers alone, not to %s %s", peer.Role, peer.Name),
		}
	}
	return &raftConn{Conn: nc, br: br}, peer, nil
}

// raftConn is a connection of which the reader has read ahead.
type raftConn struct {
	net.Conn
	br *bufio.Reader
}

func (c *raftConn) Read(b []byte) (int, error) {
	if c.br.Buffered() > 0 {
		return c.br.Read(b)
	}
	return c.Conn.Read(b)
}

// NetConn returns the connection below.
func (c *raftConn) NetConn() net.Conn { return c.Conn }
