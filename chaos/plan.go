package chaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Plan is what goes wrong in a run, and when. It follows from its seed.
type Plan struct {
	Seed    uint64
	Servers int
	Workers int
	Callers int
	Streams int           // schedules that start a small run each second
	Length  time.Duration // of load and faults
	Think   time.Duration // mean pause of a caller between two calls
	Faults  []Fault
}

// Fault is one thing that goes wrong for a while.
type Fault struct {
	Kind Kind
	At   time.Duration // since the load began
	For  time.Duration // for a crash: until the restart
	On   []string      // hosts; "leader" stands for the leader at that moment
	By   time.Duration // of clocks and delays
	Rate float64       // of clocks: what they gain each second
}

const (
	quietStart = 3 * time.Second // before the first fault
	quietEnd   = 5 * time.Second // after the last
	calm       = 3 * time.Second // between two faults of the same
	leaderName = "leader"        // in Fault.On

	maxOffset = 400 * time.Millisecond // of a clock that is allowed to lead
)

// tempo is how fast a plan's life goes.
type tempo struct {
	gap     time.Duration // between the begins of any two faults, drawn from 0 up to this
	longest time.Duration // a fault
	think   time.Duration // of a caller
}

var (
	// dense puts fault beside fault and keeps callers busy. A fault may be longer
	// than the lease's 10 s and what is waited beyond it.
	dense = tempo{gap: 4 * time.Second, longest: 14 * time.Second, think: thinkTime}
	// sparse is a life of little work and few troubles, some of which are long.
	sparse = tempo{gap: 8 * time.Minute, longest: 4 * time.Minute, think: 20 * time.Second}
)

// NewPlan draws a plan of minutes with many faults and much to do; of some kinds
// alone, where any are named.
func NewPlan(seed uint64, length time.Duration, only ...Kind) Plan {
	return newPlan(seed, length, dense, only)
}

// NewLongPlan draws a plan of hours, in which there is little to do and faults are
// rare.
func NewLongPlan(seed uint64, length time.Duration, only ...Kind) Plan {
	return newPlan(seed, length, sparse, only)
}

func newPlan(seed uint64, length time.Duration, t tempo, only []Kind) Plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := Plan{Seed: seed, Servers: 3, Workers: 3, Callers: 6, Length: length, Think: t.think}
	var lots []*nemesis // as many of each as its weight
	for i := range nemeses {
		n := &nemeses[i]
		if len(only) == 0 || slices.Contains(only, n.kind) {
			for range n.weight {
				lots = append(lots, n)
			}
		}
	}
	if len(lots) == 0 {
		return p
	}
	busy := map[string]time.Duration{} // until when something is taken by a fault
	for at := quietStart; at < length; at += time.Duration(rng.Int64N(int64(t.gap))) {
		n := lots[rng.IntN(len(lots))]
		f := p.draw(rng, n, at, t.longest)
		if end := f.At + f.For; busy[f.takes()] <= at && end+quietEnd <= length {
			busy[f.takes()] = end + calm
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

// takes names what a fault has for itself: faults of servers come one after the
// other, since three bear one at a time; those of a worker, and some that no server
// is lost by, happen beside them.
func (f Fault) takes() string {
	if n := find(f.Kind); n != nil && n.takes != "" {
		return n.takes
	}
	return f.On[0]
}

func (p Plan) servers() []string { return names("s", p.Servers) }
func (p Plan) workers() []string { return names("w", p.Workers) }

func names(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprintf("%s%d", prefix, i+1))
	}
	return out
}

// draw makes one random fault.
func (p Plan) draw(rng *rand.Rand, n *nemesis, at, longest time.Duration) Fault {
	f := Fault{
		Kind: n.kind, At: at.Round(time.Millisecond),
		For: (time.Second + time.Duration(rng.Int64N(int64(longest)))).Round(time.Millisecond),
	}
	n.draw(p, rng, &f)
	return f
}

// String shows the plan, a line a fault.
func (p Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: %d servers, %d workers, %d callers, %v\n", p.Seed, p.Servers, p.Workers, p.Callers, p.Length)
	for _, f := range p.Faults {
		fmt.Fprintf(&b, "  %v\n", f)
	}
	return b.String()
}

// String shows one fault.
func (f Fault) String() string {
	s := fmt.Sprintf("%8.3fs for %6.3fs  %-16s %s", f.At.Seconds(), f.For.Seconds(), f.Kind, strings.Join(f.On, " "))
	if f.By != 0 {
		s += " by " + f.By.String()
	}
	if f.Rate != 0 {
		s += fmt.Sprintf(" gaining %+g s/s", f.Rate)
	}
	return s
}
