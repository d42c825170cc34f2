package server

import (
	"net"
	"sync"
)

// gate holds Raft's connections back until the server may take part: a server
// that lost its data must not answer with an empty log in the name of the one
// it was.
type gate struct {
	net.Listener
	once   sync.Once
	opened chan struct{}
}

func newGate(ln net.Listener) *gate { return &gate{Listener: ln, opened: make(chan struct{})} }

func (g *gate) open() { g.once.Do(func() { close(g.opened) }) }

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

// Accept closes what comes before the gate is open; the dialer tries again.
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if g.isOpen() {
			return c, nil
		}
		_ = c.Close()
	}
}
