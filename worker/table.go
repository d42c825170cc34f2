package worker

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	maxOwed      = 16_384   // results and give-backs that wait for the leader; beyond it no work is taken
	maxOwedBytes = 64 << 20 // of results, ditto
	maxRecent    = 16_384   // acknowledged attempts remembered, to drop a dispatch that comes late
)

// taskKey names a task; a worker runs at most one attempt of each.
type taskKey struct {
	namespace string
	id        job.ID
}

func keyOf(ref rpc.Ref) taskKey { return taskKey{ref.Namespace, job.ID(ref.ID)} }

// attemptKey names an attempt.
type attemptKey struct {
	id    job.ID
	token rpc.Token
}

func attemptOf(ref rpc.Ref) attemptKey { return attemptKey{job.ID(ref.ID), ref.Token} }

// attempt is one dispatch that the worker holds. Fields below the line belong to
// the table's lock.
type attempt struct {
	item     rpc.DispatchItem
	executor job.Executor
	dir      attemptDir      // of a command
	ctx      context.Context // ends when the attempt must stop
	cancel   context.CancelCauseFunc

	began   time.Duration // local instant at which its lease was looked at; of the attempt's goroutine
	limit   timeLimit     // as of began
	adopted *adoption     // an earlier life of the worker has started it; nil: this one
	beat    atomic.Int64  // local instant of the latest heartbeat of a handler, in ns
	watched watched

	startKey time.Duration // while armed, what it waits for: Unix time, or a local instant where it is pinned
	place    int           // in the queue of armed attempts
	pinned   bool
	hub      *hub // passes its output on; nil: there is none, and nobody follows
	reason   stopReason
	over     bool     // it has ended and has no slot; its result is not owed yet
	started  int64    // cluster's Unix ms; 0: not yet
	told     bool     // the leader was told of the start
	next     *attempt // a newer one of the task, to start when this one is dead
}

// due is the Unix time before which the attempt must not start.
func (a *attempt) due() time.Duration { return time.Duration(a.item.DueMS) * time.Millisecond }

// table is what the worker holds: attempts, each with a slot, those that wait
// for their time without one, and what it owes the leader. Its methods decide; they start, send and log nothing.
type table struct {
	slots int

	running   sync.WaitGroup // a goroutine for each attempt; added to under the lock, so that a drain misses none
	mu        sync.Mutex
	attempts  map[taskKey]*attempt
	busy      int // slots that are taken
	lesser    int // of them, by attempts of less than high priority
	armed     armed
	alarmAt   time.Duration // when the alarm for armed attempts goes off
	owed      map[attemptKey]*owed
	owedBytes int
	unsent    []*owed // in the order in which they came
	recent    map[attemptKey]struct{}
	order     [maxRecent]attemptKey // ring of recent
	place     int
	past      pastOutputs
	draining  bool
	stats     Stats
	changed   chan struct{} // room for one: something is owed
	arrived   chan struct{} // closed when the next attempt arrives; nil: nobody waits
}

// Stats counts what a worker did since its start.
type Stats struct {
	Running    int    // attempts that hold a slot
	Armed      int    // attempts that wait for their time
	Free       int    // slots that may be filled
	Owed       int    // results and give-backs not yet acknowledged
	Started    uint64 // attempts
	Finished   uint64 // attempts, whatever their outcome
	GivenBack  uint64 // attempts
	Duplicates uint64 // dispatches dropped: the attempt runs or has ended already
}

func newTable(slots int) table {
	return table{
		slots: slots, attempts: map[taskKey]*attempt{}, owed: map[attemptKey]*owed{}, recent: map[attemptKey]struct{}{},
		armed: newArmed(), alarmAt: never, changed: make(chan struct{}, 1),
	}
}

func (t *table) signal() {
	select {
	case t.changed <- struct{}{}:
	default:
	}
}

func (t *table) free() int {
	ending := len(t.attempts) - t.busy
	if t.draining || len(t.owed)+ending >= maxOwed || t.owedBytes >= maxOwedBytes {
		return 0
	}
	return max(t.slots-t.busy, 0)
}

// verdict says what to do with a dispatched attempt.
type verdict int

const (
	verdictStart verdict = iota // the caller starts a goroutine that ends with running.Done
	verdictArmed                // it waits for its time
	verdictDuplicate
	verdictReplace // stop the old attempt; the new one waits for its end
	verdictNoSlot
	verdictTooManyArmed
	verdictDraining
)

// accept judges a dispatch, and takes a slot for it where it may start. early
// says that it is not due yet. An older attempt of the task is returned: one that
// runs, or one that was armed and is no more.
func (t *table) accept(a *attempt, early bool) (v verdict, old *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.judge(a, early)
}

func (t *table) judge(a *attempt, early bool) (v verdict, old *attempt) {
	key := keyOf(a.item.Ref)
	held, armed := t.attempts[key], t.armed.byTask[key]
	switch {
	case t.ended(attemptOf(a.item.Ref)), a.notNewer(held), a.notNewer(armed):
		t.stats.Duplicates++
		return verdictDuplicate, held
	case t.draining:
		return verdictDraining, held
	case held != nil:
		if !a.notNewer(held.next) {
			held.next = a
		}
		return verdictReplace, held
	case armed != nil:
		t.armed.remove(armed)
	}
	switch {
	case early && len(t.armed.byTask) >= maxArmed:
		return verdictTooManyArmed, armed
	case early:
		t.armed.add(a)
		v = verdictArmed
	case !t.mayHold(a):
		return verdictNoSlot, armed
	default:
		t.hold(a)
	}
	if t.arrived != nil {
		close(t.arrived)
		t.arrived = nil
	}
	return v, armed
}

// notNewer tells whether the attempt is not newer than one that is held.
func (a *attempt) notNewer(held *attempt) bool {
	return held != nil && a.item.Ref.Token.Compare(held.item.Ref.Token) <= 0
}

// ended tells whether an attempt is over, as far as the table remembers.
func (t *table) ended(key attemptKey) bool {
	_, recently := t.recent[key]
	return recently || t.owed[key] != nil
}

// mayHold tells whether a slot is free for an attempt: some may be kept for others.
func (t *table) mayHold(a *attempt) bool {
	return t.free() > 0 && (a.item.MostLesser == 0 || t.lesser < a.item.MostLesser)
}

// hold gives an attempt a slot.
func (t *table) hold(a *attempt) {
	t.attempts[keyOf(a.item.Ref)] = a
	t.busy++
	if a.item.Lesser {
		t.lesser++
	}
	t.running.Add(1)
}

// resume gives a slot to an attempt of an earlier life, whether or not there is one.
func (t *table) resume(a *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hold(a)
}

// arrival returns what is closed when the next attempt has a slot.
func (t *table) arrival() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.arrived == nil {
		t.arrived = make(chan struct{})
	}
	return t.arrived
}

// find returns the attempt that a message names; an empty token means the
// running one.
func (t *table) find(ref rpc.Ref) *attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	a := t.attempts[keyOf(ref)]
	if a == nil || !ref.Token.IsZero() && ref.Token != a.item.Ref.Token {
		return nil
	}
	return a
}

// output returns where an attempt's output is, and which attempt that is: of one
// that is held, or that has ended a moment ago.
func (t *table) output(ref rpc.Ref, room *headRoom) (rpc.Ref, *hub) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range []*attempt{t.attempts[keyOf(ref)], t.armed.byTask[keyOf(ref)]} {
		if a != nil && (ref.Token.IsZero() || ref.Token == a.item.Ref.Token) {
			if a.hub == nil { // a handler has no output, but who follows waits for its end
				a.hub = newHub(room)
			}
			return a.item.Ref, a.hub
		}
	}
	if o := t.owing(ref); o != nil {
		return o.Ref, o.hub
	}
	return ref, t.past.find(ref)
}

// stop asks an attempt to end; the first reason counts.
func (t *table) stop(a *attempt, reason stopReason) {
	t.mu.Lock()
	first := a.reason == stopNone
	if first {
		a.reason = reason
	}
	t.mu.Unlock()
	if first {
		a.cancel(stopCause(reason))
	}
}

func (t *table) reasonOf(a *attempt) stopReason {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.reason
}

// stopCause is what a handler finds with context.Cause.
func stopCause(reason stopReason) error {
	switch reason {
	case stopTimeout:
		return errors.New("the attempt's time-out has passed")
	case stopTotal:
		return errors.New("the task's total time-out has passed")
	case stopSilent:
		return errors.New("the attempt was silent for longer than its heartbeat time-out")
	case stopCancel:
		return errors.New("the task was cancelled")
	case stopStale:
		return errors.New("the attempt is no longer valid")
	case stopLease:
		return errors.New("the worker has lost contact with the leader")
	case stopDrain:
		return errors.New("the worker drains")
	}
	return errors.New("the attempt was stopped")
}

// markStarted notes the start.
func (t *table) markStarted(a *attempt, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.started = at
	t.stats.Started++
}

// startedBefore notes when an attempt of an earlier life has started, as the leader
// may have been told.
func (t *table) startedBefore(a *attempt, at int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.started = at
}

func (t *table) startedAt(a *attempt) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.started
}

// release frees the slot of an attempt that has ended. It stays in the table until
// its result is owed.
func (t *table) release(a *attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a.over = true
	t.busy--
	if a.item.Lesser {
		t.lesser--
	}
}

// settle ends an attempt: what it came to is owed from now on. A newer attempt
// that waited is judged at once, at the cluster's time now, and returned: were it
// out of the table for a moment, a wish to end it would find nothing.
func (t *table) settle(a *attempt, e spooled, now time.Duration) (next *attempt, v verdict) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.attempts, keyOf(a.item.Ref))
	e.patient = t.patient(a)
	t.owe(e, a.hub)
	if a.next == nil {
		return nil, 0
	}
	v, _ = t.judge(a.next, a.next.due() > now)
	return a.next, v
}

// patient tells whether the end of an attempt may be told of a little later: no step
// waits for it, and there are slots for those that wait for one.
func (t *table) patient(a *attempt) bool {
	step := a.item.Origin != nil && a.item.Origin.Run != [16]byte{}
	return !step && t.busy+len(t.owed) < t.slots/2
}

// held declares what a session begins with.
func (t *table) held() []rpc.Held {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := make([]rpc.Held, 0, len(t.attempts)+len(t.armed.byTask)+len(t.owed))
	for _, a := range t.attempts {
		held = append(held, rpc.Held{Ref: a.item.Ref, Running: a.started != 0})
		if a.next != nil {
			held = append(held, rpc.Held{Ref: a.next.item.Ref})
		}
	}
	for _, a := range t.armed.byTask {
		held = append(held, rpc.Held{Ref: a.item.Ref})
	}
	for _, o := range t.owed {
		held = append(held, rpc.Held{Ref: o.Ref, Finished: o.GiveBack == ""})
	}
	return held
}

// starts lists running attempts that the leader was told of, to tell it again
// in a new session.
func (t *table) starts() []rpc.StartedItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []rpc.StartedItem
	for _, a := range t.attempts {
		if a.told && !a.over {
			out = append(out, rpc.StartedItem{Ref: a.item.Ref, AtMS: a.started})
		}
	}
	return out
}

// drain stops taking and returns what runs.
func (t *table) drain() []*attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.draining = true
	running := make([]*attempt, 0, len(t.attempts))
	for _, a := range t.attempts {
		if !a.over {
			running = append(running, a)
		}
	}
	return running
}

func (t *table) counts() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Running, s.Armed, s.Free, s.Owed = t.busy, len(t.armed.byTask), t.free(), len(t.owed)
	return s
}
