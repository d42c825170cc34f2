package rpc

import (
	"context"
	"fmt"
)

// pending is a call or stream of this side.
type pending struct {
	id    uint64
	inbox chan frame // room for all that the peer may send
}

// Call sends a request and waits for the reply, which is decoded into reply
// unless that is nil. An error that the peer answered is an *Error. Other
// errors match ErrClosed or the context's error; the peer may have acted on the
// request unless ErrNotSent matches too. While MaxCalls are in flight it waits.
func (c *Conn) Call(ctx context.Context, method string, req, reply any) error {
	p, err := c.begin(ctx, kindCall, method, req, 1)
	if err != nil {
		return err
	}
	defer c.end(p)
	f, err := c.receive(ctx, p, method)
	if err != nil {
		return err
	}
	if f.kind == kindError {
		return decodeError(f)
	}
	if err := decodeBody(f.body, reply); err != nil {
		return fmt.Errorf("rpc: the reply to %s is malformed: %w", method, err)
	}
	return nil
}

// Notify sends a message without an answer. It fails if the connection is
// closed or its bounded send queue stays full until ctx ends. Nil means queued,
// not received.
func (c *Conn) Notify(ctx context.Context, method string, msg any) error {
	b, err := encodeFrame(kindNotify, 0, method, msg)
	if err != nil {
		return err
	}
	if err := c.enqueue(ctx, b); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrNotSent, method, err)
	}
	return nil
}

// Stream sends a request and calls each for every chunk until the peer ends the
// stream, each fails or ctx ends; decode reads the chunk and is valid until
// each returns. A reader that is slow holds up the sender of this stream alone.
func (c *Conn) Stream(ctx context.Context, method string, req any, each func(decode func(any) error) error) error {
	p, err := c.begin(ctx, kindStream, method, req, StreamWindow+1)
	if err != nil {
		return err
	}
	defer c.end(p)
	for taken := uint64(0); ; {
		f, err := c.receive(ctx, p, method)
		if err != nil {
			return err
		}
		switch f.kind {
		case kindEnd:
			return nil
		case kindError:
			return decodeError(f)
		}
		if err := each(func(into any) error { return decodeBody(f.body, into) }); err != nil {
			c.giveUp(p, method)
			return err
		}
		// Half a window at a time keeps credits rare and the sender busy.
		if taken++; taken == StreamWindow/2 {
			if err := c.credit(ctx, p.id, taken); err != nil {
				c.giveUp(p, method)
				return err
			}
			taken = 0
		}
	}
}

// begin takes a slot, registers and sends a request. Its errors match
// ErrNotSent.
func (c *Conn) begin(ctx context.Context, kind uint8, method string, req any, room int) (*pending, error) {
	p := &pending{id: c.lastID.Add(1), inbox: make(chan frame, room)}
	b, err := encodeFrame(kind, p.id, method, req)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if err := c.slot(ctx); err != nil {
		putBuf(b)
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, method, err)
	}
	c.mu.Lock()
	c.pending[p.id] = p
	c.mu.Unlock()
	if err := c.enqueue(ctx, b); err != nil {
		c.end(p)
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, method, err)
	}
	return p, nil
}

func (c *Conn) slot(ctx context.Context) error {
	if c.slots.TryAcquire(1) {
		return nil
	}
	ctx, cancel := c.joined(ctx)
	defer cancel()
	if err := c.slots.Acquire(ctx, 1); err != nil {
		return c.whyEnded(err)
	}
	return nil
}

func (c *Conn) end(p *pending) {
	c.mu.Lock()
	delete(c.pending, p.id)
	c.mu.Unlock()
	c.slots.Release(1)
}

// receive waits for the next frame of a call or stream.
func (c *Conn) receive(ctx context.Context, p *pending, method string) (frame, error) {
	select {
	case f := <-p.inbox:
		return f, nil
	case <-ctx.Done():
		c.giveUp(p, method)
		return frame{}, fmt.Errorf("rpc: %s: %w", method, ctx.Err())
	case <-c.done:
		select {
		case f := <-p.inbox: // it came before the end
			return f, nil
		default:
			return frame{}, fmt.Errorf("rpc: %s: %w", method, c.Err())
		}
	}
}

// giveUp tells the peer that nobody waits. It travels behind its request; where
// there is no room, the answer to the next chunk tells it again.
func (c *Conn) giveUp(p *pending, method string) {
	b, err := encodeFrame(kindCancel, p.id, method, nil)
	if err == nil && !c.out.tryPut(b, b.Len()) {
		putBuf(b)
	}
}

func (c *Conn) credit(ctx context.Context, id, n uint64) error {
	b, err := encodeFrame(kindCredit, id, "", n)
	if err != nil {
		return err
	}
	return c.enqueue(ctx, b)
}

func decodeError(f frame) error {
	e := new(Error)
	if err := decodeBody(f.body, e); err != nil {
		return fmt.Errorf("rpc: the peer's error is malformed: %w", err)
	}
	return e
}
