package fsm

import (
	"bytes"
	"encoding/binary"

	"github.com/axd-project/axd/job"
)

// A ledger keeps verdicts for FireRetention. All ledgers together have a bound, of which
// each schedule has a share, so that busy ones don't push out those that fire seldom:
// beyond its share a schedule loses its oldest verdicts, and they are counted.

// MaxFires is how many verdicts all ledgers hold; beyond, the oldest go before their time.
const MaxFires = 10_000_000

// The share of one schedule in MaxFires, in rows.
const (
	minLedger = 8
	maxLedger = 100_000
)

// The amounts in which a ledger is cut.
const (
	ledgerParts = 4  // a share is that many parts; the oldest part goes as a whole
	trimEvery   = 8  // rows that are written between two cuts
	maxTrim     = 16 // rows that one cut deletes
)

// countDropped counts the verdicts that went before their time; see tableCounters.
const countDropped byte = 'D'

// CountDroppedFires returns how many verdicts of ledgers went before their time, ever.
func CountDroppedFires(r Reader) int64 { return readCounter(r, key{}.counter(countDropped)) }

// Ledger is how far a schedule's ledger reaches back.
type Ledger struct {
	Rows int64 `msgpack:"r,omitempty"` // planned ones that were ever written
	// Marks are nominal times, a part of the share between each two. Before the first of
	// ledgerParts+1 nothing is kept.
	Marks []int64 `msgpack:"m,omitempty"`
	// Dropped is up to which nominal time verdicts are gone.
	Dropped int64 `msgpack:"d,omitempty"`
}

// ledgerShare is how many rows a schedule may have at least, of so many schedules.
func ledgerShare(schedules int64) int64 {
	return min(max(MaxFires*3/4/max(schedules, 1), minLedger), maxLedger)
}

// cutLedger deletes old rows of a ledger that has got a new one.
func (a *apply) cutLedger(h *heldSchedule, f *Fire) {
	l := &h.st.Ledger
	if f.Origin != ByPlan {
		return
	}
	l.Rows++
	n := len(l.Marks)
	a.key = a.key.counter(countSchedules).name("")
	part := ledgerShare(a.counter(a.key).value) / ledgerParts
	if last := max(f.Nominal, f.Until); l.Rows%part == 0 && (n == 0 || last > l.Marks[n-1]) {
		l.Marks = append(l.Marks, last)
		if n == ledgerParts+1 {
			l.Marks = l.Marks[1:]
		}
	}
	// Schedules that were made together don't cut in one entry.
	at := uint64(l.Rows) + binary.BigEndian.Uint64(h.st.ID[8:]) //nolint:gosec // never negative
	if len(l.Marks) > ledgerParts && at%trimEvery == 0 {
		a.dropFires(h, l.Marks[0])
	}
}

// dropFires deletes verdicts on times before one, the newest of them first.
func (a *apply) dropFires(h *heldSchedule, before int64) {
	prefix := key{}.fires(h.ref)
	var found []Fire
	a.tx.Ascend(key{}.fires(h.ref).newest(FireKey{Nominal: before - 1}), prefixEnd(prefix), func(k, v []byte) bool {
		var f Fire
		mustDecode(a.codec, k, v, &f)
		if f.Verdict != VerdictQueued && f.Verdict != VerdictWaiting {
			found = append(found, f)
		}
		return len(found) < maxTrim
	})
	for i := range found {
		f := &found[i]
		a.key = a.key.fireAge(f)
		a.delete(a.key)
		a.key = a.key.fire(f)
		a.delete(a.key)
	}
	if len(found) == 0 {
		return
	}
	n := int64(len(found))
	a.addCounter(key{}.counter(countFires), -n)
	a.addCounter(key{}.counter(countDropped), n)
	h.st.Counts.Dropped += n
	h.st.Ledger.Dropped = max(h.st.Ledger.Dropped, before-1)
}

// Known refuses a backfill of what is missing where nobody can tell any more.
func (c *PutBackfill) Known(st *ScheduleState) *job.Error {
	if c.Which == FillAll || c.Times[0] > st.Ledger.Dropped {
		return nil
	}
	return job.Invalid("from", "must be after "+job.FormatTime(st.Ledger.Dropped)+
		": the verdicts up to then are kept no more, so nobody can tell what was fired; which=all fires all", job.FormatTime(c.From))
}

// maxOldFires bounds the rows of ledgers that one Expire deletes; each has two, and its
// schedule is told.
const maxOldFires = maxFanOut / 3

// expireFires deletes the oldest verdicts: those past their retention, and as many
// as there are beyond MaxFires.
func (a *apply) expireFires(r *Result) {
	total := key{}.counter(countFires)
	over := a.counter(total).value - MaxFires
	type row struct {
		age key
		ref ScheduleRef
		at  FireKey
	}
	var found []row
	early := int64(0)
	a.tx.Ascend([]byte{tableFireAge}, tableEnd(tableFireAge), func(k, _ []byte) bool {
		kr := readKey(k)
		at := kr.time()
		if at >= a.now-FireRetention && int64(len(found)) >= over {
			return false
		}
		if len(found) == maxOldFires {
			r.More = true
			return false
		}
		if at >= a.now-FireRetention {
			early++
		}
		found = append(found, row{bytes.Clone(k), kr.scheduleRef(), kr.fireKey()})
		return true
	})
	for _, f := range found {
		a.delete(f.age)
		a.key = a.key.fires(f.ref).newest(f.at)
		a.delete(a.key)
		if h := a.schedule(f.ref); h.st != nil && f.at.Nominal > h.st.Ledger.Dropped {
			h.st.Ledger.Dropped, h.changed = f.at.Nominal, true
		}
	}
	if len(found) > 0 {
		a.addCounter(total, -int64(len(found)))
		a.addCounter(key{}.counter(countDropped), early)
		r.Deleted += len(found)
	}
}
