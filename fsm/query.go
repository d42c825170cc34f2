package fsm

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

// MaxPage bounds the records that one page of a list holds; ScanLimit the rows
// that one page may look at, filters included.
const (
	MaxPage   = 1000
	ScanLimit = 10_000
)

// GetTask reads one task.
func GetTask(r Reader, ref TaskRef) (Task, bool) {
	return getRow[Task](r, key{}.task(ref))
}

// BodyOf reads what never changes of a task, from the task or from its own row.
// A task of a job without payload has none.
func BodyOf(r Reader, t *Task) (Body, bool) {
	if ref, part := t.Parent(); part { // it runs what its broadcast says
		p, ok := GetTask(r, ref)
		if !ok {
			return Body{}, false
		}
		t = &p
	}
	if !t.HasBody {
		var b Body
		if len(t.Body) == 0 {
			return b, false
		}
		c := codecs.Get().(*codec)
		defer codecs.Put(c)
		mustDecode(c, key{}.task(t.Ref()), t.Body, &b)
		return b, true
	}
	return getRow[Body](r, key{}.body(t.Ref()))
}

// GetJob reads a job in its newest version.
func GetJob(r Reader, namespace, name string) (Job, bool) {
	return getRow[Job](r, key{}.job(namespace, name))
}

// GetJobVersion reads a job as of one of its last MaxJobVersions versions.
func GetJobVersion(r Reader, namespace, name string, version uint64) (Job, bool) {
	return getRow[Job](r, key{}.jobVersion(namespace, name, version))
}

// GetWorker reads one worker.
func GetWorker(r Reader, name string) (Worker, bool) {
	return getRow[Worker](r, key{}.worker(name))
}

func getRow[T any](r Reader, k key) (row T, ok bool) {
	b, ok := r.Get(k)
	if !ok {
		return row, false
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	mustDecode(c, k, b, &row)
	return row, true
}

// GetAttempt reads one kept attempt of a task.
func GetAttempt(r Reader, ref TaskRef, n uint32) (Attempt, bool) {
	return getRow[Attempt](r, key{}.attempt(ref, n))
}

// ListAttempts reads the kept attempts of a task, oldest first.
func ListAttempts(r Reader, ref TaskRef) []Attempt {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var attempts []Attempt
	prefix := key{tableAttempts}.ref(ref)
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		var a Attempt
		mustDecode(c, k, v, &a)
		attempts = append(attempts, a)
		return true
	})
	return attempts
}

// ListJobs reads a page of at most limit jobs by name; an empty namespace means
// all of them. A cursor that isn't one is an error.
func ListJobs(r Reader, namespace, cursor string, limit int) (jobs []Job, next string, err error) {
	prefix := key{tableJobs}
	if namespace != "" {
		prefix = prefix.name(namespace)
	}
	return listRows[Job](r, prefix, cursor, limit)
}

// ListWorkers reads a page of at most limit workers by name. A cursor that isn't
// one is an error.
func ListWorkers(r Reader, cursor string, limit int) (workers []Worker, next string, err error) {
	return listRows[Worker](r, key{tableWorkers}, cursor, limit)
}

// listRows reads a page of the rows that begin with prefix.
func listRows[T any](r Reader, prefix key, cursor string, limit int) (rows []T, next string, err error) {
	limit = pageLimit(limit)
	span, err := keyRange{lo: prefix, hi: prefixEnd(prefix)}.from(cursor)
	if err != nil {
		return nil, "", err
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	var last key
	r.Ascend(span.lo, span.hi, func(k, v []byte) bool {
		if len(rows) == limit {
			next = encodeCursor(last)
			return false
		}
		var row T
		mustDecode(c, k, v, &row)
		rows = append(rows, row)
		last = append(last[:0], k...)
		return true
	})
	return rows, next, nil
}

// ListActive reads up to limit attempts that state holds for a worker, an empty
// name means for all workers, by worker and task. The leader recovers with it.
func ListActive(r Reader, worker string, limit int) []ActiveAttempt {
	prefix := key{tableActive}
	if worker != "" {
		prefix = prefix.name(worker)
	}
	var active []ActiveAttempt
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		if len(active) >= limit {
			return false
		}
		kr := readKey(k)
		name := kr.name()
		ref := kr.ref()
		row, ok := decodeActive(v)
		if !ok || !kr.done() {
			damaged(k)
		}
		active = append(active, ActiveAttempt{
			AttemptRef: AttemptRef{Ref: ref, Token: row.Token},
			Attempt:    row.Attempt, Boot: row.Boot, Running: row.Running, Worker: name, Due: row.Due, Priority: row.Priority,
		})
		return true
	})
	return active
}

// DueKey is a position in the due index of one priority.
type DueKey struct {
	Due       int64
	ID        job.ID
	Namespace string
}

// Compare orders two positions: -1, 0 or +1.
func (k DueKey) Compare(o DueKey) int {
	return cmp.Or(cmp.Compare(k.Due, o.Due), bytes.Compare(k.ID[:], o.ID[:]), strings.Compare(k.Namespace, o.Namespace))
}

// DueRow is one row of the due index.
type DueRow struct {
	DueKey
	Retry bool
	Hint  uint64 // see Task.Hint
}

// ScanDue reads up to limit rows of one priority with from <= row and
// row.Due < before, in order. It starts at the low mark where from is earlier.
func ScanDue(r Reader, p job.Priority, from DueKey, before int64, limit int) []DueRow {
	start := key{}.due(from)
	if low := readLow(r, p); bytes.Compare(start, low) < 0 {
		start = low
	}
	span := keyRange{lo: append(key{tableDue, byte(p)}, start...), hi: key{tableDue, byte(p)}.time(before)}
	if bytes.Compare(span.lo, span.hi) >= 0 {
		return nil
	}
	var rows []DueRow
	r.Ascend(span.lo, span.hi, func(k, v []byte) bool {
		if len(rows) >= limit {
			return false
		}
		row, ok := decodeDue(k, v)
		if !ok {
			damaged(k)
		}
		rows = append(rows, row)
		return true
	})
	return rows
}

func decodeDue(k, v []byte) (DueRow, bool) {
	kr := readKey(k)
	kr.u8()
	row := DueRow{DueKey: kr.due(), Retry: len(v) > 0 && v[0] == 1}
	if len(v) == 1+8 {
		row.Hint = binary.BigEndian.Uint64(v[1:])
	}
	return row, kr.done() && (len(v) == 1 || len(v) == 1+8)
}

// ScanDeadlines reads up to limit pending tasks with from <= deadline < before,
// by deadline. next is where the next scan may begin: at the first row that was
// not read, or at before.
func ScanDeadlines(r Reader, from, before int64, limit int) (tasks []TaskRef, next int64) {
	next = before
	if from >= before {
		return nil, next
	}
	r.Ascend(key{tableDeadlines}.time(from), key{tableDeadlines}.time(before), func(k, _ []byte) bool {
		kr := readKey(k)
		at, ref := kr.time(), kr.ref()
		if !kr.done() {
			damaged(k)
		}
		if len(tasks) >= limit {
			next = at
			return false
		}
		tasks = append(tasks, ref)
		return true
	})
	return tasks, next
}

// Counts are the numbers of tasks by stored state; a state without tasks is left out.
type Counts map[job.State]int64

// CountTasks returns a namespace's counters; an empty name sums all namespaces.
func CountTasks(r Reader, namespace string) Counts {
	if namespace == "" {
		return readCounts(r, key{}.counter(countAll))
	}
	return readCounts(r, key{}.counter(countNamespace).name(namespace))
}

// CountJobTasks returns a job's counters.
func CountJobTasks(r Reader, namespace, name string) Counts {
	return readCounts(r, key{}.counter(countJob).name(namespace).name(name))
}

func readCounts(r Reader, prefix key) Counts {
	counts := Counts{}
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		counts[job.State(k[len(k)-1])] = decodeCounter(v)
		return true
	})
	return counts
}

// Sum adds all counts.
func (c Counts) Sum() (n int64) {
	for _, v := range c {
		n += v
	}
	return n
}

// Info is what the cluster's state says of itself.
type Info struct {
	ClusterID    string
	FeatureLevel uint32
	Format       uint32 // of rows and keys
	Applied      uint64 // log index of the last applied entry
	Clock        int64  // high-water mark of the cluster's clock, Unix ms
	Attested     int64  // the latest time that a majority vouched for, Unix ms; 0: none yet
	RestoreEpoch uint32
	Chain        uint64 // hash chain over the writes of each entry
	SumIndex     uint64 // log index of the newest Checksum; 0: none yet
	SumChain     uint64 // the hash chain it found, equal on all servers
}

// ReadInfo reads the meta table.
func ReadInfo(r Reader) Info {
	m := readMeta(r)
	info := Info{
		ClusterID: m.ClusterID, FeatureLevel: m.FeatureLevel, Format: m.Format, Applied: m.Applied,
		Clock: m.Clock, Attested: m.Attested, RestoreEpoch: m.RestoreEpoch, Chain: readChain(r),
	}
	info.SumIndex, info.SumChain = readSum(r)
	return info
}

// StateHash hashes the whole state. It reads all of it: tests compare servers by it.
func StateHash(r Reader) uint64 {
	var d xxhash.Digest
	d.Reset()
	r.Ascend([]byte{tableMeta}, nil, func(k, v []byte) bool {
		var lengths [8]byte
		binary.BigEndian.PutUint32(lengths[:], uint32(len(k)))  //nolint:gosec // keys are short
		binary.BigEndian.PutUint32(lengths[4:], uint32(len(v))) //nolint:gosec // values are bounded by an entry
		_, _ = d.Write(lengths[:])
		_, _ = d.Write(k)
		_, _ = d.Write(v)
		return true
	})
	return d.Sum64()
}

// maxLowLag is how far, in milliseconds, a low mark may lie behind the first
// row of its index before it is worth an entry to move it.
const maxLowLag = 60_000

// Expirable reports whether an Expire with this limit is worth an entry at the
// given time: it would delete something, or move a low mark that lies far
// behind. A few short reads, so that an idle leader proposes nothing.
func Expirable(r Reader, endedBefore, now int64) bool {
	found := false
	some := func(_, _ []byte) bool {
		found = true
		return false
	}
	r.Ascend(key{tableEnded}, key{tableEnded}.time(min(endedBefore, now)), some)
	if !found {
		r.Ascend(key{tableDeadAge}, key{tableDeadAge}.time(min(endedBefore, now-DeadRetention)), some)
	}
	if !found {
		r.Ascend(key{tableRateAge}, key{tableRateAge}.time(now), some)
	}
	if !found {
		r.Ascend(key{tableRunEnded, 0}, key{tableRunEnded, 0}.time(min(endedBefore, now)), some)
	}
	if !found {
		r.Ascend(key{tableRunEnded, 1}, key{tableRunEnded, 1}.time(min(endedBefore, now-DeadRetention)), some)
	}
	if !found {
		r.Ascend(key{tableAlertAge}, key{tableAlertAge}.time(now-AlertRetention), some)
	}
	if !found {
		r.Ascend(key{tableFireAge}, key{tableFireAge}.time(now-FireRetention), some)
		found = found || readCounter(r, key{}.counter(countFires)) > MaxFires
	}
	if !found {
		r.Ascend(key{tableDone, doneAge}, key{}.table(tableDone).u8(doneAge).time(now-DoneRetention), some)
		found = found || readCounter(r, key{}.counter(countDones)) > MaxDone
	}
	for _, p := range job.Priorities {
		found = found || lowLags(r, p)
	}
	return found
}

// lowLags reports whether the low mark of a priority lies far behind its first
// row; without a row, behind the last entry, so that an idle cluster stays idle.
func lowLags(r Reader, p job.Priority) bool {
	var mark int64
	table := key{tableDue, byte(p)}
	low := readLow(r, p)
	if low != nil {
		mark = readKey(append(table, low...)[1:]).time()
	}
	first := readMeta(r).Clock
	r.Ascend(append(table, low...), prefixEnd(table), func(k, _ []byte) bool {
		kr := readKey(k)
		kr.u8()
		first = kr.time()
		return false
	})
	return first > mark+maxLowLag
}
