package rpc

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// node is a server in a bubble that may be down.
type node struct {
	ln    *pipeListener
	down  atomic.Bool
	dials atomic.Int32
}

func (n *node) dial(ctx context.Context, _ string) (net.Conn, error) {
	n.dials.Add(1)
	if n.down.Load() {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	select {
	case n.ln.conns <- a:
		return b, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestPeersReuseAndRedial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{ln: newPipeListener()}
		_, stop := serveMux(t, n.ln, nil)
		p := NewPeers(n.dial, func() Hello { return helloS }, nil)
		call := func() error { return p.Call(t.Context(), "s2:1", "m", "x", nil) }

		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if err := call(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if got := n.dials.Load(); got != 1 {
			t.Errorf("%d dials for 50 calls", got)
		}

		stop()
		synctest.Wait() // the connection's end has been seen
		n.down.Store(true)
		for range 10 {
			if err := call(); !errors.Is(err, ErrNotSent) {
				t.Errorf("a dead server: %v", err)
			}
		}
		if got := n.dials.Load(); got != 2 {
			t.Errorf("%d dials; a failed one is not repeated at once", got-1)
		}

		n.ln = newPipeListener()
		_, stop = serveMux(t, n.ln, nil)
		n.down.Store(false)
		time.Sleep(redialDelay)
		if err := call(); err != nil {
			t.Errorf("a server that came back: %v", err)
		}
		_ = p.Close()
		if err := call(); !errors.Is(err, ErrNotSent) || !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
		stop()
	})
}

func TestPeersBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{}
		n.down.Store(true)
		p := NewPeers(n.dial, func() Hello { return helloS }, nil)
		defer p.Close()
		for range 10_000 { // every 1 ms for 10 s
			_ = p.Call(t.Context(), "s2:1", "m", nil, nil)
			time.Sleep(time.Millisecond)
		}
		if got := n.dials.Load(); got < 10 || got > 20 {
			t.Errorf("%d dials in 10 s", got)
		}
	})
}

func TestHangingDialHoldsUpNobodyForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := &node{ln: newPipeListener()} // nobody accepts
		p := NewPeers(n.dial, func() Hello { return helloS }, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		if err := p.Call(ctx, "s2:1", "m", nil, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		if err := p.Call(t.Context(), "s2:1", "m", nil, nil); !errors.Is(err, ErrNotSent) || time.Since(start) != DialTimeout {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		_ = p.Call(ctx, "s3:1", "m", nil, nil)
		_ = p.Close() // ends the dial
	})
}

func TestPeersForgetTheDead(t *testing.T) {
	n := &node{}
	n.down.Store(true)
	p := NewPeers(n.dial, func() Hello { return helloS }, nil)
	defer p.Close()
	for i := range 3 * MaxPeers {
		_ = p.Call(t.Context(), string(rune('a'+i)), "m", nil, nil)
	}
	if got := n.dials.Load(); got != 3*MaxPeers {
		t.Errorf("%d dials", got)
	}
	if len(p.links) > MaxPeers {
		t.Errorf("%d addresses kept", len(p.links))
	}
}
