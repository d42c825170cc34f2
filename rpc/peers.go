package rpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"
)

// The limits of Peers.
const (
	MaxPeers    = 256             // addresses known at a time
	DialTimeout = 3 * time.Second // to connect, and again for the hello

	redialDelay    = 50 * time.Millisecond // after a failed dial, doubling
	redialDelayMax = time.Second
)

// Peers keeps one connection per address for calls between servers. A call to
// an address whose dial failed a moment ago fails at once, so that a dead server
// doesn't hold up its callers.
type Peers struct {
	dial    func(ctx context.Context, address string) (net.Conn, error)
	self    func() Hello
	handler Handler
	opts    []Option

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu     sync.Mutex
	links  map[string]*link
	closed bool
}

// link is the way to one address. ready closes when conn or err is set.
type link struct {
	ready  chan struct{}
	conn   *Conn
	err    error
	failed int       // dials that failed in a row
	retry  time.Time // no dial before
}

// NewPeers returns a set of connections that are dialled when first used. h
// answers requests that peers send back over them (nil: refuses).
func NewPeers(dial func(ctx context.Context, address string) (net.Conn, error), self func() Hello, h Handler, opts ...Option) *Peers {
	p := &Peers{dial: dial, self: self, handler: h, opts: opts, links: make(map[string]*link)}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	return p
}

// Call is Conn.Call on the connection to address.
func (p *Peers) Call(ctx context.Context, address, method string, req, reply any) error {
	c, err := p.Conn(ctx, address)
	if err != nil {
		return err
	}
	return c.Call(ctx, method, req, reply)
}

// Stream is Conn.Stream on the connection to address.
func (p *Peers) Stream(ctx context.Context, address, method string, req any, each func(decode func(any) error) error) error {
	c, err := p.Conn(ctx, address)
	if err != nil {
		return err
	}
	return c.Stream(ctx, method, req, each)
}

// Conn returns the connection to address, dialling it if there is none. Its
// errors match ErrNotSent; a peer that refused is an *Error too.
func (p *Peers) Conn(ctx context.Context, address string) (*Conn, error) {
	l, err := p.link(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNotSent, address, err)
	}
	select {
	case <-l.ready:
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: dial %s: %w", ErrNotSent, address, ctx.Err())
	}
	if l.err != nil {
		return nil, fmt.Errorf("%w: dial %s: %w", ErrNotSent, address, l.err)
	}
	return l.conn, nil
}

// Close ends all connections and returns when their handlers have.
func (p *Peers) Close() error {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	p.cancel()
	p.wg.Wait()
	return nil
}

// link finds or starts the way to an address.
func (p *Peers) link(address string) (*link, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	old := p.links[address]
	if old != nil && !old.over() {
		return old, nil
	}
	l := &link{ready: make(chan struct{})}
	if old != nil && old.err != nil {
		l.failed = old.failed
	}
	if old == nil && len(p.links) >= MaxPeers && !p.forget() {
		return nil, fmt.Errorf("more than %d addresses are in use", MaxPeers)
	}
	p.links[address] = l
	p.wg.Go(func() { p.connect(l, address) })
	return l, nil
}

// over tells whether a link has to be dialled anew.
func (l *link) over() bool {
	select {
	case <-l.ready:
	default:
		return false
	}
	if l.err != nil {
		return !time.Now().Before(l.retry)
	}
	return l.conn.Err() != nil
}

// forget drops an address that leads nowhere now.
func (p *Peers) forget() bool {
	for address, l := range p.links {
		select {
		case <-l.ready:
			if l.err != nil || l.conn.Err() != nil {
				delete(p.links, address)
				return true
			}
		default:
		}
	}
	return false
}

// connect dials and then stays with the connection until it has ended.
func (p *Peers) connect(l *link, address string) {
	c, err := p.open(address)
	if err != nil {
		l.err = err
		l.retry = time.Now().Add(min(redialDelay<<min(l.failed, 10), redialDelayMax))
		l.failed++
		close(l.ready)
		return
	}
	l.conn = c
	close(l.ready)
	select {
	case <-c.Done():
	case <-p.ctx.Done():
		_ = c.Close()
	}
	c.Wait()
}

func (p *Peers) open(address string) (*Conn, error) {
	ctx, cancel := context.WithTimeout(p.ctx, DialTimeout)
	defer cancel()
	nc, err := p.dial(ctx, address)
	if err != nil {
		return nil, err
	}
	ctx, cancel = context.WithTimeout(p.ctx, DialTimeout)
	defer cancel()
	c, err := Dial(ctx, nc, p.self(), p.handler, p.opts...)
	if err != nil && p.ctx.Err() != nil {
		return nil, errors.Join(ErrClosed, err)
	}
	return c, err
}
