package worker

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

const (
	maxOwed   = 16_384 // results and give-backs that wait for the leader; beyond it no work is taken
	maxRecent = 16_384 // acknowledged attempts remembered, to drop a dispatch that comes late
)

// taskKey names a task; a worker runs at most one attempt of each.
type taskKey struct {
	namespace string
	id        job.ID
}

func keyOf(ref rpc.Ref) taskKey { return taskKey{ref.Namespace, job.ID(ref.ID)} }

// attempt is one dispatch that the worker holds. Fields below the line belong to
// the table's lock.
type attempt struct {
	item     rpc.DispatchItem
	executor job.Executor
	dir      attemptDir // "" without a data directory
	hub      *hub
	ctx      context.Context // ends when the attempt must stop
	cancel   context.CancelCauseFunc

	startKey time.Duration // while armed, what it waits for: Unix time, or a local instant where it is pinned
	place    int           // in the queue of armed attempts
	pinned   bool
	reason   stopReason
	started  int64             // cluster's Unix ms; 0: not yet
	told     bool              // the leader was told of the start
	next     *rpc.DispatchItem // a newer attempt of the task, to start when this one is dead
}

// due is the Unix time before which the attempt must not start.
func (a *attempt) due() time.Duration { return time.Duration(a.item.DueMS) * time.Millisecond }

// table is what the worker holds: attempts, each with a slot, those that wait
// for their time without one, and what it owes the leader. Its methods decide; they start, send and log nothing.
type table struct {
	slots int

	running  sync.WaitGroup // a goroutine for each attempt; added to under the lock, so that a drain misses none
	mu       sync.Mutex
	attempts map[taskKey]*attempt
	armed    armed
	alarmAt  time.Duration    // when the alarm for armed attempts goes off
	owed     map[string]*owed // by refName
	recent   map[string]bool
	order    [maxRecent]string // ring of recent
	place    int
	past     pastOutputs
	draining bool
	stats    Stats
	changed  chan struct{} // room for one: something is owed, or nothing runs any more
	arrived  chan struct{} // closed when the next attempt arrives; nil: nobody waits
}

// owed is a result or a give-back until the leader has acknowledged it.
type owed struct {
	spooled
	session *session      // that sends it at the moment; nil: none
	hub     *hub          // has what is kept of its output; nil: nothing
	done    chan struct{} // closed once it is acknowledged
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
		slots: slots, attempts: map[taskKey]*attempt{}, owed: map[string]*owed{}, recent: map[string]bool{},
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
	if t.draining || len(t.owed) >= maxOwed {
		return 0
	}
	return max(t.slots-len(t.attempts), 0)
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
	name, key := refName(a.item.Ref), keyOf(a.item.Ref)
	held, armed := t.attempts[key], t.armed.byTask[key]
	switch {
	case t.owed[name] != nil || t.recent[name], a.notNewer(held), a.notNewer(armed):
		t.stats.Duplicates++
		return verdictDuplicate, held
	case t.draining:
		return verdictDraining, held
	case held != nil:
		if held.next == nil || held.next.Ref.Token < a.item.Ref.Token {
			held.next = &a.item
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
	case t.free() == 0:
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
	return held != nil && a.item.Ref.Token <= held.item.Ref.Token
}

// hold gives an attempt a slot.
func (t *table) hold(a *attempt) {
	t.attempts[keyOf(a.item.Ref)] = a
	t.running.Add(1)
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
	if a == nil || ref.Token != "" && ref.Token != a.item.Ref.Token {
		return nil
	}
	return a
}

// output returns where an attempt's output is, and which attempt that is: of one
// that runs, or that has ended a moment ago.
func (t *table) output(ref rpc.Ref) (rpc.Ref, *hub) {
	if a := t.find(ref); a != nil {
		return a.item.Ref, a.hub
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.armed.byTask[keyOf(ref)]; a != nil && (ref.Token == "" || ref.Token == a.item.Ref.Token) {
		return a.item.Ref, a.hub
	}
	if o := t.owing(ref); o != nil {
		return o.Ref, o.hub
	}
	return ref, t.past.find(ref)
}

func (t *table) owing(ref rpc.Ref) *owed {
	for _, o := range t.owed {
		if keyOf(o.Ref) == keyOf(ref) && (ref.Token == "" || ref.Token == o.Ref.Token) {
			return o
		}
	}
	return nil
}

// unacknowledged returns what is closed when the leader has taken an attempt
// that has ended; nil where nothing is owed for it.
func (t *table) unacknowledged(ref rpc.Ref) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if o := t.owing(ref); o != nil {
		return o.done
	}
	return nil
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
	case stopCancel:
		return errors.New("the task was cancelled")
	case stopStale:
		return errors.New("the attempt is no longer valid")
	case stopLease:
		return errors.New("the worker has lost contact with the leader")
	case stopDrain:
		return errors.New("the worker stops")
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

func (t *table) startedAt(a *attempt) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return a.started
}

// settle ends an attempt: its slot is free, and what it came to is owed, before
// the leader can hear of it. A newer attempt that waited is returned.
func (t *table) settle(a *attempt, e *spooled) (next *rpc.DispatchItem) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.attempts, keyOf(a.item.Ref))
	if e != nil {
		t.owe(*e)
		t.owed[refName(e.Ref)].hub = a.hub
	}
	t.signal()
	return a.next
}

func (t *table) owe(e spooled) {
	t.owed[refName(e.Ref)] = &owed{spooled: e, done: make(chan struct{})}
	if e.GiveBack != "" {
		t.stats.GivenBack++
	} else {
		t.stats.Finished++
	}
	t.signal()
}

// add notes something owed that never had a slot. Where too much is owed
// already it is dropped: the leader finds out when the session begins anew.
func (t *table) add(e spooled) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.owed) >= 2*maxOwed {
		return false
	}
	t.owe(e)
	return true
}

// take hands entries to a session to send, at most limit.
func (t *table) take(s *session, limit int) []spooled {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []spooled
	for _, o := range t.owed {
		if len(out) >= limit {
			break
		}
		if o.session != s {
			o.session = s
			out = append(out, o.spooled)
		}
	}
	return out
}

// acknowledged forgets what the leader has taken.
func (t *table) acknowledged(ref rpc.Ref) {
	t.mu.Lock()
	defer t.mu.Unlock()
	name := refName(ref)
	o := t.owed[name]
	if o == nil {
		return
	}
	delete(t.owed, name)
	if o.hub != nil {
		t.past.keep(ref, o.hub)
	}
	close(o.done)
	t.signal()
	delete(t.recent, t.order[t.place])
	t.recent[name], t.order[t.place] = true, name
	t.place = (t.place + 1) % maxRecent
}

// held declares what a session begins with.
func (t *table) held() []rpc.Held {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := make([]rpc.Held, 0, len(t.attempts)+len(t.armed.byTask)+len(t.owed))
	for _, a := range t.attempts {
		held = append(held, rpc.Held{Ref: a.item.Ref, Running: a.started != 0})
		if a.next != nil {
			held = append(held, rpc.Held{Ref: a.next.Ref})
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
func (t *table) starts() []rpc.Started {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []rpc.Started
	for _, a := range t.attempts {
		if a.told {
			out = append(out, rpc.Started{Ref: a.item.Ref, AtMS: a.started})
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
		running = append(running, a)
	}
	return running
}

func (t *table) counts() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.stats
	s.Running, s.Armed, s.Free, s.Owed = len(t.attempts), len(t.armed.byTask), t.free(), len(t.owed)
	return s
}
