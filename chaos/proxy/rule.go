package proxy

import "time"

// Plane is a kind of traffic between two processes.
type Plane int

// The planes.
const (
	RPC Plane = iota // Raft, calls, workers' sessions
	Gossip
	planes
)

// Mode is what becomes of traffic.
type Mode int

// The modes.
const (
	Pass Mode = iota
	// Cut lets nothing through and tells nobody: connections stay open and are read
	// no more, new ones hang, datagrams vanish. What connections held goes on once
	// it ends, as TCP has it.
	Cut
	// Reset ends connections, old and new, so that both sides know at once.
	Reset
)

// Rule says what becomes of what one process sends to another.
type Rule struct {
	Mode          Mode
	Delay, Jitter time.Duration // how long it is under way: Delay, and up to Jitter more
	Loss          float64       // share of datagrams that vanish, 0 to 1
	Bandwidth     int           // bytes a second on each connection; 0: no bound
}

// Counts is what happened to what one process sent to another.
type Counts struct {
	Passed    int64 // bytes
	Held      int64 // bytes, connections and ends of connections that a cut caught
	Resets    int64 // connections
	Datagrams int64 // that passed
	Dropped   int64 // datagrams that did not
	Delayed   int64 // bytes and datagrams that a delay or a bandwidth held up
}

// Add sums counts up.
func (c Counts) Add(o Counts) Counts {
	return Counts{
		Passed: c.Passed + o.Passed, Held: c.Held + o.Held, Resets: c.Resets + o.Resets,
		Datagrams: c.Datagrams + o.Datagrams, Dropped: c.Dropped + o.Dropped, Delayed: c.Delayed + o.Delayed,
	}
}

// Acted counts what a rule other than plain passing did.
func (c Counts) Acted() int64 { return c.Held + c.Resets + c.Dropped + c.Delayed }
