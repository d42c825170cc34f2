package chaos

import (
	"context"
	"fmt"
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

	mu    sync.Mutex
	acted map[Kind]int
}

// play runs a plan's faults from now on and returns when all have ended.
func (i *injector) play(p Plan) {
	var running sync.WaitGroup
	for _, f := range p.Faults {
		running.Go(func() {
			time.Sleep(f.At)
			i.one(f)
		})
	}
	running.Wait()
}

// one runs a fault from its begin to its end. A fault that changed nothing is a
// problem: a run that tested nothing must not pass.
func (i *injector) one(f Fault) {
	f.On = i.resolve(f.On)
	if f.On == nil {
		i.c.Problem("there was no leader for %v", f)
		return
	}
	i.c.log.Warn("fault", "kind", f.Kind, "on", f.On, "for", f.For)
	acted := i.begin(f)
	if acted == nil {
		i.c.Problem("no fault of kind %s is known", f.Kind)
		return
	}
	time.Sleep(f.For)
	if !acted() {
		i.c.Problem("a fault did not act: %v", f)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.acted[f.Kind]++
}

const waitLimit = 20 * time.Second // for what a fault needs to be there, such as a leader

// resolve finds the leader's name.
func (i *injector) resolve(on []string) []string {
	if on[0] != leaderName {
		return on
	}
	var leader *Server
	waitFor(func() bool {
		leader = i.c.Leader()
		return leader != nil && leader.now() != nil
	})
	if leader == nil {
		return nil
	}
	return []string{leader.Name}
}

// waitFor waits until something is so, for a bounded time.
func waitFor(is func() bool) bool {
	for end := time.Now().Add(waitLimit); !is(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// begin starts a fault and returns what ends it and tells whether it acted.
func (i *injector) begin(f Fault) (end func() bool) {
	servers, workers := i.c.hosts()
	others := without(servers, f.On[0])
	switch f.Kind {
	case Isolate:
		return i.cut(both(f.On, others))
	case IsolateAll:
		return i.cut(both(f.On, append(append(others, workers...), clientHost)))
	case OneWay:
		return i.cut(pairs(f.On, i.some(others)))
	case OneWayBack:
		return i.cut(pairs(i.some(others), f.On))
	case Deaf:
		return i.cut(pairs(others, f.On))
	case Bridge:
		return i.cut(both(f.On, i.some(others)))
	case WorkerCut:
		return i.cut(both(f.On, servers))
	case Delay:
		return i.weaken(pairs(servers, servers), func(k linkKey) { i.c.Net.Slow(k.from, k.to, f.By, f.By) },
			func(k linkKey) { i.c.Net.Slow(k.from, k.to, 0, 0) })
	case Resets:
		return i.weaken(both(f.On, append(others, workers...)), func(k linkKey) { i.c.Net.Break(k.from, k.to, 0.05) },
			func(k linkKey) { i.c.Net.Break(k.from, k.to, 0) })
	case ClockStep, ClockFar:
		s := i.c.Server(f.On[0])
		before := s.SetClock(f.By)
		return func() bool {
			acted := waitFor(func() bool { return s.clockReads() > before })
			s.SetClock(0)
			return acted
		}
	case Transfer:
		return i.transfer(f.On[0])
	case SlowDisk:
		return i.slowDisk(i.c.Server(f.On[0]), f.By)
	case HangWorker:
		w := i.c.Worker(f.On[0])
		heal := i.cut(both(f.On, servers))
		w.Freeze()
		return func() bool { w.Thaw(); return heal() }
	default:
		return i.down(f)
	}
}

// down ends processes, and starts them again at the fault's end.
func (i *injector) down(f Fault) (end func() bool) {
	servers := func(how func(*Server) bool) func() bool {
		acted := true
		for _, name := range f.On {
			s := i.c.Server(name)
			waitFor(func() bool { return s.now() != nil }) // one that ended itself comes back
			acted = how(s) && acted
		}
		return func() bool {
			for _, n := range i.perm(len(f.On)) {
				i.c.Server(f.On[n]).Restart()
			}
			return acted
		}
	}
	worker := func(how func(*Worker) bool) func() bool {
		w := i.c.Worker(f.On[0])
		waitFor(func() bool { return w.now() != nil }) // an orderly stop before may have taken longer than planned
		acted := how(w)
		return func() bool { w.Restart(); return acted }
	}
	switch f.Kind {
	case KillServer:
		return servers(func(s *Server) bool { return s.Crash(false) })
	case PowerServer, PowerAll:
		return servers(func(s *Server) bool { return s.Crash(true) })
	case StopServer:
		return servers(func(s *Server) bool { up := s.now() != nil; s.Stop(); return up })
	case KillWorker:
		return worker(func(w *Worker) bool { return w.Crash(false) })
	case PowerWorker:
		return worker(func(w *Worker) bool { return w.Crash(true) })
	case StopWorker:
		return worker(func(w *Worker) bool { up := w.now() != nil; w.Stop(); return up })
	}
	return nil
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

func (i *injector) cut(links []linkKey) (end func() bool) {
	return i.weaken(links, func(k linkKey) { i.c.Net.Cut(k.from, k.to) }, func(k linkKey) { i.c.Net.Heal(k.from, k.to) })
}

// weaken changes links for the time of a fault; it acted if traffic met it.
func (i *injector) weaken(links []linkKey, begin, end func(linkKey)) func() bool {
	count := func() (n int) {
		for _, k := range links {
			n += i.c.Net.Acted(k.from, k.to)
		}
		return n
	}
	before := count()
	for _, k := range links {
		begin(k)
	}
	return func() bool {
		acted := waitFor(func() bool { return count() > before })
		for _, k := range links {
			end(k)
		}
		return acted
	}
}

// transfer asks until another server leads: right after other faults there may be
// none to hand over to.
func (i *injector) transfer(leader string) (end func() bool) {
	acted := waitFor(func() bool {
		ctx, cancel := context.WithTimeout(i.c.ctx, callLimit)
		defer cancel()
		to, err := i.operator.TransferLeadership(ctx, "")
		return err == nil && to.Leader != leader
	})
	return func() bool { return acted }
}

func (i *injector) slowDisk(s *Server, each time.Duration) (end func() bool) {
	d := s.Disk()
	before := d.Slowed()
	d.Slow(each)
	return func() bool {
		acted := waitFor(func() bool { return d.Slowed() > before })
		d.Slow(0)
		return acted
	}
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

// summary lists how many faults of each kind acted.
func (i *injector) summary() map[Kind]int {
	i.mu.Lock()
	defer i.mu.Unlock()
	out := map[Kind]int{}
	for k, n := range i.acted {
		out[k] = n
	}
	return out
}

func (k linkKey) String() string { return fmt.Sprintf("%s→%s", k.from, k.to) }
