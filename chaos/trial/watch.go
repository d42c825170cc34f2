package trial

import (
	"context"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
)

const (
	probeEvery = 100 * time.Millisecond
	probeTime  = 2 * time.Second // for one write
	lookEvery  = 150 * time.Millisecond
	lookTime   = time.Second
	enough     = 3 // writes in a row that say that a cluster accepts them
	probeEvent = "axd-chaos-probe"
)

// Leader is who led from when on, by the servers' own word.
type Leader struct {
	At     time.Time `json:"at"`
	Term   uint64    `json:"term"`
	Leader string    `json:"leader"` // empty: none
}

// write is one of the small writes by which it is known whether the cluster
// accepts any.
type write struct {
	begun, ended time.Time
	ok           bool
}

// watch looks at the cluster from outside, all the time.
type watch struct {
	st     *stage
	cancel context.CancelFunc
	wg     sync.WaitGroup
	ctx    context.Context

	mu      sync.Mutex
	writes  []write
	leaders []Leader
}

func newWatch(st *stage) *watch {
	w := &watch{st: st}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	for _, s := range st.Servers {
		w.add(s)
	}
	return w
}

// add watches one server more.
func (w *watch) add(s *process.Server) {
	stale, err := client.New(client.Config{Addresses: []string{s.HTTP}, Stale: true, RetryTime: -1})
	if err != nil {
		return
	}
	writes, err := clientOf(s.HTTP)
	if err != nil {
		return
	}
	w.wg.Go(func() { defer stale.Close(); w.every(lookEvery, func() { w.look(s, stale) }) })
	w.wg.Go(func() { defer writes.Close(); w.every(probeEvery*servers, func() { w.probe(s, writes) }) })
}

func (w *watch) every(d time.Duration, do func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		do()
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			return
		}
	}
}

func (w *watch) look(s *process.Server, c *client.Client) {
	if !s.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, lookTime)
	defer cancel()
	got, err := c.Cluster(ctx)
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if got.Leader == "" {
		return
	}
	if n := len(w.leaders); n == 0 || got.Term > w.leaders[n-1].Term {
		w.leaders = append(w.leaders, Leader{At: time.Now(), Term: got.Term, Leader: got.Leader})
	}
}

func (w *watch) probe(s *process.Server, c *client.Client) {
	if !s.Running() {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, probeTime)
	defer cancel()
	p := write{begun: time.Now()}
	_, err := c.SendEvent(ctx, probeEvent, client.SendEventRequest{})
	p.ended, p.ok = time.Now(), err == nil
	if w.ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writes = append(w.writes, p)
}

// acceptedSince tells when the first of some writes in a row was accepted that
// began after a moment.
func (w *watch) acceptedSince(since time.Time) (time.Time, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, first := 0, time.Time{}
	for _, p := range w.writes {
		if !p.ok || p.begun.Before(since) {
			continue
		}
		if n == 0 {
			first = p.ended
		}
		if n++; n == enough {
			return first, true
		}
	}
	return time.Time{}, false
}

// gaps are the times without an accepted write, longer than least.
func (w *watch) gaps(least time.Duration) []Span {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []Span
	last := w.st.began
	for _, p := range w.writes {
		if !p.ok {
			continue
		}
		if p.ended.Sub(last) > least {
			out = append(out, Span{From: last, Until: p.ended})
		}
		last = p.ended
	}
	return out
}

// Span is a piece of time.
type Span struct {
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
}

func (w *watch) led() []Leader {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]Leader(nil), w.leaders...)
}

// stop ends looks and writes.
func (w *watch) stop() {
	w.cancel()
	w.wg.Wait()
}
