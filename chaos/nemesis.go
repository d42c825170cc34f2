package chaos

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind names a fault.
type Kind string

// The kinds of fault.
const (
	Isolate        Kind = "isolate"
	IsolateAll     Kind = "isolate-all"
	OneWay         Kind = "one-way"
	OneWayBack     Kind = "one-way-back"
	Deaf           Kind = "deaf"
	Bridge         Kind = "bridge"
	Refuse         Kind = "refuse"
	Delay          Kind = "delay"
	Loss           Kind = "loss"
	Resets         Kind = "resets"
	GossipLoss     Kind = "gossip-loss"
	GossipCut      Kind = "gossip-cut"
	KillServer     Kind = "kill-server"
	KillAll        Kind = "kill-all"
	PowerServer    Kind = "power-server"
	PowerAll       Kind = "power-all"
	StopServer     Kind = "stop-server"
	Rolling        Kind = "rolling-restart"
	Transfer       Kind = "transfer"
	TransferStorm  Kind = "transfer-storm"
	SlowDisk       Kind = "slow-disk"
	DiskStall      Kind = "disk-stall"
	DiskError      Kind = "disk-error"
	DiskFull       Kind = "disk-full"
	TornTail       Kind = "torn-tail"
	BitFlip        Kind = "bit-flip"
	LostDisk       Kind = "lost-disk"
	Replace        Kind = "replace-server"
	SnapshotSilent Kind = "snapshot-silent"
	SnapshotKilled Kind = "snapshot-killed"
	SnapshotTorn   Kind = "snapshot-torn"
	ClockStep      Kind = "clock-step"
	ClockJump      Kind = "clock-jump"
	ClockFar       Kind = "clock-far"
	ClockFrozen    Kind = "clock-frozen"
	ClockSlow      Kind = "clock-slow"
	ClockFast      Kind = "clock-fast"
	WorkerCut      Kind = "worker-cut"
	KillWorker     Kind = "kill-worker"
	PowerWorker    Kind = "power-worker"
	StopWorker     Kind = "stop-worker"
	HangWorker     Kind = "hang-worker"
	ZombieWorker   Kind = "zombie-worker"
	TwinWorker     Kind = "twin-worker"
	SlowCallbacks  Kind = "slow-callbacks"
)

// nemesis is a kind of fault: when it may happen and how it is brought about.
type nemesis struct {
	kind   Kind
	about  string // for people
	weight int    // in a plan of all kinds
	takes  string // what it has for itself, see Fault.takes; empty: the host that it is on
	// draw fills in what the fault is on, and by how much.
	draw func(p Plan, rng *rand.Rand, f *Fault)
	// begin makes it happen. What it returns ends it, and tells what it did.
	begin func(i *injector, f Fault) (end func() effect)
}

// effect is what a fault is known to have done: how often, and what. Without one it
// did not act.
type effect struct {
	n    int
	what string
}

// What faults have for themselves.
const (
	ofServers = "servers"
	ofClocks  = "clocks" // within what is allowed
	ofLinks   = "links"
	ofGossip  = "gossip"
)

// nemeses are all kinds of fault.
var nemeses = []nemesis{
	{Isolate, "a server from all others, in both directions; what is under way is held", 2, ofServers, onServer, isolate},
	{IsolateAll, "the same, from workers and callers too", 1, ofServers, onServer, isolateAll},
	{OneWay, "a server no longer hears the leader", 1, ofServers, onLeader, oneWay},
	{OneWayBack, "the leader no longer hears a server", 1, ofServers, onLeader, oneWayBack},
	{Deaf, "a server hears no other server", 1, ofServers, onServer, deaf},
	{Bridge, "the leader and another server only meet through the third", 1, ofServers, onLeader, bridge},
	{Refuse, "a server from all others by resets and refused connections, where others are by silence", 1, ofServers, onServer, refuse},
	{Delay, "between servers", 1, ofLinks, withDelay, delayed},
	{Loss, "packets of a server are lost and sent again", 1, ofLinks, onServer, lossy},
	{Resets, "connections of a server break", 1, ofServers, onServer, resets},
	{GossipLoss, "gossip loses most of what it is told", 1, ofGossip, onServer, gossipLoss},
	{GossipCut, "a server is out of gossip's reach, and only of that", 1, ofGossip, longGossip, gossipCut},
	{KillServer, "kill -9", 2, ofServers, onServer, killServers},
	{KillAll, "kill -9 of all servers at once", 1, ofServers, onAll, killServers},
	{PowerServer, "power off: what was not synced is lost", 2, ofServers, onServer, powerServers},
	{PowerAll, "the same with all servers at once", 1, ofServers, onAll, powerServers},
	{StopServer, "orderly: hands leadership over", 1, ofServers, onServer, stopServers},
	{Rolling, "all servers stopped and started one by one, the leader last", 1, ofServers, onAll, rolling},
	{Transfer, "of leadership, as an operator asks for it", 1, ofServers, onLeader, transfer},
	{TransferStorm, "of leadership, again and again", 1, ofServers, onAll, transferStorm},
	{SlowDisk, "each write to the log takes long", 1, ofServers, withSlowDisk, slowDisk},
	{DiskStall, "a write to the log does not return: the server ends", 1, ofServers, onServer, diskStall},
	{DiskError, "writes to the log fail: the server ends", 1, ofServers, onServer, diskError},
	{DiskFull, "no room is left: the server ends, and does not start before there is", 1, ofServers, onServer, diskFull},
	{TornTail, "power off while the log's end is written: the server refuses to start and is replaced", 1, ofServers, onServer, tornTail},
	{BitFlip, "a bit of the log flips: the server refuses to start and is replaced", 1, ofServers, onServer, bitFlip},
	{LostDisk, "a server comes back without its data", 1, ofServers, onServer, lostDisk},
	{Replace, "a server is removed from the cluster, and joins it anew", 1, ofServers, onServer, replace},
	{SnapshotSilent, "the sender of a snapshot falls silent in its middle", 1, ofServers, onServer, snapshotSilent},
	{SnapshotKilled, "the sender of a snapshot is killed in its middle", 1, ofServers, onServer, snapshotKilled},
	{SnapshotTorn, "the receiver of a snapshot loses power in its middle", 1, ofServers, onServer, snapshotTorn},
	{ClockStep, "a server's wall clock jumps within what is allowed, and back at the end", 1, ofClocks, withStep, clockStep},
	{ClockJump, "the same, by a minute", 1, ofServers, withJump, clockWrong},
	{ClockFar, "the same, by an hour", 1, ofServers, withHour, clockWrong},
	{ClockFrozen, "a server's wall clock stands still", 1, ofServers, withRate(-1), clockWrong},
	{ClockSlow, "a server's wall clock runs at half speed", 1, ofServers, withRate(-0.5), clockWrong},
	{ClockFast, "a server's wall clock runs at double speed", 1, ofServers, withRate(1), clockWrong},
	{WorkerCut, "a worker from all servers", 1, "", onWorker, workerCut},
	{KillWorker, "kill -9", 1, "", onWorker, killWorker},
	{PowerWorker, "power off", 1, "", onWorker, powerWorker},
	{StopWorker, "orderly: drains", 1, "", onWorker, stopWorker},
	{HangWorker, "cut off, and its handlers don't end", 1, "", onWorker, hangWorker},
	{ZombieWorker, "the same for longer than its lease, with results that come after another's", 1, "", asZombie, zombieWorker},
	{TwinWorker, "a second worker of the same name", 1, "", asTwin, twinWorker},
	{SlowCallbacks, "a receiver of callbacks answers after 8 s, never, or with 500; another one is well", 1, "", onSink, slowCallbacks},
}

// find returns the nemesis of a kind, nil if there is none.
func find(k Kind) *nemesis {
	for i := range nemeses {
		if nemeses[i].kind == k {
			return &nemeses[i]
		}
	}
	return nil
}

// Kinds lists the kinds of fault.
func Kinds() []Kind {
	var out []Kind
	for i := range nemeses {
		out = append(out, nemeses[i].kind)
	}
	return out
}

// About says in a line what a kind of fault is.
func (k Kind) About() string {
	if n := find(k); n != nil {
		return n.about
	}
	return fmt.Sprintf("no fault is called %q", string(k))
}

// onServer is on a server, half of the time on the leader.
func onServer(p Plan, rng *rand.Rand, f *Fault) {
	f.On = []string{p.servers()[rng.IntN(p.Servers)]}
	if rng.IntN(2) == 0 {
		f.On = []string{leaderName}
	}
}

func onLeader(_ Plan, _ *rand.Rand, f *Fault) { f.On = []string{leaderName} }
func onAll(p Plan, _ *rand.Rand, f *Fault)    { f.On = p.servers() }

func onWorker(p Plan, rng *rand.Rand, f *Fault) { f.On = []string{p.workers()[rng.IntN(p.Workers)]} }

// longestSick keeps the pauses between tries short enough that a run sees the end of
// them.
const longestSick = 45 * time.Second

func onSink(_ Plan, _ *rand.Rand, f *Fault) {
	f.On = []string{sinkHost}
	f.For = min(f.For, longestSick)
}

// What some faults need to show.
const (
	clockLook = 11 * time.Second // within which the leader looks at every server's wall clock
	forgotten = 13 * time.Second // after which gossip takes a member for dead
	leaseOver = 13 * time.Second // after which the attempts of a worker that is silent are lost
	nameTaken = 20 * time.Second // after which a worker knows that its name is taken
)

func withDelay(p Plan, rng *rand.Rand, f *Fault) {
	f.On = p.servers()
	f.By = within(rng, 5*time.Millisecond, 65*time.Millisecond)
}

func withSlowDisk(p Plan, rng *rand.Rand, f *Fault) {
	onServer(p, rng, f)
	f.By = within(rng, 10*time.Millisecond, 210*time.Millisecond)
}

// within draws a whole number of milliseconds.
func within(rng *rand.Rand, least, most time.Duration) time.Duration {
	return (least + time.Duration(rng.Int64N(int64(most-least)))).Round(time.Millisecond)
}

func longGossip(p Plan, rng *rand.Rand, f *Fault) {
	onServer(p, rng, f)
	f.For += forgotten
}

func withStep(p Plan, rng *rand.Rand, f *Fault) {
	withOffset(p, rng, f, within(rng, time.Millisecond, maxOffset))
}

func withJump(p Plan, rng *rand.Rand, f *Fault) { withOffset(p, rng, f, time.Minute) }
func withHour(p Plan, rng *rand.Rand, f *Fault) { withOffset(p, rng, f, time.Hour) }

// withOffset sets a server's clock forward or back.
func withOffset(p Plan, rng *rand.Rand, f *Fault, by time.Duration) {
	onServer(p, rng, f)
	f.For += clockLook
	f.By = by
	if rng.IntN(2) == 0 {
		f.By = -by
	}
}

func withRate(rate float64) func(Plan, *rand.Rand, *Fault) {
	return func(p Plan, rng *rand.Rand, f *Fault) {
		onServer(p, rng, f)
		f.For += clockLook
		f.Rate = rate
	}
}

func asZombie(p Plan, rng *rand.Rand, f *Fault) {
	onWorker(p, rng, f)
	f.For += leaseOver
}

func asTwin(p Plan, rng *rand.Rand, f *Fault) {
	onWorker(p, rng, f)
	f.For += nameTaken
}
