package proxy

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
)

// Node is one process and where it is.
type Node struct {
	Name string
	// PID is the process's number now; 0 while it doesn't run.
	PID func() int
	// Where the process listens, host:port. RPC may be empty.
	RPC, Gossip string
	// Where it is reached through the network: addresses that nobody uses yet.
	PublicRPC, PublicGossip string
}

// Network is the proxies between all nodes.
type Network struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	nodes    map[string]*node
	byGossip map[netip.AddrPort]string
	links    map[pair]*link
	unknown  int64
}

type node struct {
	Node
	closers []func() error
}

// New makes a network without nodes.
func New() *Network {
	n := &Network{nodes: map[string]*node{}, byGossip: map[netip.AddrPort]string{}, links: map[pair]*link{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Add begins to listen for a node.
func (n *Network) Add(nd Node) error {
	gossip, err := netip.ParseAddrPort(nd.Gossip)
	if err != nil {
		return fmt.Errorf("gossip address of %s: %w", nd.Name, err)
	}
	added := &node{Node: nd}
	n.mu.Lock()
	if n.nodes[nd.Name] != nil {
		n.mu.Unlock()
		return errors.New("there is a node " + nd.Name + " already")
	}
	n.nodes[nd.Name], n.byGossip[gossip] = added, nd.Name
	n.mu.Unlock()
	listeners := []struct {
		plane        Plane
		public, real string
	}{{Gossip, nd.PublicGossip, nd.Gossip}}
	if nd.RPC != "" {
		listeners = append(listeners, struct {
			plane        Plane
			public, real string
		}{RPC, nd.PublicRPC, nd.RPC})
	}
	for _, l := range listeners {
		ln, err := net.Listen("tcp", l.public)
		if err != nil {
			return fmt.Errorf("proxy of %s: %w", nd.Name, err)
		}
		added.closers = append(added.closers, ln.Close)
		n.wg.Go(func() { n.accept(ln, nd.Name, l.plane, l.real) })
	}
	pc, err := net.ListenPacket("udp", nd.PublicGossip)
	if err != nil {
		return fmt.Errorf("proxy of %s: %w", nd.Name, err)
	}
	added.closers = append(added.closers, pc.Close)
	n.wg.Go(func() { n.relay(pc.(*net.UDPConn), nd.Name, gossip) }) // what udp gives
	return nil
}

// Close ends all connections and waits for what the network started.
func (n *Network) Close() {
	n.cancel()
	n.mu.Lock()
	for _, nd := range n.nodes {
		for _, closing := range nd.closers {
			_ = closing()
		}
	}
	var conns []*conn
	for _, l := range n.links {
		l.mu.Lock()
		for c := range l.conns {
			conns = append(conns, c)
		}
		l.mu.Unlock()
	}
	n.mu.Unlock()
	for _, c := range conns {
		c.abort()
	}
	n.wg.Wait()
}

func (n *Network) link(from, to string, plane Plane) *link {
	p := pair{from, to, plane}
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.links[p]
	if l == nil {
		l = newLink()
		n.links[p] = l
	}
	return l
}

// Set changes what becomes of what one node sends to another on some planes;
// none stands for all.
func (n *Network) Set(from, to string, r Rule, on ...Plane) {
	if len(on) == 0 {
		on = []Plane{RPC, Gossip}
	}
	for _, p := range on {
		n.link(from, to, p).set(r)
	}
}

// Heal lets everything pass again.
func (n *Network) Heal() {
	n.mu.Lock()
	var all []*link
	for _, l := range n.links {
		all = append(all, l)
	}
	n.mu.Unlock()
	for _, l := range all {
		if l.get() != (Rule{}) {
			l.set(Rule{})
		}
	}
}

// Counts returns what happened to what one node sent to another on some planes;
// none stands for all.
func (n *Network) Counts(from, to string, on ...Plane) Counts {
	if len(on) == 0 {
		on = []Plane{RPC, Gossip}
	}
	var sum Counts
	for _, p := range on {
		sum = sum.Add(n.link(from, to, p).read())
	}
	return sum
}

// Total sums up all links.
func (n *Network) Total() Counts {
	n.mu.Lock()
	defer n.mu.Unlock()
	var sum Counts
	for _, l := range n.links {
		sum = sum.Add(l.read())
	}
	return sum
}

// Unknown counts connections and datagrams of nobody that the network knows; they
// are refused.
func (n *Network) Unknown() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.unknown
}

func (n *Network) stranger() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.unknown++
}

// processes returns the nodes that run, by the process's number.
func (n *Network) processes() map[int]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := map[int]string{}
	for name, nd := range n.nodes {
		if pid := nd.PID(); pid != 0 {
			out[pid] = name
		}
	}
	return out
}
