package chaos

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Plan is what goes wrong in a run, and when. It follows from its seed.
type Plan struct {
	Seed    uint64
	Servers int
	Workers int
	Callers int
	Length  time.Duration // of load and faults
	Faults  []Fault
}

// Fault is one thing that goes wrong for a while.
type Fault struct {
	Kind Kind
	At   time.Duration // since the load began
	For  time.Duration // for a crash: until the restart
	On   []string      // hosts; "leader" stands for the leader at that moment
	By   time.Duration // of clocks and delays
}

// Kind names a fault.
type Kind string

// The kinds of fault.
const (
	Isolate     Kind = "isolate"      // a server from all others, in both directions
	IsolateAll  Kind = "isolate-all"  // the same, from workers and callers too
	OneWay      Kind = "one-way"      // a server no longer hears the leader
	OneWayBack  Kind = "one-way-back" // the leader no longer hears a server
	Deaf        Kind = "deaf"         // a server hears no other server
	Bridge      Kind = "bridge"       // the leader and another server only meet through the third
	Delay       Kind = "delay"        // between servers
	Resets      Kind = "resets"       // connections of a server break
	WorkerCut   Kind = "worker-cut"   // a worker from all servers
	KillServer  Kind = "kill-server"  // kill -9
	PowerServer Kind = "power-server" // power off: unsynced data is lost
	PowerAll    Kind = "power-all"    // all servers at once
	StopServer  Kind = "stop-server"  // orderly: hands leadership over
	Transfer    Kind = "transfer"     // of leadership, as an operator asks for it
	KillWorker  Kind = "kill-worker"
	PowerWorker Kind = "power-worker"
	StopWorker  Kind = "stop-worker"
	HangWorker  Kind = "hang-worker" // cut off, and its handlers don't end
	ClockStep   Kind = "clock-step"  // a server's wall clock jumps, and back at the end
	ClockFar    Kind = "clock-far"   // the same, by hours
	SlowDisk    Kind = "slow-disk"
)

var kinds = []Kind{
	Isolate, Isolate, IsolateAll, OneWay, OneWayBack, Deaf, Bridge, Delay, Resets, WorkerCut, KillServer, KillServer, PowerServer,
	PowerServer, PowerAll, StopServer, StopServer, Transfer, KillWorker, PowerWorker, StopWorker, HangWorker, ClockStep, ClockFar, SlowDisk,
}

const (
	quietStart = 3 * time.Second        // before the first fault
	quietEnd   = 5 * time.Second        // after the last
	calm       = 3 * time.Second        // between two faults of the same
	meanGap    = 4 * time.Second        // between the begins of any two, drawn from 0 up to this
	leaderName = "leader"               // in Fault.On
	longest    = 14 * time.Second       // a fault: beyond the lease's 10 s and what is waited beyond it
	maxOffset  = 400 * time.Millisecond // of a clock that is allowed to lead
	clockLook  = 11 * time.Second       // within which the leader looks at every server's wall clock
)

// NewPlan draws a plan.
func NewPlan(seed uint64, length time.Duration) Plan {
	rng := rand.New(rand.NewPCG(seed, 0))
	p := Plan{Seed: seed, Servers: 3, Workers: 3, Callers: 6, Length: length}
	busy := map[string]time.Duration{} // until when something is taken by a fault
	for at := quietStart; at < length; at += time.Duration(rng.Int64N(int64(meanGap))) {
		f := p.draw(rng, at)
		if end := f.At + f.For; busy[f.takes()] <= at && end+quietEnd <= length {
			busy[f.takes()] = end + calm
			p.Faults = append(p.Faults, f)
		}
	}
	return p
}

// takes names what a fault has for itself: faults of servers come one after the
// other, since three bear one at a time; those of a worker, of clocks and of
// delays happen beside them.
func (f Fault) takes() string {
	switch f.Kind {
	case WorkerCut, KillWorker, PowerWorker, StopWorker, HangWorker:
		return f.On[0]
	case ClockStep, Delay:
		return string(f.Kind)
	}
	return "servers"
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
func (p Plan) draw(rng *rand.Rand, at time.Duration) Fault {
	f := Fault{
		Kind: kinds[rng.IntN(len(kinds))], At: at.Round(time.Millisecond),
		For: (time.Second + time.Duration(rng.Int64N(int64(longest)))).Round(time.Millisecond),
	}
	servers, workers := p.servers(), p.workers()
	rng.Shuffle(len(servers), func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	one := []string{servers[0]}
	if rng.IntN(2) == 0 {
		one = []string{leaderName}
	}
	switch f.Kind {
	case OneWay, OneWayBack, Bridge:
		f.On = []string{leaderName}
	case PowerAll:
		f.On = p.servers()
	case Delay:
		f.On = p.servers()
		f.By = 5*time.Millisecond + time.Duration(rng.Int64N(int64(60*time.Millisecond))).Round(time.Millisecond)
	case WorkerCut, KillWorker, PowerWorker, StopWorker, HangWorker:
		f.On = []string{workers[rng.IntN(len(workers))]}
	case ClockStep, ClockFar:
		f.On = one
		f.For += clockLook
		f.By = time.Duration(1+rng.Int64N(maxOffset.Milliseconds())) * time.Millisecond
		if f.Kind == ClockFar {
			f.By *= 10_000
		}
		if rng.IntN(2) == 0 {
			f.By = -f.By
		}
	case SlowDisk:
		f.On = one
		f.By = 10*time.Millisecond + time.Duration(rng.Int64N(int64(200*time.Millisecond))).Round(time.Millisecond)
	default:
		f.On = one
	}
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
	s := fmt.Sprintf("%8.3fs for %6.3fs  %-12s %s", f.At.Seconds(), f.For.Seconds(), f.Kind, strings.Join(f.On, " "))
	if f.By != 0 {
		s += " by " + f.By.String()
	}
	return s
}
