package fsm

import (
	"bytes"
	"encoding/binary"

	"github.com/axd-project/axd/job"
)

// The tables. A key is the table's byte, then its components: a name ends with
// a NUL byte (names hold none), an integer is big-endian, an id is its 16 raw
// bytes, a state or priority one byte. So rows sort by their components, and no
// name's rows are ever taken for those of a longer name. Values are msgpack
// unless said otherwise. The bytes are part of the format: append, never reuse.
const (
	// tableMeta: one byte → what the whole state shares; see the meta* keys.
	tableMeta byte = 0x01
	// tableJobs: namespace, name → Job in its newest version.
	tableJobs byte = 0x02
	// tableJobVersions: namespace, name, version (8) → Job as of that version;
	// the last MaxJobVersions are kept.
	tableJobVersions byte = 0x03
	// tableTasks: namespace, id → Task.
	tableTasks byte = 0x04
	// tableBodies: namespace, id → Body; only where Task.HasBody, see maxInlineBody.
	tableBodies byte = 0x05
	// tableDue: priority, due (8, Unix ms), id, namespace → one byte, 1 for a
	// retry; of a task under limits or with a fairness key its Hint (8) too. Exactly the pending tasks.
	tableDue byte = 0x06
	// tableByState: namespace, state, id → empty. Exactly the terminal tasks: the
	// pending ones are in tableDue, the active ones in tableActive.
	tableByState byte = 0x07
	// tableByJob: namespace, job, id → empty. Every task of a job, also of one
	// deleted since.
	tableByJob byte = 0x08
	// tableCounters: the number of tasks (8), by
	//   'g', state                  of all namespaces
	//   'n', namespace, state       of a namespace
	//   'j', namespace, job, state  of a job
	// and that of dead letters, by 'd'; 'e', namespace; 'f', namespace, job; of
	// schedules, by 'S', namespace (empty: of all), of those that did not fire, by 'M'; of
	// rows of tableFires, by 'F', and of those that went before their time, by 'D'; of
	// successes in tableDone, by 'U'; of calendars, by
	// 'K', namespace; of audit records, by 'u'; of
	// events, by 'E'.
	// A count of zero has no row.
	tableCounters byte = 0x09
	// tableAttempts: namespace, id, number (4) → Attempt; the last MaxAttempts
	// of a task are kept.
	tableAttempts byte = 0x0a
	// tableWorkers: name → Worker.
	tableWorkers byte = 0x0b
	// tableActive: worker, namespace, id → due (8, Unix ms), token (4+8+4),
	// attempt (4), running and twice the priority (1), boot. Exactly the tasks that are dispatched or running.
	tableActive byte = 0x0c
	// tableKeys: namespace, idempotency key → task id (16), request hash (16),
	// expiry (8, Unix ms). The row goes with its task, or when another task claims
	// the key after its expiry.
	tableKeys byte = 0x0d
	// tableEnded: time (8), namespace, id → empty. Exactly the terminal tasks but
	// dead letters, at the later of when they ended and when their idempotency key expires, so that
	// a task outlives its key and a repeated submit finds it.
	tableEnded byte = 0x0e
	// tableDeadlines: time (8), namespace, id → empty. Exactly the pending tasks
	// with a deadline, at it; see Task.Deadline.
	tableDeadlines byte = 0x0f
	// tableUnique: namespace, unique key → task id (16). Exactly the tasks with a
	// unique key that have not ended.
	tableUnique byte = 0x12
	// tableLimits: LimitID → attempts that hold the concurrency limit (4), their
	// most when the last one was given (4). Only where there are any.
	tableLimits byte = 0x13
	// tableHolders: LimitID, task id → since (8, Unix ms). Exactly the active
	// attempts under a concurrency limit.
	tableHolders byte = 0x14
	// tableRates: LimitID → state of the rate (8, Unix µs); see job.Rate.
	tableRates byte = 0x15
	// tableRateAge: when the row of tableRates says nothing any more, rounded up
	// (8, Unix ms), LimitID → empty. One row for each of tableRates.
	tableRateAge byte = 0x16
	// tableAlerts: kind, subject → Alert; at most maxAlerts.
	tableAlerts byte = 0x10
	// tableAlertAge: time of the last change (8), kind, subject → empty. One row
	// for each of tableAlerts.
	tableAlertAge byte = 0x11

	// tableBreakers: kind, worker, namespace, job, target → Breaker; at most MaxBreakers.
	tableBreakers byte = 0x28
	// tableSchedules: namespace, name → Schedule in its newest version.
	tableSchedules byte = 0x40
	// tableScheduleStates: namespace, name → ScheduleState. One row for each of
	// tableSchedules.
	tableScheduleStates byte = 0x41
	// tableScheduleDue: when the next planned time is due (8, Unix ms), 0 where the
	// leader is to say which it is; namespace, name → empty. Exactly the schedules
	// that wait for one; see ScheduleState.DueAt.
	tableScheduleDue byte = 0x42
	// tableFires: namespace, schedule, complement of the nominal time (8, Unix ms),
	// origin, number (8) → Fire. The newest is first; a schedule's rows outlive it.
	tableFires byte = 0x43
	// tableFireAge: time of the verdict (8), namespace, schedule, nominal time (8),
	// origin, number (8) → empty. One row for each final verdict of tableFires.
	tableFireAge byte = 0x44
	// tableFireQueue: namespace, schedule, nominal time (8), origin, number (8) →
	// empty. Exactly the rows of tableFires that are queued.
	tableFireQueue byte = 0x45
	// tableScheduleActs: kind, namespace, name → ScheduleAct, of those that go on.
	tableScheduleActs byte = 0x46
	// tableCalendars: namespace, name → Calendar in its newest version.
	tableCalendars byte = 0x68
	// tableCalendarUses: namespace, calendar, schedule → empty. Exactly the calendars
	// that schedules name.
	tableCalendarUses byte = 0x69

	// tableDead: namespace, end (8, Unix ms), id → empty. Exactly the dead letters.
	tableDead byte = 0x20
	// tableDeadByJob: namespace, job, end (8), id → empty. Those that are of a job.
	tableDeadByJob byte = 0x21
	// tableDeadAge: time (8), namespace, id → empty. The dead letters, at the begin
	// of their retention; they have no row in tableEnded.
	tableDeadAge byte = 0x22
	// tableDeadActs: id → DeadAct, of those that go on; at most maxDeadActs.
	tableDeadActs byte = 0x23
	// tableSecrets: namespace, name → Secret; at most MaxSecrets.
	tableSecrets byte = 0x78
	// tableOnce: namespace, id → onceRow. Exactly the tasks that have recorded
	// something as done.
	tableOnce byte = 0x7a
	// tableParts: namespace, id of a broadcast, worker → the part's id (16).
	tableParts byte = 0x7b
	// tableBroadcastActs: namespace, id → broadcastAct, of broadcasts that go on.
	tableBroadcastActs byte = 0x7c
	// tableCallbacks: namespace, task id, number (8) → Callback.
	tableCallbacks byte = 0x30
	// tableCallbackDue: target, due (8, Unix ms), task id, number (8), namespace →
	// empty. Exactly the callbacks that are owed; a target's lie together, so that
	// one that takes none doesn't stand before the others.
	tableCallbackDue byte = 0x31
	// tableCallbackState: namespace, state, task id, number (8) → empty. One row for
	// each of tableCallbacks.
	tableCallbackState byte = 0x32
	// tableCallbackAge: time (8), task id, number (8), namespace → empty. Exactly the
	// callbacks that are settled, at the time when they were.
	tableCallbackAge byte = 0x33

	// tableRelations: what it says, namespace, name of what is named, schedule →
	// empty; see relations.
	tableRelations byte = 0x48
	// tableEvents: namespace, name, id with all bits turned → SentEvent; the newest of
	// a name is first.
	tableEvents byte = 0x49
	// tableEventAux: see eventDedup and eventAge.
	tableEventAux byte = 0x4a

	// tableJoins: see joinPeriod and joinWait.
	tableJoins byte = 0x4c
	// tableJoinDue: until when a time waits for upstreams (8), namespace, schedule, end
	// of its period (8), nominal time (8) → empty. Exactly the times that wait, and at 0
	// the schedules whose joins the leader is to judge.
	tableJoinDue byte = 0x4d
	// tableDone: see doneTime and doneAge. The times at which something that schedules
	// wait for has succeeded.
	tableDone byte = 0x4e
	// tableBackfills: namespace, schedule, id → Backfill.
	tableBackfills byte = 0x4f
	// tableBackfillAux: see backfillTime, backfillTask and backfillAge.
	tableBackfillAux byte = 0x72

	// tableListFetches: namespace, id → ListFetch. Exactly those that are owed.
	tableListFetches byte = 0x7d
	// tableListFetchDue: target, due (8, Unix ms), id, namespace → empty. One row for
	// each of tableListFetches.
	tableListFetchDue byte = 0x7e
	// tableDeadActsEnded: end (8, Unix ms), id → DeadAct, of those that took more than
	// one entry and have ended; the last maxDeadActsEnded.
	tableDeadActsEnded byte = 0x7f

	// tableAudit: id → Audit.
	tableAudit byte = 0x70
	// tableAuditBy: which index, namespace (empty: all), its key, id with all bits
	// turned, so that the newest comes first → empty; see Audit.auditKeys.
	tableAuditBy byte = 0x71
)

// The rows of tableMeta.
const (
	metaState  byte = 's' // metaRow
	metaChain  byte = 'h' // hash chain (8); the one row that the chain leaves out
	metaSum    byte = 'k' // index (8) and hash chain (8) of the newest Checksum
	metaOrigin byte = 'o' // Origin, of the newest Rebase
	metaSet    byte = 'g' // job.Settings, where an operator has set some
	metaLow    byte = 'l' // then a priority → low mark: the rest of a key of tableDue, at or before the first row
)

const (
	idLen    = len(job.ID{})
	tokenLen = 4 + 8 + 4
)

// tableEnd is the exclusive upper bound of a table.
func tableEnd(table byte) []byte { return []byte{table + 1} }

// prefixEnd returns the exclusive upper bound of the keys that begin with p.
// A table's byte is never 0xff, so there is one.
func prefixEnd(p []byte) []byte {
	end := bytes.Clone(p)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i]++; end[i] != 0 {
			return end[:i+1]
		}
	}
	return nil
}

// key builds a key by appending; each method returns the longer key.
type key []byte

func (k key) name(s string) key  { return append(append(k, s...), 0) }
func (k key) id(id job.ID) key   { return append(k, id[:]...) }
func (k key) u8(v byte) key      { return append(k, v) }
func (k key) u32(v uint32) key   { return binary.BigEndian.AppendUint32(k, v) }
func (k key) u64(v uint64) key   { return binary.BigEndian.AppendUint64(k, v) }
func (k key) time(ms int64) key  { return k.u64(uint64(max(ms, 0))) }
func (k key) ref(r TaskRef) key  { return k.name(r.Namespace).id(r.ID) }
func (k key) due(d DueKey) key   { return k.time(d.Due).id(d.ID).name(d.Namespace) }
func (k key) table(t byte) key   { return append(k[:0], t) }
func (k key) task(r TaskRef) key { return k.table(tableTasks).ref(r) }
func (k key) body(r TaskRef) key { return k.table(tableBodies).ref(r) }
func (k key) worker(n string) key {
	return k.table(tableWorkers).name(n)
}

func (k key) job(namespace, name string) key {
	return k.table(tableJobs).name(namespace).name(name)
}

func (k key) jobVersion(namespace, name string, version uint64) key {
	return k.table(tableJobVersions).name(namespace).name(name).u64(version)
}

func (k key) dueRow(p job.Priority, d DueKey) key {
	return k.table(tableDue).u8(byte(p)).due(d)
}

func (k key) byState(namespace string, s job.State) key {
	return k.table(tableByState).name(namespace).u8(byte(s))
}

func (k key) byJob(namespace, name string) key {
	return k.table(tableByJob).name(namespace).name(name)
}

func (k key) attempt(r TaskRef, n uint32) key {
	return k.table(tableAttempts).ref(r).u32(n)
}

func (k key) active(worker string, r TaskRef) key {
	return k.table(tableActive).name(worker).ref(r)
}

func (k key) idempotency(namespace, s string) key {
	return k.table(tableKeys).name(namespace).name(s)
}

func (k key) unique(namespace, s string) key {
	return k.table(tableUnique).name(namespace).name(s)
}

func (k key) ended(at int64, r TaskRef) key {
	return k.table(tableEnded).time(at).ref(r)
}

func (k key) deadline(at int64, r TaskRef) key {
	return k.table(tableDeadlines).time(at).ref(r)
}

func (k key) dead(namespace string) key { return k.table(tableDead).name(namespace) }

func (k key) deadByJob(namespace, name string) key {
	return k.table(tableDeadByJob).name(namespace).name(name)
}

func (k key) deadAge(at int64, r TaskRef) key { return k.table(tableDeadAge).time(at).ref(r) }
func (k key) deadAct(id job.ID) key           { return k.table(tableDeadActs).id(id) }

func (k key) alert(kind, subject string) key {
	return k.table(tableAlerts).name(kind).name(subject)
}

func (k key) alertAge(at int64, kind, subject string) key {
	return k.table(tableAlertAge).time(at).name(kind).name(subject)
}

func (k key) audit(id job.ID) key { return k.table(tableAudit).id(id) }

func (k key) auditBy(index byte, namespace string) key {
	return k.table(tableAuditBy).u8(index).name(namespace)
}

func (k key) low(p job.Priority) key {
	return k.table(tableMeta).u8(metaLow).u8(byte(p))
}

// keyReader takes a key apart. It remembers that something did not fit, so that
// the caller checks once, with done.
type keyReader struct {
	rest []byte
	bad  bool
}

// readKey begins behind the table's byte.
func readKey(k []byte) *keyReader { return &keyReader{rest: k[1:]} }

func (r *keyReader) take(n int) []byte {
	if r.bad || len(r.rest) < n {
		r.bad = true
		return make([]byte, n)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *keyReader) name() string {
	i := bytes.IndexByte(r.rest, 0)
	if r.bad || i < 0 {
		r.bad = true
		return ""
	}
	s := string(r.rest[:i])
	r.rest = r.rest[i+1:]
	return s
}

func (r *keyReader) u8() byte     { return r.take(1)[0] }
func (r *keyReader) u32() uint32  { return binary.BigEndian.Uint32(r.take(4)) }
func (r *keyReader) u64() uint64  { return binary.BigEndian.Uint64(r.take(8)) }
func (r *keyReader) time() int64  { return int64(r.u64()) } //nolint:gosec // written by key.time
func (r *keyReader) id() job.ID   { return job.ID(r.take(idLen)) }
func (r *keyReader) ref() TaskRef { return TaskRef{Namespace: r.name(), ID: r.id()} }
func (r *keyReader) due() DueKey {
	return DueKey{Due: r.time(), ID: r.id(), Namespace: r.name()}
}

// done reports whether the key was well formed and nothing is left of it.
func (r *keyReader) done() bool { return !r.bad && len(r.rest) == 0 }
