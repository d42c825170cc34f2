package proxy

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// pair names a direction.
type pair struct {
	from, to string
	plane    Plane
}

// link is one direction between two processes on one plane.
type link struct {
	mu      sync.Mutex
	rule    Rule
	changed chan struct{} // closed when the rule changes
	counts  Counts
	conns   map[*conn]struct{} // that use it
}

func newLink() *link {
	return &link{changed: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// set changes the rule. A reset ends the connections that are there.
func (l *link) set(r Rule) {
	l.mu.Lock()
	l.rule = r
	close(l.changed)
	l.changed = make(chan struct{})
	var ended []*conn
	if r.Mode == Reset {
		for c := range l.conns {
			ended = append(ended, c)
		}
		l.counts.Resets += int64(len(ended))
	}
	l.mu.Unlock()
	for _, c := range ended {
		c.abort()
	}
}

func (l *link) get() Rule {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.rule
}

func (l *link) count(change func(*Counts)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(&l.counts)
}

func (l *link) read() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

// open waits while the link is cut; size is what waits, counted if it has to. It
// returns false when ctx ends.
func (l *link) open(ctx context.Context, size int) bool {
	for held := false; ; held = true {
		l.mu.Lock()
		cut, changed := l.rule.Mode == Cut, l.changed
		if cut && !held {
			l.counts.Held += int64(size)
		}
		l.mu.Unlock()
		if !cut {
			return ctx.Err() == nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// join makes a connection use the link; false: the link resets it.
func (l *link) join(c *conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rule.Mode == Reset {
		l.counts.Resets++
		return false
	}
	l.conns[c] = struct{}{}
	return true
}

func (l *link) leave(c *conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// under is how long something is under way by a rule.
func (r Rule) under(rng *rand.Rand) time.Duration {
	d := r.Delay
	if r.Jitter > 0 {
		d += time.Duration(rng.Int64N(int64(r.Jitter)))
	}
	return d
}
