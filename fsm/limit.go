package fsm

import (
	"cmp"
	"encoding/binary"
	"strings"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

// LimitID names one concurrency limit or one rate: that of a job or shared by name,
// for one key of payloads.
type LimitID struct {
	Namespace string
	Scope     string // "job:NAME" or "name:NAME"
	Key       string // as the payload holds it; empty: for all
}

// What a scope begins with.
const (
	ScopeJob  = "job:"
	ScopeName = "name:"
)

// held is how a task keeps which limit its attempt holds: scope, NUL, key.
func (id LimitID) held() string { return id.Scope + "\x00" + id.Key }

// HeldLimit returns the concurrency limit that the task's current attempt holds.
func (t *Task) HeldLimit() (LimitID, bool) {
	if t.Holds == "" {
		return LimitID{}, false
	}
	scope, k, _ := strings.Cut(t.Holds, "\x00")
	return LimitID{t.Namespace, scope, k}, true
}

// Compare orders limits as lists show them: -1, 0 or +1.
func (id LimitID) Compare(o LimitID) int {
	return cmp.Or(strings.Compare(id.Namespace, o.Namespace), strings.Compare(id.Scope, o.Scope), strings.Compare(id.Key, o.Key))
}

func (k key) limit(id LimitID) key { return k.name(id.Namespace).name(id.Scope).name(id.Key) }

func (r *keyReader) limit() LimitID { return LimitID{r.name(), r.name(), r.name()} }

// ConcurrencyID names the limit that a task is under by a policy.
func ConcurrencyID(t *Task, c *job.Concurrency) LimitID {
	return limitID(t, c.Name, c.Key, t.ConcurrencyKey)
}

// RateID names the rate that a task is under by a policy.
func RateID(t *Task, r *job.Rate) LimitID { return limitID(t, r.Name, r.Key, t.RateKey) }

func limitID(t *Task, name, path, k string) LimitID {
	id := LimitID{Namespace: t.Namespace, Scope: ScopeJob + t.Job}
	if name != "" {
		id.Scope = ScopeName + name
	}
	if path != "" {
		id.Key = k
	}
	return id
}

// Hint tells tasks under different limits, or of different fairness keys, apart in the
// due index, mostly, without a look at their records. It never changes; 0: the task was
// under no limit when it was submitted, and has no key.
func (t *Task) Hint() uint64 {
	if t.Limited {
		return LimitHint(t.Namespace, t.Job, t.ConcurrencyKey, t.RateKey)
	}
	return t.FairHint()
}

// hintsKey marks hints of fairness keys.
const hintsKey = 1 << 63

// FairHint is the part of the hint that tells fairness keys apart; 0: none.
func (t *Task) FairHint() uint64 {
	if t.FairnessKey == "" || t.Limited {
		return 0
	}
	return xxhash.Sum64String(t.FairnessKey) | hintsKey
}

// FairHint is that of the row's task.
func (r *DueRow) FairHint() uint64 {
	if r.Hint&hintsKey == 0 {
		return 0
	}
	return r.Hint
}

// LimitHint is the hint of tasks that have this in common.
func LimitHint(namespace, jobName, concurrencyKey, rateKey string) uint64 {
	var d xxhash.Digest
	d.Reset()
	for _, s := range []string{namespace, jobName, concurrencyKey, rateKey} {
		_, _ = d.WriteString(s) // a Digest never fails
		_, _ = d.Write([]byte{0})
	}
	return max(d.Sum64()&^hintsKey, 1)
}

// keyLimits notes the keys of a task's payload that its limits are for.
func (t *Task) keyLimits(p *job.Policy, payload []byte) (err *job.Error) {
	t.Limited = true
	if p.Concurrency != nil {
		if t.ConcurrencyKey, err = job.PayloadKey(payload, p.Concurrency.Key); err != nil {
			return err
		}
	}
	if p.Rate != nil {
		t.RateKey, err = job.PayloadKey(payload, p.Rate.Key)
	}
	return err
}

// limitsOf returns the limits that a task is under now.
func (a *apply) limitsOf(t *Task) (*job.Concurrency, *job.Rate) {
	c, r := t.Policy.Concurrency, t.Policy.Rate
	if t.Job == "" || c != nil && r != nil {
		return c, r
	}
	if j, ok := a.job(t.Namespace, t.Job); ok {
		c, r = cmp.Or(c, j.Spec.Concurrency), cmp.Or(r, j.Spec.Rate)
	}
	return c, r
}

// takeLimits takes what an attempt of t needs of its limits, or refuses and takes
// nothing.
func (a *apply) takeLimits(t *Task, c *job.Concurrency, r *job.Rate) *job.Error {
	var row limitRow
	var state int64
	now := a.now * 1000 // microseconds
	if c != nil {
		id := ConcurrencyID(t, c)
		if row = readLimit(a.tx, id); row.Held >= uint32(c.Max) { //nolint:gosec // validated
			return stale("concurrency", "has as many attempts as "+id.Scope+" allows", id.Key)
		}
	}
	if r != nil {
		id := RateID(t, r)
		if state = RateState(a.tx, id); r.ReadyAt(state, now) > now {
			return stale("rate", "allows no further attempt of "+id.Scope+" yet", id.Key)
		}
		a.setRate(id, state, r.Take(state, now))
	}
	if c != nil {
		id := ConcurrencyID(t, c)
		row.Held++
		row.Max = uint32(c.Max) //nolint:gosec // validated
		t.Holds = id.held()
		a.setLimit(id, row)
		a.key = a.key.table(tableHolders).limit(id).id(t.ID)
		a.value = binary.BigEndian.AppendUint64(a.value[:0], uint64(a.now)) //nolint:gosec // a time after 1970
		a.set(a.key, a.value)
	}
	return nil
}

// freeLimit gives back what the attempt of t held, which has ended, however.
func (a *apply) freeLimit(t *Task) {
	id, _ := t.HeldLimit()
	t.Holds = ""
	a.key = a.key.table(tableHolders).limit(id).id(t.ID)
	a.delete(a.key)
	row := readLimit(a.tx, id)
	row.Held--
	a.setLimit(id, row)
}

// limitRow is the value of tableLimits.
type limitRow struct{ Held, Max uint32 }

func (a *apply) setLimit(id LimitID, row limitRow) {
	a.key = a.key.table(tableLimits).limit(id)
	if row.Held == 0 {
		a.delete(a.key)
		return
	}
	a.value = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(a.value[:0], row.Held), row.Max)
	a.set(a.key, a.value)
}

func readLimit(r Reader, id LimitID) limitRow {
	k := key{tableLimits}.limit(id)
	b, ok := r.Get(k)
	if !ok {
		return limitRow{}
	}
	row, ok := decodeLimit(b)
	if !ok {
		damaged(k)
	}
	return row
}

func decodeLimit(b []byte) (limitRow, bool) {
	if len(b) != 4+4 {
		return limitRow{}, false
	}
	return limitRow{binary.BigEndian.Uint32(b), binary.BigEndian.Uint32(b[4:])}, true
}

// rateStep is what the ages of rates are rounded up to, so that most attempts leave
// the row by age where it is, in milliseconds.
const rateStep = 60_000

// maxOldRates is how many rates one Expire deletes, two rows each.
const maxOldRates = 200

func rateAge(state int64) int64 { return (state/1000/rateStep + 1) * rateStep }

func (a *apply) setRate(id LimitID, old, state int64) {
	a.key = a.key.table(tableRates).limit(id)
	a.value = binary.BigEndian.AppendUint64(a.value[:0], uint64(state)) //nolint:gosec // a time after 1970
	a.set(a.key, a.value)
	if old != 0 {
		if rateAge(old) == rateAge(state) {
			return
		}
		a.key = a.key.table(tableRateAge).time(rateAge(old)).limit(id)
		a.delete(a.key)
	}
	a.key = a.key.table(tableRateAge).time(rateAge(state)).limit(id)
	a.set(a.key, nil)
}

// deleteRates deletes rates that say nothing any more.
func (a *apply) deleteRates(most int, r *Result) int {
	var keys []key
	a.tx.Ascend(key{tableRateAge}, key{tableRateAge}.time(a.now), func(k, _ []byte) bool {
		if len(keys) == most {
			r.More = true
			return false
		}
		keys = append(keys, append(key{}, k...))
		return true
	})
	for _, k := range keys {
		a.delete(k)
		kr := readKey(k)
		kr.time()
		a.key = a.key.table(tableRates).limit(kr.limit())
		a.delete(a.key)
	}
	return len(keys)
}

// RateState returns a rate's state; 0 where nothing is remembered of it.
func RateState(r Reader, id LimitID) int64 {
	k := key{tableRates}.limit(id)
	b, ok := r.Get(k)
	if !ok {
		return 0
	}
	if len(b) != 8 {
		damaged(k)
	}
	return int64(binary.BigEndian.Uint64(b)) //nolint:gosec // written by setRate
}

// LimitHeld returns how many attempts hold a concurrency limit.
func LimitHeld(r Reader, id LimitID) int { return int(readLimit(r, id).Held) }

// Limit is a concurrency limit that attempts hold, and some of them.
type Limit struct {
	LimitID
	Held, Max int // Max as it was when the last one was given
	Holders   []Holder
}

// Holder is a task whose attempt holds a limit.
type Holder struct {
	Ref   TaskRef
	Since int64 // Unix ms
}

// AscendHolders calls fn for each attempt that holds a concurrency limit, as many
// as there are active ones under limits.
func AscendHolders(r Reader, fn func(LimitID, Holder)) {
	ascendHolders(r, key{tableHolders}, func(id LimitID, h Holder) bool {
		fn(id, h)
		return true
	})
}

func ascendHolders(r Reader, prefix key, fn func(LimitID, Holder) bool) {
	r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		kr := readKey(k)
		id, task := kr.limit(), kr.id()
		if !kr.done() || len(v) != 8 {
			damaged(k)
		}
		since := int64(binary.BigEndian.Uint64(v)) //nolint:gosec // written by takeLimits
		return fn(id, Holder{Ref: TaskRef{id.Namespace, task}, Since: since})
	})
}

// ListLimits reads a page of the concurrency limits that are held, each with at most
// so many holders; an empty namespace means all. A cursor that isn't one is an error.
func ListLimits(r Reader, namespace, cursor string, limit, holders int) (limits []Limit, next string, err error) {
	limit = pageLimit(limit)
	prefix := key{tableLimits}
	if namespace != "" {
		prefix = prefix.name(namespace)
	}
	span, err := keyRange{lo: prefix, hi: prefixEnd(prefix)}.from(cursor)
	if err != nil {
		return nil, "", err
	}
	var last key
	r.Ascend(span.lo, span.hi, func(k, v []byte) bool {
		if len(limits) == limit {
			next = encodeCursor(last)
			return false
		}
		kr := readKey(k)
		id := kr.limit()
		row, ok := decodeLimit(v)
		if !ok || !kr.done() {
			damaged(k)
		}
		limits = append(limits, Limit{LimitID: id, Held: int(row.Held), Max: int(row.Max)})
		last = append(last[:0], k...)
		return true
	})
	for i := range limits {
		limits[i].Holders = LimitHolders(r, limits[i].LimitID, holders)
	}
	return limits, next, nil
}

// LimitHolders reads up to so many attempts that hold a concurrency limit.
func LimitHolders(r Reader, id LimitID, most int) (holders []Holder) {
	ascendHolders(r, key{tableHolders}.limit(id), func(_ LimitID, h Holder) bool {
		holders = append(holders, h)
		return len(holders) < most
	})
	return holders
}
