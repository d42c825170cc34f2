package rpc

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"
	"time"

	"golang.org/x/sync/semaphore"
)

// controlFrames is how many answers of the reader itself (refusals, cancels)
// may wait; a peer that floods and doesn't read is cut off.
const controlFrames = 256

// served is a call or stream of the peer.
type served struct {
	cancel  context.CancelFunc
	credits *semaphore.Weighted // chunks that may be sent; streams only
	used    int64               // chunks sent and not yet credited; guarded by Conn.mu
}

// read is the connection's reader; whatever ends it ends the connection.
func (c *Conn) read() {
	for {
		f, err := readFrame(c.br, MaxFrame)
		if err == nil {
			err = c.dispatch(f)
		}
		if err != nil {
			c.fail(readCause(err))
			return
		}
	}
}

func readCause(err error) error {
	var ne net.Error
	switch {
	case errors.Is(err, io.EOF):
		return errors.New("closed by the peer")
	case errors.As(err, &ne) && ne.Timeout():
		return fmt.Errorf("nothing heard for %v", IdleTimeout)
	}
	return err
}

// dispatch hands a frame on. It waits for nothing but room for notifications.
func (c *Conn) dispatch(f frame) error {
	switch f.kind {
	case kindPing:
		return nil
	case kindCall, kindStream:
		return c.serve(f)
	case kindNotify:
		r := &Request{Method: f.method, Conn: c, body: f.body}
		return c.notes.put(c.ctx, r, len(f.body))
	case kindReply, kindError, kindChunk, kindEnd:
		return c.deliver(f)
	case kindCancel:
		c.mu.Lock()
		if s := c.served[f.id]; s != nil {
			s.cancel()
		}
		c.mu.Unlock()
		return nil
	case kindCredit:
		return c.credited(f)
	}
	return fmt.Errorf("%w: kind %d after the hello", errFrame, f.kind)
}

// deliver hands an answer to who waits for it.
func (c *Conn) deliver(f frame) error {
	c.mu.Lock()
	p := c.pending[f.id]
	c.mu.Unlock()
	if p == nil {
		if f.kind == kindChunk {
			return c.reply(kindCancel, f.id, nil)
		}
		return nil // the caller gave up
	}
	select {
	case p.inbox <- f:
		return nil
	default:
		return fmt.Errorf("%w: more answers to call %d than were asked for", errFrame, f.id)
	}
}

func (c *Conn) credited(f frame) error {
	var n uint64
	if err := decodeBody(f.body, &n); err != nil {
		return fmt.Errorf("%w: credit", errFrame)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.served[f.id]
	if s == nil || s.credits == nil {
		return nil
	}
	if n > uint64(s.used) { //nolint:gosec // never negative
		return fmt.Errorf("%w: credit for chunks that were not sent", errFrame)
	}
	s.used -= int64(n)
	s.credits.Release(int64(n))
	return nil
}

// reply answers from the reader without waiting.
func (c *Conn) reply(kind uint8, id uint64, msg any) error {
	b, err := encodeFrame(kind, id, "", msg)
	if err != nil {
		return err
	}
	select {
	case c.control <- b:
		return nil
	default:
		return errors.New("the peer floods and does not read")
	}
}

// serve starts the handler of a call or stream.
func (c *Conn) serve(f frame) error {
	ctx, cancel := context.WithCancel(c.ctx)
	s := &served{cancel: cancel}
	r := &Request{Method: f.method, Conn: c, body: f.body}
	if f.kind == kindStream {
		s.credits = semaphore.NewWeighted(StreamWindow)
		r.send = func(chunk any) error { return c.sendChunk(ctx, s, f.id, chunk) }
	}
	c.mu.Lock()
	_, twice := c.served[f.id]
	full := len(c.served) >= MaxCalls
	if !twice && !full {
		c.served[f.id] = s
	}
	c.mu.Unlock()
	switch {
	case twice:
		cancel()
		return fmt.Errorf("%w: call id %d is in use", errFrame, f.id)
	case full:
		cancel()
		return c.reply(kindError, f.id, &Error{Code: codeOverloaded, Text: fmt.Sprintf("%d calls of this connection are in flight", MaxCalls)})
	}
	c.wg.Go(func() {
		defer cancel()
		reply, err := c.handle(ctx, r)
		c.answer(ctx, f, reply, err)
	})
	return nil
}

// answer sends how a call or stream ended, unless the caller gave up.
func (c *Conn) answer(ctx context.Context, f frame, reply any, err error) {
	gone := ctx.Err() != nil
	c.mu.Lock()
	delete(c.served, f.id)
	c.mu.Unlock()
	if gone {
		return
	}
	kind, msg := uint8(kindReply), reply
	if f.kind == kindStream {
		kind, msg = kindEnd, nil
	}
	if err != nil {
		kind, msg = kindError, c.opts.answer(err)
	}
	b, err := encodeFrame(kind, f.id, "", msg)
	if err != nil {
		c.opts.logger.Error("rpc: a reply can't be sent", "method", f.method, "peer", c.peer.Name, "error", err)
		if b, err = encodeFrame(kindError, f.id, "", c.opts.answer(err)); err != nil {
			return
		}
	}
	_ = c.enqueue(c.ctx, b) // fails with the connection only
}

// handle runs the handler; a panic becomes an error.
func (c *Conn) handle(ctx context.Context, r *Request) (reply any, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.opts.logger.Error("rpc: handler panicked", "method", r.Method, "peer", c.peer.Name, "panic", p, "stack", string(debug.Stack()))
			reply, err = nil, &Error{Code: codeInternal, Text: fmt.Sprintf("%s failed by a bug; the server's log has the details", r.Method)}
		}
	}()
	if c.handler == nil {
		return nil, &Error{Code: codeUnsupported, Text: "this process answers no requests", Field: r.Method}
	}
	return c.handler(ctx, r)
}

func (c *Conn) sendChunk(ctx context.Context, s *served, id uint64, chunk any) error {
	b, err := encodeFrame(kindChunk, id, "", chunk)
	if err != nil {
		return err
	}
	if err := s.credits.Acquire(ctx, 1); err != nil {
		putBuf(b)
		return c.whyEnded(err)
	}
	c.mu.Lock()
	s.used++
	c.mu.Unlock()
	return c.enqueue(ctx, b)
}

// notify handles notifications, one after the other.
func (c *Conn) notify() {
	for {
		select {
		case s := <-c.notes.ch:
			if _, err := c.handle(c.ctx, s.value); err != nil && c.ctx.Err() == nil {
				c.opts.logger.Warn("rpc: notification failed", "method", s.value.Method, "peer", c.peer.Name, "error", err)
			}
			c.notes.taken(s)
		case <-c.ctx.Done():
			return
		}
	}
}

// write is the connection's writer. Frames that wait together leave together.
func (c *Conn) write() {
	w := bufio.NewWriterSize(deadlineWriter{c.nc}, ioBuffer)
	ping, err := encodeFrame(kindPing, 0, "", nil)
	if err != nil {
		c.fail(err)
		return
	}
	tick := time.NewTicker(PingInterval)
	defer tick.Stop()
	quiet := false // nothing was written since the last tick
	for err == nil {
		select {
		case <-c.ctx.Done():
			return
		case <-tick.C:
			if quiet {
				_, err = w.Write(ping.Bytes())
			}
			quiet = true
		case b := <-c.control:
			quiet, err = false, writeBuf(w, b)
		case s := <-c.out.ch:
			quiet, err = false, writeBuf(w, s.value)
			c.out.taken(s)
		}
		if err == nil && len(c.out.ch) == 0 && len(c.control) == 0 {
			err = w.Flush()
		}
	}
	c.fail(writeCause(err))
}

func writeCause(err error) error {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return fmt.Errorf("the peer took nothing for %v", WriteTimeout)
	}
	return err
}

func writeBuf(w *bufio.Writer, b *bytes.Buffer) error {
	_, err := w.Write(b.Bytes())
	putBuf(b)
	return err
}

// deadlineWriter gives each piece of a write its own deadline, so that a large
// frame on a slow link is not taken for a dead peer.
type deadlineWriter struct{ nc net.Conn }

const writePiece = 64 << 10

func (w deadlineWriter) Write(b []byte) (int, error) {
	done := 0
	for {
		if err := w.nc.SetWriteDeadline(time.Now().Add(WriteTimeout)); err != nil {
			return done, err
		}
		n, err := w.nc.Write(b[done:min(len(b), done+writePiece)])
		if done += n; err != nil || done == len(b) {
			return done, err
		}
	}
}

// deadlineReader lets a silent peer run into IdleTimeout.
type deadlineReader struct{ nc net.Conn }

func (r deadlineReader) Read(b []byte) (int, error) {
	if err := r.nc.SetReadDeadline(time.Now().Add(IdleTimeout)); err != nil {
		return 0, err
	}
	return r.nc.Read(b)
}
