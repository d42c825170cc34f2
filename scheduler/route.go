package scheduler

import (
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

// The bounds of what routes are remembered by.
const (
	maxKnownNeeds = 1000
	maxRobins     = 1000
)

// needs is what a shape asks of a worker's labels.
type needs struct {
	selector map[string]string
	require  []job.Requirement
}

// needs parses a shape's selector and requirements, once.
func (l *loop) needs(s shape) *needs {
	k := s.labels + "\x00" + s.require
	if n := l.known[k]; n != nil {
		return n
	}
	if len(l.known) >= maxKnownNeeds {
		clear(l.known)
	}
	n := &needs{selector: parseLabels(s.labels)}
	for line := range strings.Lines(s.require) {
		r, _ := job.ParseRequirement(strings.TrimSuffix(line, "\n")) // checked by apply
		n.require = append(n.require, r)
	}
	l.known[k] = n
	return n
}

func parseLabels(s string) map[string]string {
	if s == "" {
		return nil
	}
	out := map[string]string{}
	for pair := range strings.SplitSeq(s, ",") {
		k, v, _ := strings.Cut(pair, "=")
		out[k] = v
	}
	return out
}

// routed adds a route to a shape.
func (l *loop) routed(s shape, r *job.Route, p job.Priority) shape {
	for _, text := range r.Require {
		s.require += text + "\n"
	}
	if r.Strategy != job.LeastLoaded {
		s.strategy = r.Strategy
	}
	if r.Sticky != "" {
		s.worker = l.stick(s, r.Sticky, p)
		s.sticky, l.sticking = true, true
	}
	return s
}

// stick chooses a key's worker among those that fit and live, whether or not they
// are connected at the moment: the one whose hash with the key is highest, so that
// the others keep their keys when one comes or goes.
func (l *loop) stick(s shape, key string, p job.Priority) (best string) {
	n, high := l.needs(s), uint64(0)
	for name, w := range l.workers {
		if w.draining || w.lost || !w.fits(s, n, p) {
			continue
		}
		h := xxhash.Sum64String(key + "\x00" + name)
		if best == "" || h > high || h == high && name < best {
			best, high = name, h
		}
	}
	return best
}

// pick chooses one of the candidates, of which there are some, by the shape's
// strategy.
func (l *loop) pick(s shape, candidates workerHeap) int {
	switch s.strategy {
	case job.Random:
		return l.rng.IntN(len(candidates))
	case job.RoundRobin:
		i := after(l.robin[s], candidates)
		if len(l.robin) >= maxRobins {
			clear(l.robin)
		}
		l.robin[s] = candidates[i].name
		return i
	}
	return 0 // the least loaded
}

// after is the candidate whose name follows, the first by name where none does.
func after(name string, candidates workerHeap) int {
	next, first := -1, 0
	for i, w := range candidates {
		if w.name < candidates[first].name {
			first = i
		}
		if w.name > name && (next < 0 || w.name < candidates[next].name) {
			next = i
		}
	}
	if next < 0 {
		return first
	}
	return next
}
