package proxy

import (
	"errors"
	"math/rand/v2"
	"net"
	"net/netip"
	"time"
)

const largestDatagram = 64 << 10

// relay carries datagrams to a node. Who sent one is known by the address it came
// from, since gossip sends from where it listens.
func (n *Network) relay(pc *net.UDPConn, to string, address netip.AddrPort) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	buf := make([]byte, largestDatagram)
	for {
		size, source, err := pc.ReadFromUDPAddrPort(buf)
		if err != nil {
			if n.ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			continue // one that was sent to who is down came back
		}
		n.mu.Lock()
		from := n.byGossip[netip.AddrPortFrom(source.Addr().Unmap(), source.Port())]
		n.mu.Unlock()
		if from == "" {
			n.stranger()
			continue
		}
		l := n.link(from, to, Gossip)
		r := l.get()
		if r.Mode != Pass || r.Loss > 0 && rng.Float64() < r.Loss {
			l.count(func(c *Counts) { c.Dropped++ })
			continue
		}
		wait := r.under(rng)
		l.count(func(c *Counts) {
			c.Datagrams++
			if wait > 0 {
				c.Delayed++
			}
		})
		if wait == 0 {
			_, _ = pc.WriteToUDPAddrPort(buf[:size], address)
			continue
		}
		data := append([]byte(nil), buf[:size]...)
		time.AfterFunc(wait, func() { _, _ = pc.WriteToUDPAddrPort(data, address) })
	}
}
