package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/axd-project/axd/client"
)

// injector makes a plan's faults happen.
type injector struct {
	c        *Cluster
	rng      *rand.Rand
	operator *client.Client
	sink     *sink
	patience time.Duration // for what a fault needs to be there or to show
	longest  time.Duration // of the plan's faults

	mu      sync.Mutex
	acted   map[Kind]int
	effects map[Kind]int
	turns   map[string]chan struct{} // of faults that exclude each other; one has it
}

func newInjector(c *Cluster, l *load, p Plan) *injector {
	longest := time.Duration(0)
	for _, f := range p.Faults {
		longest = max(longest, f.For)
	}
	return &injector{
		c: c, rng: c.rand(), operator: l.clients[0], sink: l.sink, patience: leastPatience + 3*p.Think, longest: longest,
		acted: map[Kind]int{}, effects: map[Kind]int{}, turns: map[string]chan struct{}{},
	}
}

// leastPatience is for what happens by itself; what callers cause may take as long
// as they think.
const leastPatience = 20 * time.Second

// play runs a plan's faults from now on and returns when all have ended.
func (i *injector) play(p Plan) {
	var running sync.WaitGroup
	for _, f := range p.Faults {
		running.Go(func() {
			if pause(i.c.ctx, f.At) {
				i.one(f)
			}
		})
	}
	running.Wait()
}

// one runs a fault from its begin to its end. A fault that changed nothing is a
// problem: a run that tested nothing must not pass.
func (i *injector) one(f Fault) {
	turn := i.turn(f.takes())
	turn <- struct{}{} // one that took longer than planned goes before
	defer func() { <-turn }()
	n := find(f.Kind)
	if n == nil {
		i.c.Problem("no fault of kind %s is known", f.Kind)
		return
	}
	if f.On = i.resolve(f.On); f.On == nil {
		i.c.Problem("there was no leader for %v", f)
		return
	}
	i.c.note("begin %v", f)
	began := time.Now()
	end := n.begin(i, f)
	time.Sleep(f.For)
	did := end()
	i.c.Ledger.troubled(f.Kind, began)
	i.c.note("end   %v: %d %s", f, did.n, did.what)
	if did.n == 0 {
		i.c.Problem("a fault did not act: %v: no %s", f, did.what)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.acted[f.Kind]++
	i.effects[f.Kind] += did.n
}

func (i *injector) turn(takes string) chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.turns[takes] == nil {
		i.turns[takes] = make(chan struct{}, 1)
	}
	return i.turns[takes]
}

// resolve finds the leader's name. There may be none for as long as another fault
// leaves no majority.
func (i *injector) resolve(on []string) []string {
	if on[0] != leaderName {
		return on
	}
	var leader *Server
	await(i.longest+i.patience, func() bool {
		leader = i.c.Leader()
		return leader != nil && leader.now() != nil
	})
	if leader == nil {
		return nil
	}
	return []string{leader.Name}
}

// waitFor waits until something is so, for a bounded time.
func (i *injector) waitFor(is func() bool) bool { return await(i.patience, is) }

func await(limit time.Duration, is func() bool) bool {
	for end := time.Now().Add(limit); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// ask calls the cluster as an operator does, who tries again.
func (i *injector) ask(what func(ctx context.Context) error) error {
	var err error
	i.waitFor(func() bool {
		ctx, cancel := context.WithTimeout(i.c.ctx, callLimit)
		defer cancel()
		err = what(ctx)
		return err == nil
	})
	return err
}

// some picks one of hosts.
func (i *injector) some(hosts []string) []string {
	n := i.perm(len(hosts))[0]
	return hosts[n : n+1]
}

func (i *injector) perm(n int) []int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.rng.Perm(n)
}

// pairs returns every direction from one of a to another one of b.
func pairs(a, b []string) []linkKey {
	var out []linkKey
	for _, from := range a {
		for _, to := range b {
			if from != to {
				out = append(out, linkKey{from, to})
			}
		}
	}
	return out
}

func both(a, b []string) []linkKey { return append(pairs(a, b), pairs(b, a)...) }

func without(all []string, name string) []string {
	var out []string
	for _, n := range all {
		if n != name {
			out = append(out, n)
		}
	}
	return out
}

// summary lists how many faults of each kind acted, and how much each kind did.
func (i *injector) summary() (acted, effects map[Kind]int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return maps.Clone(i.acted), maps.Clone(i.effects)
}

func (k linkKey) String() string { return fmt.Sprintf("%s→%s", k.from, k.to) }
