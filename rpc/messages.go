package rpc

import "bytes"

// Token is a fencing token on the wire: epoch, log index and offset, big-endian.
// Of one task's tokens the later is the greater.
type Token [16]byte

// IsZero reports whether it names no attempt.
func (t Token) IsZero() bool { return t == Token{} }

// Compare orders two tokens of one task.
func (t Token) Compare(o Token) int { return bytes.Compare(t[:], o[:]) }

// Ref names an attempt on the wire.
type Ref struct {
	Namespace string
	ID        [16]byte
	Attempt   uint32
	Token     Token
}

// The methods of a worker's session. The worker dials; both sides call.
const (
	MethodWorkerHello     = "worker.hello"     // worker → leader: WorkerHello, WorkerWelcome
	MethodWorkerHeartbeat = "worker.heartbeat" // worker → leader: Heartbeat, HeartbeatReply
	MethodWorkerStarted   = "worker.started"   // worker → leader, notify: Started
	MethodWorkerFinished  = "worker.finished"  // worker → leader: Finished, FinishedReply
	MethodWorkerGiveBack  = "worker.giveback"  // worker → leader: GiveBack, Empty
	MethodDispatch        = "worker.dispatch"  // leader → worker, notify: Dispatch
	MethodKill            = "worker.kill"      // leader → worker, notify: Kill
	MethodRevoke          = "worker.revoke"    // leader → worker, notify: Revoke
	MethodFollow          = "worker.follow"    // leader → worker, stream: Follow, chunks of Output
)

// The methods between servers, and from any process to a server.
const (
	MethodPropose   = "server.propose"   // to the leader: Propose, ProposeReply
	MethodReadIndex = "server.readindex" // to the leader: Empty, IndexReply
	MethodTerm      = "server.term"      // to a voter: Empty, TermReply
	MethodClock     = "server.clock"     // to a server: Empty, ClockReply
	MethodSum       = "server.sum"       // to a server: Empty, SumReply
	MethodLeader    = "server.leader"    // to any server: Empty, LeaderReply
	MethodJoin      = "server.join"      // a new server asks the leader to be added: Join, Empty
	MethodForm      = "server.form"      // a new server asks others to begin a cluster with it: Form, Empty
	MethodTail      = "server.tail"      // to the leader, stream: Follow, chunks of Output
)

// Empty is a message without content.
type Empty struct{}

// WorkerHello opens a session and declares what the worker holds.
type WorkerHello struct {
	Name    string            `msgpack:"n"`
	Boot    string            `msgpack:"b"` // random, once per process
	Address string            `msgpack:"a"` // for people: host:port of its gossip
	Slots   int               `msgpack:"s"`
	Labels  map[string]string `msgpack:"l,omitempty"`
	Version string            `msgpack:"v"`
	Kinds   []string          `msgpack:"k"`           // executors it offers: "exec", "http", "handler:NAME"
	Held    []Held            `msgpack:"h,omitempty"` // attempts accepted and not yet acknowledged as finished

	Priorities []uint8 `msgpack:"p,omitempty"` // that it takes, as job.Priority; none: all
}

// Held is an attempt that the worker knows.
type Held struct {
	Ref      Ref  `msgpack:"r"`
	Running  bool `msgpack:"u,omitempty"`
	Finished bool `msgpack:"f,omitempty"` // its result follows as worker.finished
}

// WorkerWelcome answers a hello. A server that isn't the leader answers with an
// error of code no_leader whose Leader field names the address to dial.
type WorkerWelcome struct {
	Term        uint64 `msgpack:"t"`
	LeaseMS     int64  `msgpack:"l"` // the lease's time to live
	HeartbeatMS int64  `msgpack:"h"`
	Lease       bool   `msgpack:"g"` // the hello itself renewed the lease
	NowUS       int64  `msgpack:"w"` // cluster clock, Unix µs, when answered
}

// Heartbeat renews the worker's lease.
type Heartbeat struct {
	Free    int `msgpack:"f"` // free slots
	Running int `msgpack:"r"`
}

// HeartbeatReply is sent only after the leader confirmed that it still leads.
// The worker counts the lease from when it sent the heartbeat.
type HeartbeatReply struct {
	Term  uint64 `msgpack:"t"`
	NowUS int64  `msgpack:"w"` // cluster clock, Unix µs
}

// Dispatch hands attempts to the worker. The assign was committed before.
type Dispatch struct {
	Term  uint64
	NowUS int64 // cluster clock, Unix µs, when sent
	Items []DispatchItem
}

// DispatchItem is one attempt to run. One that is due later than now by the
// cluster's clock is armed: the worker holds it without a slot and starts it by
// its own timer when it is due, if its lease holds and a slot is free then.
type DispatchItem struct {
	Ref          Ref
	Job          string
	JobVersion   uint64
	Executor     []byte // job.Executor as msgpack
	Payload      []byte
	DueMS        int64 // cluster clock
	TimeoutMS    int64 // of this attempt; 0: none
	EndByMS      int64 // until when it must be over whatever TimeoutMS says, cluster clock; 0: no limit
	HeartbeatMS  int64 // how long it may be silent; 0: it need not beat
	GraceMS      int64
	SuccessCodes []int
	Continue     bool // on_disconnect: continue
	MaxRetries   int
	Lesser       bool    // of less than high priority
	MostLesser   int     // attempts like it that may hold slots with it, so that the others stay free for high; 0: no limit
	Origin       *Origin // nil: somebody submitted it
}

// Origin tells what made the task of an attempt.
type Origin struct {
	Run       [16]byte // whose step it is; zero: none
	Step      string
	Schedule  string // that fired it
	NominalMS int64  // the time that it, or its run, was planned for; 0: none
}

// The reasons of a Kill.
const (
	KillCancel  = "cancelled" // somebody cancelled the task
	KillTimeout = "timeout"   // the leader's backstop
	KillDrain   = "drain"     // the worker drains, and its deadline has come: the attempt is given back
	KillStale   = "stale"     // the attempt's token is no longer valid
)

// Kill ends an attempt: TERM, grace, KILL. The worker answers with a finished, or
// gives it back.
type Kill struct {
	Ref    Ref    `msgpack:"r"`
	Reason string `msgpack:"y"`
}

// Revoke takes attempts back that are armed: the worker gives them back. Of what
// has started it takes no notice.
type Revoke struct {
	Refs []Ref `msgpack:"r"`
}

// Started reports attempts that run for a while; times are by the cluster's clock.
type Started struct {
	Items []StartedItem
}

// StartedItem is one attempt that runs.
type StartedItem struct {
	Ref  Ref
	AtMS int64
}

// Finished reports how attempts ended. The worker keeps each on disk and sends
// it again until it is answered.
type Finished struct {
	Results []FinishedResult
}

// FinishedResult is how one attempt ended.
type FinishedResult struct {
	Ref     Ref
	Result  []byte // fsm.AttemptResult as msgpack, opaque here
	Patient bool   // nothing is known to wait for it: it may be gathered with others
}

// FinishedReply tells what became of each result, by its place in the request.
// A result that is not mentioned is committed.
type FinishedReply struct {
	Refused []Refusal `msgpack:"r,omitempty"` // for good: the worker forgets it all the same
	Again   []Refusal `msgpack:"a,omitempty"` // not committed, or not known to be: the worker sends it again
}

// Refusal is a result that did not count.
type Refusal struct {
	At  int    `msgpack:"i"`
	Why string `msgpack:"y"`
}

// GiveBack returns attempts the worker did not start.
type GiveBack struct {
	Refs   []Ref  `msgpack:"r"`
	Reason string `msgpack:"y,omitempty"`
	Free   int    `msgpack:"f"` // free slots now
}

// Follow asks for an attempt's output as it comes. Token may be zero: the
// running attempt.
type Follow struct {
	Ref Ref `msgpack:"r"`
}

// Output is a piece of an attempt's output.
type Output struct {
	Stderr  bool   `msgpack:"e,omitempty"`
	Data    []byte `msgpack:"d"`
	Skipped int64  `msgpack:"s,omitempty"` // bytes dropped before Data, since the reader was slow
}

// Propose carries a command to the leader.
type Propose struct {
	Command []byte   `msgpack:"c"`           // fsm.EncodeCommand's form, opaque here
	Now     []Wanted `msgpack:"n,omitempty"` // of a submit: the tasks that may start at once
}

// Wanted says what tasks of a submit that may start at once need of a worker.
type Wanted struct {
	Namespace string            `msgpack:"n"`
	Job       string            `msgpack:"j,omitempty"`
	Offer     string            `msgpack:"o,omitempty"`
	Selector  map[string]string `msgpack:"s,omitempty"`
	Priority  uint8             `msgpack:"p,omitempty"`
	Tasks     []int             `msgpack:"t"` // their indexes in the submit
}

// ProposeReply carries the result back.
type ProposeReply struct {
	Result []byte `msgpack:"r"` // fsm.EncodeResult's form, opaque here
}

// IndexReply answers a read index: the reader may read once it applied Index.
type IndexReply struct {
	Index uint64 `msgpack:"i"`
}

// TermReply answers with the voter's current term.
type TermReply struct {
	Term uint64 `msgpack:"t"`
}

// ClockReply answers with a server's idea of the time, in Unix microseconds.
type ClockReply struct {
	WallUS    int64 `msgpack:"u"` // its wall clock
	VouchedUS int64 `msgpack:"v"` // the latest time that it vouches for
}

// SumReply answers with the hash chain that the newest checksum entry found.
type SumReply struct {
	Index uint64 `msgpack:"i"` // of the entry; 0: none yet
	Chain uint64 `msgpack:"c"`
}

// LeaderReply names the leader as the answering server knows it.
type LeaderReply struct {
	Name    string `msgpack:"n,omitempty"`
	Address string `msgpack:"a,omitempty"`
}

// Form asks a server without data to promise itself to a new cluster: to begin
// or join no other one.
type Form struct {
	ClusterID string   `msgpack:"c"`           // of the new cluster
	Servers   []string `msgpack:"s"`           // names, sorted
	Probe     bool     `msgpack:"p,omitempty"` // only tell whether it would
}

// Join asks the leader to add a server.
type Join struct {
	Name    string `msgpack:"n"`
	Address string `msgpack:"a"`
	Boot    string `msgpack:"b"` // random, once per process
}
