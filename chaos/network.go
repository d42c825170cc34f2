package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	streamWindow  = 1 << 20 // bytes that a reader has not taken, before the writer waits
	acceptBacklog = 128     // connections that a listener has not accepted
	// holdCheck is how often a wait on a held link looks again, beside being woken.
	holdCheck = time.Minute
)

// Network joins hosts in memory. Like TCP it loses and reorders nothing within a
// connection: what a cut holds back arrives once the link heals, unless the
// connection was reset. All waiting is on channels, so that a bubble of
// testing/synctest knows when everybody waits.
type Network struct {
	mu      sync.Mutex
	rng     *rand.Rand
	links   map[linkKey]*link
	ports   map[string]*Port // the living one of each host
	dark    map[string]bool  // hosts that went silently
	conns   map[*conn]struct{}
	changed chan struct{} // closed at the next change of a link or port
	nextID  int
}

type linkKey struct{ from, to string }

// link is one direction between two hosts.
type link struct {
	cuts    int // how many faults hold it
	refused int // how many faults reset what comes over it
	delay   time.Duration
	jitter  time.Duration
	resets  float64 // chance of a reset per write
	loss    float64 // chance per write that it is sent again, some time later

	// What the faults did.
	held, slowed, reset, lost int
}

// NewNetwork returns a network whose links deliver after latency to twice that.
func NewNetwork(rng *rand.Rand) *Network {
	return &Network{
		rng: rng, links: map[linkKey]*link{}, ports: map[string]*Port{}, dark: map[string]bool{}, conns: map[*conn]struct{}{},
		changed: make(chan struct{}),
	}
}

// latency of a link without faults; as much again is drawn at random.
const latency = 100 * time.Microsecond

// link returns a direction; the caller holds mu.
func (n *Network) link(from, to string) *link {
	k := linkKey{from, to}
	l := n.links[k]
	if l == nil {
		l = &link{}
		n.links[k] = l
	}
	return l
}

// change wakes everybody who waits for the network to change; the caller holds mu.
func (n *Network) change() {
	close(n.changed)
	n.changed = make(chan struct{})
	for c := range n.conns {
		wake(c.in.readable)
		wake(c.out.writable)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Cut holds back everything from one host to another until the same number of
// Heal calls.
func (n *Network) Cut(from, to string) { n.alter(from, to, func(l *link) { l.cuts++ }) }

// Heal takes back one Cut.
func (n *Network) Heal(from, to string) { n.alter(from, to, func(l *link) { l.cuts-- }) }

// Slow adds a delay to a direction, and as much as jitter at random; 0 ends it.
func (n *Network) Slow(from, to string, delay, jitter time.Duration) {
	n.alter(from, to, func(l *link) { l.delay, l.jitter = delay, jitter })
}

// Break resets connections with the given chance at each write; 0 ends it.
func (n *Network) Break(from, to string, chance float64) {
	n.alter(from, to, func(l *link) { l.resets = chance })
}

// Refuse resets all connections over a direction, and those that are tried until
// the same number of Admit calls.
func (n *Network) Refuse(from, to string) {
	n.alter(from, to, func(l *link) {
		l.refused++
		for c := range n.conns {
			if c.local.host == from && c.remote.host == to || c.local.host == to && c.remote.host == from {
				l.reset++
				c.reset()
			}
		}
	})
}

// Admit takes back one Refuse.
func (n *Network) Admit(from, to string) { n.alter(from, to, func(l *link) { l.refused-- }) }

// Lose has each write to a direction lost with a chance: as with TCP it arrives all
// the same, after one or more time-outs of the sender; 0 ends it.
func (n *Network) Lose(from, to string, chance float64) {
	n.alter(from, to, func(l *link) { l.loss = chance })
}

func (n *Network) alter(from, to string, change func(*link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n.link(from, to))
	n.change()
}

// Acted counts what was held back, slowed or reset on a direction so far.
func (n *Network) Acted(from, to string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.link(from, to)
	return l.held + l.slowed + l.reset + l.lost
}

// Connected reports whether two hosts hear each other and both are up.
func (n *Network) Connected(a, b string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ports[a] != nil && n.ports[b] != nil && n.link(a, b).open() && n.link(b, a).open()
}

func (l *link) open() bool { return l.cuts == 0 && l.refused == 0 }

// Port is one process's way to the network; it ends with the process.
type Port struct {
	n         *Network
	host      string
	down      chan struct{}
	listeners map[string]*listener // by port number
}

// Open gives a host's next process its port. The peers of a process that went
// silently learn now that it is gone.
func (n *Network) Open(host string) *Port {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		if c.remote.host == host && c.orphan {
			c.in.end(errReset, time.Now())
		}
	}
	p := &Port{n: n, host: host, down: make(chan struct{}), listeners: map[string]*listener{}}
	n.ports[host] = p
	delete(n.dark, host)
	n.change()
	return p
}

var errReset = &net.OpError{Op: "read", Net: "sim", Err: syscall.ECONNRESET}

// Close ends the port with all its connections and listeners: at once for its
// process. Peers see resets, or nothing if it goes silently, as when the power
// fails.
func (p *Port) Close(silent bool) {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.dead() {
		return
	}
	close(p.down)
	if n.ports[p.host] == p {
		delete(n.ports, p.host)
		n.dark[p.host] = silent
	}
	for _, l := range p.listeners {
		l.shut()
	}
	clear(p.listeners)
	for c := range n.conns {
		if c.port == p {
			c.abandon(silent)
		}
	}
	n.change()
}

func (p *Port) dead() bool {
	select {
	case <-p.down:
		return true
	default:
		return false
	}
}

// Listen opens a listener on host:port, the host being this one.
func (p *Port) Listen(address string) (net.Listener, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil || host != p.host {
		return nil, fmt.Errorf("listen on %s: the host is %s", address, p.host)
	}
	p.n.mu.Lock()
	defer p.n.mu.Unlock()
	if p.dead() {
		return nil, net.ErrClosed
	}
	if p.listeners[number] != nil {
		return nil, &net.OpError{Op: "listen", Net: "sim", Err: syscall.EADDRINUSE}
	}
	l := &listener{
		port: p, address: hostPort{host, number},
		backlog: make(chan *conn, acceptBacklog), closed: make(chan struct{}),
	}
	p.listeners[number] = l
	return l, nil
}

// Dial connects to host:port. While the way there or back is cut, or the host is
// without power, it waits until ctx ends.
func (p *Port) Dial(ctx context.Context, address string) (net.Conn, error) {
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, dialError(err)
	}
	if !pause(ctx, p.n.roundTrip(p.host, host)) {
		return nil, dialError(ctx.Err())
	}
	for {
		c, changed, err := p.connect(host, number)
		if c != nil {
			return c, nil
		}
		if err != nil {
			return nil, dialError(err)
		}
		select {
		case <-changed:
		case <-p.down:
		case <-ctx.Done():
			return nil, dialError(ctx.Err())
		}
	}
}

func dialError(err error) error { return &net.OpError{Op: "dial", Net: "sim", Err: err} }

func (n *Network) roundTrip(a, b string) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.delay(n.link(a, b)) + n.delay(n.link(b, a))
}

// delay draws how long a direction takes; the caller holds mu.
func (n *Network) delay(l *link) time.Duration {
	d := latency + l.delay + time.Duration(n.rng.Int64N(int64(latency)))
	if l.jitter > 0 {
		d += time.Duration(n.rng.Int64N(int64(l.jitter)))
	}
	if l.delay > 0 {
		l.slowed++
	}
	for again := resendTime; l.loss > 0 && n.rng.Float64() < l.loss; again = min(2*again, resendMost) {
		l.lost++
		d += again
	}
	return d
}

// How long TCP waits until it sends again what was lost.
const (
	resendTime = 200 * time.Millisecond
	resendMost = 5 * time.Second
)

// connect makes a connection if the way is free; a nil error with no connection
// means to wait for a change.
func (p *Port) connect(host, number string) (*conn, <-chan struct{}, error) {
	n := p.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if p.dead() {
		return nil, nil, net.ErrClosed
	}
	there, back := n.link(p.host, host), n.link(host, p.host)
	if there.cuts > 0 || back.cuts > 0 || n.dark[host] {
		there.held++
		return nil, n.changed, nil
	}
	if there.refused > 0 || back.refused > 0 {
		there.reset++
		return nil, nil, syscall.ECONNREFUSED
	}
	to := n.ports[host]
	if to == nil {
		return nil, nil, syscall.ECONNREFUSED
	}
	l := to.listeners[number]
	if l == nil || len(l.backlog) == cap(l.backlog) {
		return nil, nil, syscall.ECONNREFUSED
	}
	n.nextID++
	local := hostPort{p.host, "c" + strconv.Itoa(n.nextID)}
	ab, ba := newStream(there), newStream(back)
	a := newConn(n, p, local, l.address, ba, ab)
	b := newConn(n, to, l.address, local, ab, ba)
	n.conns[a], n.conns[b] = struct{}{}, struct{}{}
	l.backlog <- b // only filled under mu, and there was room
	return a, nil, nil
}

type hostPort struct{ host, number string }

func (hostPort) Network() string  { return "sim" }
func (a hostPort) String() string { return net.JoinHostPort(a.host, a.number) }

// listener yields a port's inbound connections.
type listener struct {
	port    *Port
	address hostPort
	backlog chan *conn
	closed  chan struct{}
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.backlog:
		return c, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "sim", Err: net.ErrClosed}
	}
}

// Close implements net.Listener; connections that wait are reset.
func (l *listener) Close() error {
	n := l.port.n
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.port.listeners[l.address.number] != l {
		return nil
	}
	delete(l.port.listeners, l.address.number)
	l.shut()
	return nil
}

// shut ends the listener; the caller holds mu.
func (l *listener) shut() {
	close(l.closed)
	for {
		select {
		case c := <-l.backlog:
			c.abandon(false)
		default:
			return
		}
	}
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return l.address }

// pause waits for d and reports false when ctx ended before.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
