package fsm

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/axd-project/axd/job"
)

// A dead letter is a task that ended failed or timed out and whose policy says
// on_exhausted: dead_letter. Its rows are those of the tables tableDead*, in the
// place of the one in tableEnded.

// The limits of dead letters.
const (
	DeadRetention int64 = 30 * 24 * 3600 * 1000 // ms after the end, where --retention isn't longer
	MaxDeadIDs          = 100                   // ids that one DeadLetters names
	maxDeadRows         = 10                    // rows that an act on one of them touches
	maxDeadCount        = 100_000               // rows that CountDead looks at
)

// DeadFilter selects dead letters. Empty fields don't filter.
type DeadFilter struct {
	Job   string `msgpack:"j,omitempty"`
	Error string `msgpack:"e,omitempty"` // part of the error's text
	From  int64  `msgpack:"f,omitempty"` // ended at or after, Unix ms
	To    int64  `msgpack:"t,omitempty"` // ended before, Unix ms; 0: any time
}

// deadFrom is when the retention of a dead letter begins; it outlives its key.
func (t *Task) deadFrom() int64 { return max(t.Ended, t.KeyExpiry-DeadRetention) }

// bury decides whether a task that ends becomes a dead letter, and returns the task
// that is to make good for it, if its policy asks for one.
func (a *apply) bury(t *Task) (next *Task) {
	if t.State != job.Failed && t.State != job.TimedOut || !t.Run.IsZero() && a.neverRan(t) {
		return nil
	}
	policy := a.policy(t)
	t.Dead = policy.OnExhaustedOrDefault() == job.ExhaustedDeadLetter
	if policy.Compensation != "" {
		next = a.compensate(t, policy.Compensation)
	}
	return next
}

// putDead writes the rows of a dead letter.
func (a *apply) putDead(t *Task) {
	a.key = a.key.dead(t.Namespace).time(t.Ended).id(t.ID)
	a.set(a.key, nil)
	if t.Run.IsZero() { // else it is kept as long as its run
		a.key = a.key.deadAge(t.deadFrom(), t.Ref())
		a.set(a.key, nil)
	}
	if t.Job != "" {
		a.key = a.key.deadByJob(t.Namespace, t.Job).time(t.Ended).id(t.ID)
		a.set(a.key, nil)
	}
	a.countDead(t, +1)
}

func (a *apply) deleteDead(t *Task) {
	a.key = a.key.dead(t.Namespace).time(t.Ended).id(t.ID)
	a.delete(a.key)
	if t.Run.IsZero() {
		a.key = a.key.deadAge(t.deadFrom(), t.Ref())
		a.delete(a.key)
	}
	if t.Job != "" {
		a.key = a.key.deadByJob(t.Namespace, t.Job).time(t.Ended).id(t.ID)
		a.delete(a.key)
	}
	a.countDead(t, -1)
}

func (a *apply) countDead(t *Task, n int64) {
	a.key = a.key.counter(countDead)
	a.addCounter(a.key, n)
	a.key = a.key.counter(countDeadNamespace).name(t.Namespace)
	a.addCounter(a.key, n)
	if t.Job != "" {
		a.key = a.key.counter(countDeadJob).name(t.Namespace).name(t.Job)
		a.addCounter(a.key, n)
	}
}

// CountDead returns the number of dead letters of a namespace (empty: of all), or
// of a job.
func CountDead(r Reader, namespace, name string) int64 {
	switch {
	case namespace == "":
		return readCounter(r, key{}.counter(countDead))
	case name == "":
		return readCounter(r, key{}.counter(countDeadNamespace).name(namespace))
	}
	return readCounter(r, key{}.counter(countDeadJob).name(namespace).name(name))
}

// deadSpan is the rows that may match, by the narrower index, and where in a key
// the time begins.
func deadSpan(namespace string, f *DeadFilter) (span keyRange, prefix int) {
	p := key{}.dead(namespace)
	if f.Job != "" {
		p = key{}.deadByJob(namespace, f.Job)
	}
	span = keyRange{lo: bytes.Clone(p.time(f.From)), hi: prefixEnd(p)}
	if f.To != 0 {
		span.hi = p.time(f.To)
	}
	return span, len(p)
}

// MatchDead counts the dead letters that a filter selects; false: it looked at as
// many as it may, and there are more.
func MatchDead(r Reader, namespace string, f DeadFilter) (n int64, all bool) {
	if f.Error == "" && f.From == 0 && f.To == 0 {
		return CountDead(r, namespace, f.Job), true
	}
	cursor := ""
	for looked := 0; looked < maxDeadCount; looked += ScanLimit {
		page, err := ListDead(r, namespace, f, cursor, ScanLimit)
		if err != nil {
			return n, false // the cursor is of this very list
		}
		n += int64(len(page.Tasks))
		if cursor = page.Next; cursor == "" {
			return n, true
		}
	}
	return n, false
}

// ListDead reads a page of dead letters, the one that ended first first.
func ListDead(r Reader, namespace string, f DeadFilter, cursor string, limit int) (TaskPage, error) {
	span, prefix := deadSpan(namespace, &f)
	span, err := span.from(cursor)
	if err != nil {
		return TaskPage{}, err
	}
	var p TaskPage
	for left := ScanLimit; ; {
		keys := deadKeys(r, span, min(scanChunk, left+1))
		for _, k := range keys {
			if len(p.Tasks) == limit || left == 0 {
				return p, nil
			}
			left--
			p.Next = encodeCursor(k)
			ref := TaskRef{Namespace: namespace, ID: job.ID(k[prefix+8:])}
			if t, ok := GetTask(r, ref); ok && strings.Contains(t.Error, f.Error) {
				p.Tasks = append(p.Tasks, t)
			}
		}
		if len(keys) == 0 {
			p.Next = ""
			return p, nil
		}
		span.lo = append(bytes.Clone(keys[len(keys)-1]), 0)
	}
}

func deadKeys(r Reader, span keyRange, limit int) (keys []key) {
	if bytes.Compare(span.lo, span.hi) >= 0 {
		return nil
	}
	r.Ascend(span.lo, span.hi, func(k, _ []byte) bool {
		keys = append(keys, bytes.Clone(k))
		return len(keys) < limit
	})
	return keys
}

// dead reads a dead letter.
func (a *apply) dead(ref TaskRef) (*Task, *job.Error) {
	t, ok := a.task(ref)
	if !ok {
		return nil, job.NotFound("task", ref.ID.String())
	}
	if !t.Dead {
		return nil, job.Conflict("task", "is no dead letter: it is "+a.shown(t), ref.ID.String())
	}
	return t, nil
}

// actOnDead replays or discards one dead letter.
func (a *apply) actOnDead(old *Task, replay bool) *job.Error {
	if replay {
		return a.replayDead(old)
	}
	t := new(Task)
	*t = *old
	t.Dead = false
	a.deleteDead(old)
	a.write(old, t)
	if t.Run.IsZero() {
		a.key = a.key.ended(t.retainFrom(), t.Ref())
		a.set(a.key, nil)
	}
	return nil
}

// replayDead makes a dead letter pending again, with all its retries. Its attempts
// stay, and the next ones get higher numbers and tokens. It claims its keys anew.
func (a *apply) replayDead(old *Task) *job.Error {
	t := new(Task)
	*t = *old
	if t.Job != "" {
		if _, ok := a.job(t.Namespace, t.Job); !ok {
			return job.Conflict("job", "of the task does not exist any more", t.Job)
		}
	}
	if t.UniqueKey != "" {
		if holder, ok := a.uniqueHolder(t.Namespace, t.UniqueKey); ok {
			return a.uniqueTaken(t.UniqueKey, holder)
		}
	}
	var row keyRow
	if t.IdempotencyKey != "" {
		row = a.idempotencyRow(t.Namespace, t.claimedKey())
		if row.ID != t.ID && row.Expiry > a.now {
			return job.Conflict("idempotency_key", "is claimed by task "+row.ID.String()+" since", t.IdempotencyKey)
		}
	}
	if !t.Run.IsZero() {
		if t.Item == 0 {
			return a.replayStep(t)
		}
		if err := a.mayReplayItem(t); err != nil {
			return err
		}
	}
	// Nothing is written before here.
	a.deleteDead(old)
	if t.UniqueKey != "" {
		a.claimUnique(t)
	}
	if t.IdempotencyKey != "" {
		if row.ID != t.ID { // the content is not known any more: until it expires a submit of this key is refused
			row.Hash = [16]byte{}
		}
		t.KeyExpiry = max(t.KeyExpiry, a.now+job.DefaultIdempotencyWindow.Milliseconds())
		a.claim(t, row.Hash)
	}
	policy := a.policy(t)
	t.Dead, t.State, t.Ended, t.Retries, t.TooLate = false, job.Pending, 0, 0, false
	t.CompensatedBy = job.ID{}
	t.Due, t.MaxRetries = a.now, policy.RetryOrDefault().Max()
	t.QueueBy, t.EndBy = 0, 0
	t.limit(&policy)
	a.write(old, t)
	a.event(Event{Kind: EventPending, Task: t})
	return nil
}

// deadLetters acts on those named, or begins an act on those that match.
func (a *apply) deadLetters(c *DeadLetters) Result {
	if err := job.ValidateNamespace(c.Namespace); err != nil {
		return rejected(err)
	}
	if len(c.IDs) > MaxDeadIDs {
		return rejected(job.Invalid("ids", "must be at most "+strconv.Itoa(MaxDeadIDs), strconv.Itoa(len(c.IDs))))
	}
	if len(c.IDs) > 0 {
		results := make([]*job.Error, len(c.IDs))
		for i, id := range c.IDs {
			t, err := a.dead(TaskRef{Namespace: c.Namespace, ID: id})
			if err == nil && c.Before != 0 && t.Ended >= c.Before {
				err = job.Conflict("task", "has failed since: it is looked at next time", id.String())
			}
			if err == nil {
				err = a.actOnDead(t, c.Replay)
			}
			results[i] = err
		}
		return Result{Attempts: results, Changed: slices.Contains(results, nil)}
	}
	return a.beginDead(c)
}
