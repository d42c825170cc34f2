package raftnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// inBubble runs a test of replicas on a network in memory, in virtual time.
func inBubble(t *testing.T, names []string, test func(c *cluster)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, names...)
		c.wires = &wires{listeners: map[string]*wireListener{}, mute: map[string]bool{}}
		logs := map[string]LogBackend{}
		for _, name := range names {
			logs[name] = &heldLog{entries: map[uint64]raft.Log{}, values: map[string][]byte{}}
		}
		c.logs = logs
		test(c)
		for _, m := range c.members {
			m.stop()
		}
	})
}

// The first bytes of raft's requests.
const (
	installSnapshot = 2
	timeoutNow      = 3
)

// wires is a network in memory whose servers can fall silent: what they send is
// lost and nobody is told, as when a machine loses its power.
type wires struct {
	mu        sync.Mutex
	listeners map[string]*wireListener // by address
	lives     int
	mute      map[string]bool
	doomed    string // falls silent once it has sent so many bytes of a snapshot
	to        string // to this one
	left      int
	drag      time.Duration // how long a snapshot takes to be sent
	stuck     chan struct{} // until it is closed nobody is told to stand for leader; nil: everybody is
}

type wireListener struct {
	*pipeListener
	w       *wires
	address string
}

func (l *wireListener) Addr() net.Addr { return &net.UnixAddr{Name: l.address} }

// listen takes a new address, also for a server that had one.
func (w *wires) listen(name string) net.Listener {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lives++
	l := &wireListener{pipeListener: newPipeListener(), w: w, address: fmt.Sprintf("%s:%d", name, w.lives)}
	w.listeners[l.address] = l
	return l
}

func (w *wires) dial(ctx context.Context, from, to, address string) (net.Conn, error) {
	w.mu.Lock()
	l := w.listeners[address]
	silent := w.mute[from] || w.mute[to]
	w.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if l == nil {
		return nil, errors.New("nobody listens at " + address)
	}
	near, far := net.Pipe()
	select {
	case l.conns <- &wire{Conn: far, w: w, from: to, to: from}:
		return &wire{Conn: near, w: w, from: from, to: to}, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// silence makes a server fall silent once it has sent so many bytes of a snapshot
// to another.
func (w *wires) silence(name, to string, after int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.doomed, w.to, w.left = name, to, after
}

func (w *wires) isMute(name string) bool {
	if w == nil {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.mute[name]
}

// passes returns how much of what is sent arrives.
func (w *wires) passes(c *wire, b []byte) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mute[c.from] || w.mute[c.to] {
		return 0
	}
	n := len(b)
	if c.from == w.doomed && c.to == w.to && n > 0 {
		c.snapshot = c.snapshot || b[0] == installSnapshot
		if c.snapshot {
			n = min(n, w.left)
			w.left -= n
			w.mute[c.from] = w.left == 0
		}
	}
	return n
}

type wire struct {
	net.Conn
	w        *wires
	from, to string
	snapshot bool // one is sent on it; guarded by w.mu
}

func (c *wire) Write(b []byte) (int, error) {
	if len(b) > 0 && b[0] == installSnapshot {
		time.Sleep(c.w.drag)
	}
	if len(b) > 0 && b[0] == timeoutNow && c.w.stuck != nil {
		<-c.w.stuck // no deadline ends it
		return 0, errors.New("cut off")
	}
	n := c.w.passes(c, b)
	if n == len(b) {
		return c.Conn.Write(b)
	}
	if n > 0 {
		if n, err := c.Conn.Write(b[:n]); err != nil {
			return n, err
		}
	}
	return len(b), nil
}

// Close of a silent server's end isn't seen at the other one.
func (c *wire) Close() error {
	if !c.w.isMute(c.from) {
		return c.Conn.Close()
	}
	return c.Conn.SetDeadline(time.Unix(1, 0)) // only for those who use this end
}

// heldLog keeps a log in memory over a server's restarts.
type heldLog struct {
	mu      sync.Mutex
	entries map[uint64]raft.Log
	values  map[string][]byte
}

func (h *heldLog) FirstIndex() (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := uint64(0)
	for i := range h.entries {
		if first == 0 || i < first {
			first = i
		}
	}
	return first, nil
}

func (h *heldLog) LastIndex() (uint64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	last := uint64(0)
	for i := range h.entries {
		last = max(last, i)
	}
	return last, nil
}

func (h *heldLog) GetLog(index uint64, l *raft.Log) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	e, ok := h.entries[index]
	if !ok {
		return raft.ErrLogNotFound
	}
	*l = e
	return nil
}

func (h *heldLog) StoreLog(l *raft.Log) error { return h.StoreLogs([]*raft.Log{l}) }

func (h *heldLog) StoreLogs(logs []*raft.Log) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range logs {
		h.entries[l.Index] = *l
	}
	return nil
}

func (h *heldLog) DeleteRange(lo, hi uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.entries {
		if lo <= i && i <= hi {
			delete(h.entries, i)
		}
	}
	return nil
}

func (h *heldLog) Get(key []byte) ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	v, ok := h.values[string(key)]
	if !ok {
		return nil, raftboltdb.ErrKeyNotFound
	}
	return v, nil
}

func (h *heldLog) Set(key, value []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.values[string(key)] = value
	return nil
}

func (h *heldLog) Close() error { return nil }
