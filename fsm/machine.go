package fsm

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

// What this build can apply and read.
const (
	// Format numbers the layout of keys and rows.
	Format uint32 = 1
	// FeatureLevel is the highest level that a Configure may raise the cluster to
	// while this build is part of it.
	FeatureLevel uint32 = 1
)

// The limits of what a machine remembers of state. What goes beyond is read
// again.
const (
	maxCachedCounters = 1 << 14
	maxCachedJobs     = 1 << 12
	maxCachedWorkers  = 1 << 12
	maxCachedActive   = 1 << 14
)

// Machine applies entries to state. It holds only caches of state, which never
// change a result; Reset drops them. It is used by one goroutine.
type Machine struct {
	codec *codec
	key   key    // scratch
	value []byte // scratch

	loaded   bool
	meta     metaRow
	chain    uint64
	settings job.Settings
	low      [job.Low + 1][]byte // low marks by priority; nil: none
	counters map[string]*counter
	changed  []*counter // since the last flush
	jobs     map[jobName]*Job
	workers  map[string]*Worker
	active   map[TaskRef]heldTask
	keys     keyFilter
	breakers map[BreakerKey]Breaker // nil: not read yet

	awaited      map[upstream]int // what schedules wait for, by how many of them
	dependencies int              // of all schedules together

	runs       map[RunRef]*heldRun
	heldSteps  int // in runs
	graphs     map[graphKey]*graph
	graphSteps int
}

type jobName struct{ namespace, name string }

// heldTask is a task that a worker holds, with its current attempt.
type heldTask struct {
	task    *Task
	attempt *Attempt // nil: not remembered
}

// NewMachine returns a machine for a state.
func NewMachine() *Machine {
	m := &Machine{codec: newCodec()}
	m.Reset()
	return m
}

// Reset drops everything remembered from state. Call it after the state was
// replaced under the machine (a snapshot installed, a restore), and after a
// transaction that Apply wrote to was discarded.
func (m *Machine) Reset() {
	m.loaded = false
	m.counters = map[string]*counter{}
	m.changed = nil
	m.jobs = map[jobName]*Job{}
	m.workers = map[string]*Worker{}
	m.active = map[TaskRef]heldTask{}
	m.keys = keyFilter{}
	m.breakers = nil
	m.runs, m.heldSteps = map[RunRef]*heldRun{}, 0
	m.graphs, m.graphSteps = map[graphKey]*graph{}, 0
}

// Apply applies one encoded Entry and returns one result per command, and
// events. Several entries may be applied to one transaction.
//
// An entry at or below the state's applied index was applied before: it is
// skipped, with nil results. That makes replaying the log safe.
//
// An error means that this build can't apply the entry (it can't be decoded,
// holds an unknown command, or raises the feature level beyond the build's):
// another version wrote it. The caller discards the transaction and ends the
// process with that text; the machine has dropped what it remembered. A command
// whose code is known but whose content can't be read is no such error: its
// result says invalid.
func (m *Machine) Apply(tx Tx, meta Meta, entry []byte) ([]Result, []Event, error) {
	if err := m.load(tx); err != nil {
		return nil, nil, err
	}
	if meta.Index <= m.meta.Applied {
		return nil, nil, nil
	}
	results, events, err := m.apply(tx, meta, entry)
	if err != nil {
		m.Reset()
		return nil, nil, fmt.Errorf("log entry %d: %w", meta.Index, err)
	}
	return results, events, nil
}

func (m *Machine) apply(tx Tx, meta Meta, encoded []byte) ([]Result, []Event, error) {
	entry, err := DecodeEntry(encoded)
	if err != nil {
		return nil, nil, err
	}
	for i, c := range entry.Commands {
		if !known(c) {
			return nil, nil, fmt.Errorf("command %d has the unknown code %x: it needs a newer axd", i, byte(CodeOf(c)))
		}
	}
	now, attested, ok := m.clock(&entry)
	a := &apply{Machine: m, tx: tx, at: meta, now: now}
	a.begin()
	a.meta.Attested = attested
	results := make([]Result, len(entry.Commands))
	for i, b := range entry.Commands {
		if !ok {
			results[i] = rejected(errAhead)
			continue
		}
		c, err := decodeCommand(m.codec, b)
		if err != nil {
			results[i] = rejected(job.Errorf(job.CodeInvalid, err.Error()))
			continue
		}
		results[i] = a.command(c)
		if len(a.busy) > 0 {
			a.advance()
		}
		if a.unsupported != nil {
			return nil, nil, a.unsupported
		}
	}
	a.finish()
	return results, a.events, nil
}

// load reads what every entry needs, once.
func (m *Machine) load(r Reader) error {
	if m.loaded {
		return nil
	}
	if err := CheckFormat(r); err != nil {
		return err
	}
	m.meta = readMeta(r)
	m.chain = readChain(r)
	m.settings = ReadSettings(r)
	m.readAwaited(r)
	for _, p := range job.Priorities {
		m.low[p] = readLow(r, p)
	}
	m.loaded = true
	return nil
}

// CheckFormat returns an error when a newer axd wrote the state, or raised the
// feature level beyond this build. Call it before anything else is read.
func CheckFormat(r Reader) error {
	m := readMeta(r)
	if m.Format > Format {
		return fmt.Errorf("the state has format %d, this axd reads up to %d: use the newer axd that wrote it", m.Format, Format)
	}
	if m.FeatureLevel > FeatureLevel {
		return fmt.Errorf("the cluster is at feature level %d, this axd knows up to %d: use a newer axd", m.FeatureLevel, FeatureLevel)
	}
	return nil
}

func metaKey(row byte) key { return key{tableMeta, row} }

func readMeta(r Reader) metaRow {
	var m metaRow
	if b, ok := r.Get(metaKey(metaState)); ok {
		c := codecs.Get().(*codec)
		defer codecs.Put(c)
		mustDecode(c, metaKey(metaState), b, &m)
	}
	return m
}

func readChain(r Reader) uint64 {
	if b, ok := r.Get(metaKey(metaChain)); ok && len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// readLow returns the low mark of a priority, nil when it has none.
func readLow(r Reader, p job.Priority) []byte {
	if b, ok := r.Get(key{}.low(p)); ok {
		return append([]byte{}, b...)
	}
	return nil
}

// apply is the work on one entry.
type apply struct {
	*Machine
	tx     Tx
	at     Meta
	now    int64  // the entry's time, Unix ms
	offset uint32 // of the next id or token within the entry
	events []Event
	hash   xxhash.Digest
	rows   int // written so far

	busy        []*heldRun // touched by the command
	changedRuns []*heldRun // by the entry
	// schedules are those that the entry has looked at; see heldSchedule.
	schedules map[ScheduleRef]*heldSchedule

	actor, from string // who sent the command; see By
	noted       uint32 // audit records of the entry

	unsupported error // this build can't apply the entry
}

func (a *apply) begin() {
	a.hash.Reset()
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], a.chain)
	_, _ = a.hash.Write(seed[:]) // a Digest never fails
}

// finish writes what an entry changes once, whatever its commands.
func (a *apply) finish() {
	a.flushRuns()
	a.flushSchedules()
	a.flushCounters()
	a.keys.grow(a.tx)
	a.meta.Format = max(a.meta.Format, Format)
	a.meta.Applied = a.at.Index
	a.meta.Clock = a.now
	a.value = appendMeta(a.value[:0], &a.meta)
	a.set(append(a.key[:0], metaKey(metaState)...), a.value)
	a.chain = a.hash.Sum64()
	a.tx.Set(metaKey(metaChain), binary.BigEndian.AppendUint64(nil, a.chain))
	a.trim()
}

// trim keeps the caches bounded. Dropping all is rare and costs reads only.
func (a *apply) trim() {
	if len(a.counters) > maxCachedCounters {
		a.counters = map[string]*counter{}
	}
	if len(a.jobs) > maxCachedJobs {
		a.jobs = map[jobName]*Job{}
	}
	if len(a.workers) > maxCachedWorkers {
		a.workers = map[string]*Worker{}
	}
	if len(a.active) > maxCachedActive {
		a.active = map[TaskRef]heldTask{}
	}
}

// The operations that the hash chain tells apart.
const (
	opSet    byte = 1
	opDelete byte = 2
)

func (a *apply) set(k key, v []byte) {
	a.rows++
	a.feed(opSet, k, v)
	a.tx.Set(k, v)
}

func (a *apply) delete(k key) {
	a.rows++
	a.feed(opDelete, k, nil)
	a.tx.Delete(k)
}

// feed adds a write to the hash chain. Lengths go first, so that no two
// sequences of writes read the same.
func (a *apply) feed(op byte, k key, v []byte) {
	var head [9]byte
	head[0] = op
	binary.BigEndian.PutUint32(head[1:], uint32(len(k))) //nolint:gosec // keys are short
	binary.BigEndian.PutUint32(head[5:], uint32(len(v))) //nolint:gosec // values are bounded by an entry
	_, _ = a.hash.Write(head[:])
	_, _ = a.hash.Write(k)
	_, _ = a.hash.Write(v)
}

// next numbers the ids and tokens of an entry.
func (a *apply) next() uint32 {
	n := a.offset
	a.offset++
	return n
}

func (a *apply) event(e Event) { a.events = append(a.events, e) }

func rejected(err *job.Error) Result { return Result{Err: err} }

// command applies one command, and records it where it is an act that changed
// something.
func (a *apply) command(c Command) Result {
	r := a.verb(c)
	if r.Changed && r.Err == nil {
		if act, ok := c.(Acting); ok {
			a.note(act, &r)
		}
	}
	return r
}

// verb applies one command. To add a verb, add a line.
func (a *apply) verb(c Command) Result {
	switch c := c.(type) {
	case *Configure:
		return a.configure(c)
	case *PutJob:
		return a.putJob(c)
	case *DeleteJob:
		return a.deleteJob(c)
	case *PauseJob:
		return a.pauseJob(c)
	case *Submit:
		return a.submit(c, nil)
	case *SubmitNow:
		return a.submitNow(c)
	case *Assign:
		return a.assign(c)
	case *Started:
		return a.started(c)
	case *Finished:
		return a.finished(c)
	case *GiveBack:
		return a.giveBack(c)
	case *LoseAttempts:
		return a.loseAttempts(c)
	case *TimeOut:
		return a.timeOut(c)
	case *Cancel:
		return a.cancel(c)
	case *Reschedule:
		return a.reschedule(c)
	case *RegisterWorker:
		return a.registerWorker(c)
	case *WorkerState:
		return a.workerState(c)
	case *DrainWorker:
		return a.drainWorker(c)
	case *ForgetWorker:
		return a.forgetWorker(c)
	case *Expire:
		return a.expire(c)
	case *Checksum:
		return a.checksum()
	case *DeadLetters:
		return a.deadLetters(c)
	case *ContinueDead:
		return a.continueDead(c)
	case *CancelDeadAct:
		return a.cancelDeadAct(c)
	case *PutSecret:
		return a.putSecret(c)
	case *DeleteSecret:
		return a.deleteSecret(c)
	case *PutAlert:
		return a.putAlert(c)
	case *EndAlert:
		return a.endAlert(c)
	case *CallbackTried:
		return a.callbackTried(c)
	case *Redeliver:
		return a.redeliver(c)
	}
	for _, verbs := range []func(Command) (Result, bool){a.runCommand, a.calendarCommand, a.broadcastCommand, a.byCommand, a.scheduleCommand} {
		if r, ok := verbs(c); ok {
			return r
		}
	}
	panic(fmt.Sprintf("fsm: no verb for %T", c)) // newCommand and this switch disagree
}
