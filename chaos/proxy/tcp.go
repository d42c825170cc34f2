package proxy

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"
)

const (
	chunkSize = 32 << 10
	// queued bounds the chunks of one direction that a delay holds.
	queued   = 256
	dialTime = 2 * time.Second
)

// accept takes connections for a node.
func (n *Network) accept(ln net.Listener, to string, plane Plane, address string) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			if n.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			time.Sleep(time.Millisecond) // out of files, for a moment
			continue
		}
		n.wg.Go(func() { n.serve(nc.(*net.TCPConn), to, plane, address) }) // what tcp gives
	}
}

// conn is a connection from one node to another, with its two ends here.
type conn struct {
	near, far    *net.TCPConn // the dialler's, and that of whom it dialled
	there, back  *link        // from the dialler, and to it
	ctx          context.Context
	cancel       context.CancelFunc
	mu           sync.Mutex
	aborted      bool
	pumpsRunning sync.WaitGroup
}

// serve carries one connection until it ends.
func (n *Network) serve(near *net.TCPConn, to string, plane Plane, address string) {
	from := n.owner(near)
	if from == "" {
		n.stranger()
		reset(near)
		return
	}
	c := &conn{near: near, there: n.link(from, to, plane), back: n.link(to, from, plane)}
	c.ctx, c.cancel = context.WithCancel(n.ctx)
	defer c.cancel()
	defer func() { _ = near.Close() }()
	for _, l := range []*link{c.there, c.back} {
		if !l.join(c) {
			c.abort()
			return
		}
		defer l.leave(c)
	}
	// A handshake takes both directions.
	if !c.there.open(c.ctx, 1) || !c.back.open(c.ctx, 1) {
		c.abort()
		return
	}
	// A dial given up on ends a connection that is made already as if it had been
	// closed in order: so none is given up on, and a reset is made of it afterwards.
	d := net.Dialer{Timeout: dialTime}
	far, err := d.DialContext(n.ctx, "tcp", address)
	if err != nil {
		c.abort()
		return
	}
	c.mu.Lock()
	c.far = far.(*net.TCPConn) // what tcp gives
	aborted := c.aborted
	c.mu.Unlock()
	if aborted {
		reset(c.far)
		return
	}
	c.pumpsRunning.Go(func() { c.pump(c.there, c.near, c.far) })
	c.pumpsRunning.Go(func() { c.pump(c.back, c.far, c.near) })
	c.pumpsRunning.Wait()
	_ = c.far.Close()
}

// abort resets both ends.
func (c *conn) abort() {
	c.mu.Lock()
	far := c.far
	c.aborted = true
	c.mu.Unlock()
	reset(c.near)
	if far != nil {
		reset(far)
	}
	c.cancel()
}

// reset closes a connection so that the other side sees it end at once.
func reset(nc *net.TCPConn) {
	_ = nc.SetLinger(0)
	_ = nc.Close()
}

// chunk is bytes under way; nil: the sender has ended.
type chunk struct {
	data []byte
	due  time.Time
}

// pump carries one direction. An end is carried like bytes; a failure of either
// end reaches the other over the link too, so a cut hides it.
func (c *conn) pump(l *link, src, dst *net.TCPConn) {
	queue := make(chan chunk, queued)
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.deliver(l, dst, src, queue)
	}()
	defer func() { <-done }()
	defer close(queue)
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	buf := make([]byte, chunkSize)
	var last time.Time
	for {
		if !l.open(c.ctx, 0) {
			return
		}
		n, err := src.Read(buf)
		if n > 0 {
			due := l.due(rng, n, last)
			if !due.IsZero() {
				last = due
			}
			select {
			case queue <- chunk{data: append([]byte(nil), buf[:n]...), due: due}:
			case <-c.ctx.Done():
				return
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			select {
			case queue <- chunk{due: last}:
			case <-c.ctx.Done():
			}
			return
		case err != nil:
			if l.open(c.ctx, 1) {
				c.abort()
			}
			return
		}
	}
}

// due is when bytes that were sent now arrive; zero: at once. None overtakes.
func (l *link) due(rng *rand.Rand, n int, last time.Time) time.Time {
	r := l.get()
	now := time.Now()
	if r.Delay == 0 && r.Jitter == 0 && r.Bandwidth == 0 && !last.After(now) {
		return time.Time{}
	}
	l.count(func(c *Counts) { c.Delayed += int64(n) })
	at := now
	if r.Bandwidth > 0 {
		if last.After(at) {
			at = last
		}
		at = at.Add(time.Duration(n) * time.Second / time.Duration(r.Bandwidth))
	}
	at = at.Add(r.under(rng))
	if at.Before(last) {
		at = last
	}
	return at
}

// deliver writes what has arrived.
func (c *conn) deliver(l *link, dst, src *net.TCPConn, queue <-chan chunk) {
	failed := false
	for ch := range queue {
		if failed || !c.until(ch.due) || !l.open(c.ctx, max(len(ch.data), 1)) {
			failed = true
			continue
		}
		if ch.data == nil {
			_ = dst.CloseWrite()
			continue
		}
		n, err := dst.Write(ch.data)
		l.count(func(k *Counts) { k.Passed += int64(n) })
		if err != nil {
			failed = true
			back := c.there
			if l == c.there {
				back = c.back
			}
			if back.open(c.ctx, 1) {
				c.abort()
			}
			_ = src.CloseRead()
		}
	}
}

func (c *conn) until(due time.Time) bool {
	wait := time.Until(due)
	if due.IsZero() || wait <= 0 {
		return c.ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-c.ctx.Done():
		return false
	}
}
