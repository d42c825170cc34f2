package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// maxTaskRows is how many rows the deletion of one ended task may touch: the
// task, its body, its rows by state, job and end (of a dead letter three), its
// idempotency key, what it has recorded as done, and its attempts.
const maxTaskRows = 9 + MaxAttempts

// expire deletes the tasks that ended before the limit, as far as maxFanOut rows
// go, the alerts and the verdicts of fires that nothing has changed for long, and moves the low marks up to
// the first rows of the due index.
func (a *apply) expire(c *Expire) Result {
	var r Result
	before := min(c.EndedBefore, a.now)
	left := a.expireEnded(tableEnded, before, maxFanOut, &r)
	r.Deleted += a.deleteRates(maxOldRates, &r)
	left = a.expireEnded(tableDeadAge, min(before, a.now-DeadRetention), left, &r)
	left = a.expireRuns(0, before, left, &r)
	left = a.expireRuns(1, min(before, a.now-DeadRetention), left, &r)
	a.expireFires(&r)
	left = a.expireCallbacks(before, left, &r)
	left = a.expireAudit(a.now-AuditRetention, left, &r)
	a.expireEvents(left, &r)
	a.expireBackfills(&r)
	a.expireDone(&r)
	r.Deleted += a.deleteAlerts(key{tableAlertAge}.time(a.now-AlertRetention), maxAlerts)
	for _, p := range job.Priorities {
		a.raiseLow(p)
	}
	return r
}

// expireEnded deletes the ended tasks of one table, the earliest first, and returns
// how many rows of the budget are left.
func (a *apply) expireEnded(table byte, before int64, budget int, r *Result) int {
	var found []TaskRef
	most := budget / 3 // a task has at least three rows: itself, by state, ended
	a.tx.Ascend(key{table}, key{table}.time(before), func(k, _ []byte) bool {
		if len(found) == most {
			r.More = true
			return false
		}
		kr := readKey(k)
		kr.time()
		found = append(found, kr.ref())
		return true
	})
	for _, ref := range found {
		if budget < maxTaskRows {
			r.More = true
			return budget
		}
		t, ok := a.task(ref)
		if !ok {
			panic("fsm: the state is damaged: an ended task is gone: " + ref.ID.String())
		}
		if t.IsBroadcast() {
			var done bool
			if budget, done = a.deleteParts(t, budget); !done || budget < maxTaskRows {
				r.More = true
				return budget
			}
		}
		budget -= a.deleteTask(t)
		r.Deleted++
	}
	return budget
}

// deleteTask deletes all rows of an ended task and returns how many at most.
func (a *apply) deleteTask(t *Task) int {
	ref := t.Ref()
	rows := 3
	a.key = a.key.task(ref)
	a.delete(a.key)
	a.key = a.key.byState(t.Namespace, t.State).id(t.ID)
	a.delete(a.key)
	if t.Dead {
		rows += 2
		a.deleteDead(t)
	} else if t.isOwn() {
		a.key = a.key.ended(t.retainFrom(), ref)
		a.delete(a.key)
	}
	if t.HasBody {
		rows++
		a.key = a.key.body(ref)
		a.delete(a.key)
	}
	if t.Extra != nil && t.Extra.Done {
		rows++
		a.key = a.key.once(ref)
		a.delete(a.key)
	}
	if t.Job != "" {
		rows++
		a.key = a.key.byJob(t.Namespace, t.Job).id(t.ID)
		a.delete(a.key)
	}
	if t.IdempotencyKey != "" && a.idempotencyRow(t.Namespace, t.claimedKey()).ID == t.ID {
		rows++
		a.delete(a.key)
		a.keys.deleted++
	}
	for n := t.Attempt; n > 0 && n+MaxAttempts > t.Attempt; n-- {
		rows++
		a.key = a.key.attempt(ref, n)
		a.delete(a.key)
	}
	a.count(t, t.State, -1)
	return rows
}

// raiseLow moves a priority's low mark to its first row; with no row, to now,
// since nothing that comes later is due earlier, but for a task given back.
func (a *apply) raiseLow(p job.Priority) {
	table := key{tableDue, byte(p)}
	var first []byte
	a.tx.Ascend(append(table, a.low[p]...), prefixEnd(table), func(k, _ []byte) bool {
		first = bytes.Clone(k[dueSuffix:])
		return false
	})
	if first == nil {
		first = key{}.due(DueKey{Due: a.now})
	}
	if bytes.Compare(first, a.low[p]) > 0 {
		a.setLow(p, first)
	}
}
