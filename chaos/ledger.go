package chaos

import (
	"slices"
	"sync"
	"time"

	"github.com/axd-project/axd/job"
)

// Ledger is the history as the outside saw it: what callers were told, and what
// workers were made to run. All times are true ones, which no process knows.
type Ledger struct {
	mu         sync.Mutex
	attempts   []*Attempt
	calls      []Call
	deliveries []Delivery
	writes     []Write
	kept       map[string]job.Token // of each task, by the resource that its handlers write to
	plan       Plan
	troubles   []Trouble
}

// Trouble is a time in which a fault acted, or something ended by itself.
type Trouble struct {
	Kind        Kind // empty: by itself
	From, Until time.Time
}

// Attempt is one run of a handler.
type Attempt struct {
	Task       string
	Number     int
	Token      job.Token
	Worker     string
	Life       int // of the worker
	Due        time.Time
	Start, End time.Time // End is zero while it runs
	OK         bool
	Frozen     bool // the process was held, so it could not end in time
	Job        string
	Payload    string
	RetryIn    time.Duration // after which the handler asked to be tried again
	Permanent  bool          // it asked not to be
	Silent     bool          // its handler gave no heartbeat
}

// Write is an attempt's write to a resource that keeps the highest token of each task.
type Write struct {
	Task  string
	Token job.Token
	Taken bool
}

// Delivery is a request that came to the callbacks' receiver.
type Delivery struct {
	ID    string // of the callback
	Task  string
	State string // of the task, as the request tells
	At    time.Time
	Taken bool // the receiver answered that it has it; the answer may have been lost
}

// Verb says what a call asked for.
type Verb string

// The verbs.
const (
	Submit     Verb = "submit"
	Cancel     Verb = "cancel"
	Reschedule Verb = "reschedule"
	Look       Verb = "look"

	SubmitUnique Verb = "submit-unique"
	Replay       Verb = "replay"
	Discard      Verb = "discard"

	StartRun     Verb = "start-run"
	CancelRun    Verb = "cancel-run"
	Rerun        Verb = "rerun"
	RerunStep    Verb = "rerun-step"
	SkipStep     Verb = "skip-step"
	ForceSuccess Verb = "force-success"

	SendEvent Verb = "send-event"
	Trigger   Verb = "trigger"
	Pause     Verb = "pause"
	Resume    Verb = "resume"
	Change    Verb = "change"
)

// Call is one call of a client with its answer.
type Call struct {
	Verb          Verb
	Task          string // known from the start, or from the answer to a submit
	Key           string // idempotency key
	Body          int    // which body was sent under the key
	Delay         time.Duration
	Begun, Ended  time.Time
	Code          job.Code // of the error; empty: acknowledged
	State         string   // of the task in the answer
	Due           time.Time
	Deduplicated  bool
	CancelPending bool // the cancel waits for the attempt's end
	MovePending   bool // the reschedule waits until a worker gives the task back

	Object string // the run, schedule or event that the call is about
	Arg    string // the step; of a start the parameters; of an event its dedup id
}

func (l *Ledger) start(a Attempt) *Attempt {
	a.Start = time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.attempts = append(l.attempts, &a)
	return &a
}

func (l *Ledger) end(a *Attempt, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.End.IsZero() { // a crash has ended it before
		a.End, a.OK = time.Now(), ok
	}
}

// write is what a handler does outside: a resource that keeps the highest token of
// each task refuses what comes with a lower one.
func (l *Ledger) write(a *Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil {
		l.kept = map[string]job.Token{}
	}
	w := Write{Task: a.Task, Token: a.Token, Taken: a.Token.Compare(l.kept[a.Task]) >= 0}
	if w.Taken {
		l.kept[a.Task] = a.Token
	}
	l.writes = append(l.writes, w)
}

// Writes returns what was written to the guarded resource, in order.
func (l *Ledger) Writes() []Write {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.writes)
}

func (l *Ledger) advised(a *Attempt, in time.Duration, never bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.RetryIn, a.Permanent = in, never
}

func (l *Ledger) delivered(d Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deliveries = append(l.deliveries, d)
}

// Deliveries returns what the callbacks' receiver got, in order.
func (l *Ledger) Deliveries() []Delivery {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.deliveries)
}

func (l *Ledger) troubled(kind Kind, from time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.troubles = append(l.troubles, Trouble{kind, from, time.Now()})
}

// Troubles returns when something was wrong.
func (l *Ledger) Troubles() []Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.troubles)
}

func (l *Ledger) froze(a *Attempt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Frozen = true
}

// crash ends all attempts of a worker's life.
func (l *Ledger) crash(worker string, life int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if a.Worker == worker && a.Life == life && a.End.IsZero() {
			a.End = time.Now()
		}
	}
}

func (l *Ledger) called(c Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

// Attempts returns the attempts in the order of their starts.
func (l *Ledger) Attempts() []Attempt {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Attempt, len(l.attempts))
	for i, a := range l.attempts {
		out[i] = *a
	}
	return out
}

// Calls returns the calls in the order in which they were answered.
func (l *Ledger) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}
