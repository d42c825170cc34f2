package bench

import (
	"context"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

const (
	usageEvery = 100 * time.Millisecond // between two looks at the processes
	termEvery  = time.Second            // between two questions who leads
)

// monitor watches the bench's own processes.
type monitor struct {
	cluster *process.Cluster
	cancel  context.CancelFunc
	done    sync.WaitGroup

	mu     sync.Mutex
	rssMax int64 // of any server, at any time
	terms  elections
	rss    [][]int64 // of each server, at each look
}

// elections counts the terms that came while somebody watched.
type elections struct {
	term     uint64
	excused  int    // kills whose elections are still to be expected
	needless uint64 // terms that no kill explains
	all      uint64
}

// see takes the highest term that a server knows.
func (e *elections) see(term uint64) {
	if term <= e.term {
		return
	}
	if e.term > 0 { // else it is the one that the watch began in
		e.all += term - e.term
		if e.excused == 0 {
			e.needless += term - e.term
		}
	}
	e.term = term
}

// watch looks at the processes until stop, and asks who leads unless quiet.
func watch(ctx context.Context, c *process.Cluster, quiet bool) *monitor {
	m := &monitor{cluster: c}
	m.askTerm(ctx)
	ctx, m.cancel = context.WithCancel(ctx)
	m.done.Go(func() { every(ctx, usageEvery, m.look) })
	if !quiet {
		m.done.Go(func() { every(ctx, termEvery, func() { m.askTerm(ctx) }) })
	}
	return m
}

// every calls f until ctx ends.
func every(ctx context.Context, d time.Duration, f func()) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

func (m *monitor) look() {
	now := make([]int64, len(m.cluster.Servers))
	for i, s := range m.cluster.Servers {
		u, err := s.Usage()
		if err != nil {
			continue // between two lives
		}
		now[i] = u.RSS
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.rss = append(m.rss, now)
	for _, rss := range now {
		m.rssMax = max(m.rssMax, rss)
	}
}

func (m *monitor) askTerm(ctx context.Context) {
	l := m.cluster.Leadership(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.terms.see(l.Term)
}

// excuse says that new terms are to be expected until the returned function is
// called, since a server is being killed.
func (m *monitor) excuse(ctx context.Context) (until func()) {
	m.askTerm(ctx) // what came before has no excuse
	m.mu.Lock()
	m.terms.excused++
	m.mu.Unlock()
	return func() {
		m.askTerm(ctx)
		m.mu.Lock()
		m.terms.excused--
		m.mu.Unlock()
	}
}

// stop ends the watch and puts what it saw into a result.
func (m *monitor) stop(ctx context.Context, r *Result) {
	m.askTerm(ctx)
	m.cancel()
	m.done.Wait()
	m.look()
	r.set("rss_mib_max", mib(m.rssMax))
	r.set("elections", float64(m.terms.all))
	r.set("elections_needless", float64(m.terms.needless))
}

func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// rest is the most memory that a server takes now, in bytes.
func (m *monitor) rest() int64 {
	m.look()
	m.mu.Lock()
	defer m.mu.Unlock()
	most := int64(0)
	for _, rss := range m.rss[len(m.rss)-1] {
		most = max(most, rss)
	}
	return most
}

// mark is where a series begins.
func (m *monitor) mark() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.rss)
}

// series is the memory of the server that takes most, since a mark.
func (m *monitor) series(mark int) []int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []int64
	for _, now := range m.rss[mark:] {
		most := int64(0)
		for _, rss := range now {
			most = max(most, rss)
		}
		out = append(out, most)
	}
	return out
}
