package cluster

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memNet is a network within a synctest bubble that can be cut.
type memNet struct {
	mu    sync.Mutex
	nodes map[string]*memTransport
	group map[string]int // who hears whom; 0 for all not named
}

func newMemNet() *memNet {
	return &memNet{nodes: make(map[string]*memTransport), group: make(map[string]int)}
}

// cut puts an address into a group of its own; group 0 heals.
func (n *memNet) cut(group int, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, a := range addresses {
		n.group[a] = group
	}
}

func (n *memNet) listen(addr string) *memTransport {
	n.mu.Lock()
	defer n.mu.Unlock()
	t := &memTransport{
		net: n, addr: addr, packets: make(chan *memberlist.Packet, 1024),
		streams: make(chan net.Conn), closed: make(chan struct{}),
	}
	n.nodes[addr] = t
	return t
}

// reach finds a node; cut tells that what is sent there vanishes.
func (n *memNet) reach(from, to string) (t *memTransport, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.nodes[to], n.group[from] != n.group[to]
}

type memTransport struct {
	net     *memNet
	addr    string
	packets chan *memberlist.Packet
	streams chan net.Conn
	closed  chan struct{}
}

type memAddr string

func (a memAddr) Network() string { return "mem" }
func (a memAddr) String() string  { return string(a) }

func (t *memTransport) FinalAdvertiseAddr(string, int) (net.IP, int, error) {
	host, p, err := net.SplitHostPort(t.addr)
	if err != nil {
		return nil, 0, err
	}
	port, err := strconv.Atoi(p)
	return net.ParseIP(host).To4(), port, err
}

func (t *memTransport) WriteTo(b []byte, addr string) (time.Time, error) {
	if to, cut := t.net.reach(t.addr, addr); to != nil && !cut {
		select {
		case to.packets <- &memberlist.Packet{Buf: append([]byte(nil), b...), From: memAddr(t.addr), Timestamp: time.Now()}:
		default:
		}
	}
	return time.Now(), nil
}

func (t *memTransport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	to, cut := t.net.reach(t.addr, addr)
	if cut {
		time.Sleep(timeout)
		return nil, errors.New("timeout")
	}
	if to == nil {
		return nil, errors.New("connection refused")
	}
	a, b := net.Pipe()
	select {
	case to.streams <- a:
		return b, nil
	case <-to.closed:
		return nil, errors.New("connection refused")
	}
}

func (t *memTransport) PacketCh() <-chan *memberlist.Packet { return t.packets }
func (t *memTransport) StreamCh() <-chan net.Conn           { return t.streams }

func (t *memTransport) Shutdown() error {
	t.net.mu.Lock()
	defer t.net.mu.Unlock()
	if t.net.nodes[t.addr] == t {
		delete(t.net.nodes, t.addr)
	}
	close(t.closed)
	return nil
}

// world is a cluster in a bubble.
type world struct {
	t     *testing.T
	net   *memNet
	boots int
	open  []*Cluster
}

// inWorld runs a test in virtual time.
func inWorld(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, net: newMemNet()}
		defer func() {
			for _, c := range w.open {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(time.Minute) // memberlist's own goroutines run out
		}()
		test(w)
	})
}

// start starts a member behind a port of 10.0.0.1.
func (w *world) start(role Role, name string, port int, change func(*Config)) *Cluster {
	w.t.Helper()
	w.boots++
	addr := fmt.Sprintf("10.0.0.1:%d", port)
	cfg := Config{
		Self:      Member{Role: role, Name: name, Boot: fmt.Sprintf("boot%d", w.boots), RPC: "rpc-" + name, Version: "v1"},
		Bind:      addr,
		Join:      []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.1:3"},
		Logger:    slog.New(slog.DiscardHandler),
		Transport: w.net.listen(addr),
	}
	if change != nil {
		change(&cfg)
	}
	c, err := Start(cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	w.open = append(w.open, c)
	return c
}

// servers starts s1 to s3 behind ports 1 to 3 and waits until all know all.
func (w *world) servers() (all [3]*Cluster) {
	w.t.Helper()
	for i := range all {
		all[i] = w.start(RoleServer, fmt.Sprintf("s%d", i+1), i+1, nil)
	}
	for _, c := range all {
		for i := range all {
			w.within(5*time.Second, "all see all", func() bool { return sees(c, RoleServer, fmt.Sprintf("s%d", i+1), Alive) })
		}
	}
	return all
}

// within waits in virtual time.
func (w *world) within(limit time.Duration, what string, holds func() bool) time.Duration {
	w.t.Helper()
	start := time.Now()
	for !holds() {
		if time.Since(start) > limit {
			w.t.Fatalf("%s: not within %v", what, limit)
		}
		time.Sleep(50 * time.Millisecond)
	}
	return time.Since(start)
}

// during fails if something comes to hold.
func (w *world) during(d time.Duration, what string, holds func() bool) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if holds() {
			w.t.Fatalf("%s", what)
		}
	}
}

func sees(c *Cluster, role Role, name string, l Liveness) bool {
	m, ok := c.Member(role, name)
	return ok && m.Liveness == l
}
