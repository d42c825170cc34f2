package chaos

import (
	"sync"
	"time"

	"github.com/axd-project/axd/job"
)

// Ledger is the history as the outside saw it: what callers were told, and what
// workers were made to run. All times are true ones, which no process knows.
type Ledger struct {
	mu       sync.Mutex
	attempts []*Attempt
	calls    []Call
	runs     []string // of workflows, that were acknowledged
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
}

// Verb says what a call asked for.
type Verb string

// The verbs.
const (
	Submit     Verb = "submit"
	Cancel     Verb = "cancel"
	Reschedule Verb = "reschedule"
	Look       Verb = "look"
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
	return append([]Call(nil), l.calls...)
}
