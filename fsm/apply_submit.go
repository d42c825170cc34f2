package fsm

import (
	"fmt"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// DefaultIdempotencyWindow is how long an idempotency key is claimed, from the
// task's creation, unless the submit says otherwise.
const DefaultIdempotencyWindow = job.Duration(24 * time.Hour)

func (a *apply) submit(c *Submit) Result {
	if err := jobCheckName("namespace", c.Namespace); err != nil {
		return rejected(err)
	}
	if n := len(c.Tasks); n == 0 || n > job.MaxBatch {
		return rejected(job.Invalid("tasks", fmt.Sprintf("must hold 1 to %d tasks", job.MaxBatch), strconv.Itoa(n)))
	}
	results := make([]SubmitResult, len(c.Tasks))
	for i := range c.Tasks {
		results[i] = a.submitOne(c.Namespace, &c.Tasks[i])
	}
	return Result{Tasks: results}
}

func (a *apply) submitOne(namespace string, spec *job.TaskSpec) SubmitResult {
	t, err := a.plan(namespace, spec)
	if err != nil {
		return SubmitResult{Err: err}
	}
	var hash [16]byte
	var stored keyRow
	if spec.IdempotencyKey != "" {
		hash = jobRequestHash(*spec)
		stored = a.idempotencyRow(namespace, spec.IdempotencyKey)
		if stored.Expiry > a.now {
			return a.deduplicate(namespace, spec.IdempotencyKey, stored, hash)
		}
	}
	t.ID = job.NewID(a.now, a.at.Index, a.next())
	if spec.IdempotencyKey != "" {
		a.claim(t, stored, hash, spec.IdempotencyWindow)
	}
	a.write(nil, t)
	if t.HasBody {
		v := mustEncode(a.codec, &Body{Executor: spec.Executor, Payload: spec.Payload})
		a.key = a.key.body(t.Ref())
		a.set(a.key, v)
	}
	a.event(Event{Kind: EventPending, Task: t})
	return SubmitResult{Task: t}
}

// plan checks a request and builds its task, all but the id.
func (a *apply) plan(namespace string, spec *job.TaskSpec) (*Task, *job.Error) {
	if err := jobValidate(*spec); err != nil {
		return nil, err
	}
	policy, priority := spec.Policy, spec.Priority
	kind := spec.Kind()
	if spec.Job != "" {
		kind = ""
		j, ok := a.job(namespace, spec.Job)
		if !ok {
			return nil, job.NotFound("job", spec.Job)
		}
		policy = jobMerge(j.Spec.Policy, spec.Policy)
		priority = policy.Priority
	}
	if priority == 0 {
		priority = job.Normal
	}
	due, err := a.dueAt("due", spec.Due, spec.Delay)
	if err != nil {
		return nil, err
	}
	t := &Task{
		Namespace: namespace, State: job.Pending, Job: spec.Job, Kind: kind, Policy: spec.Policy,
		Due: due, Created: a.now, MaxRetries: jobRetry(policy).MaxRetries,
		IdempotencyKey: spec.IdempotencyKey,
		HasBody:        spec.Kind() != "" || len(spec.Payload) > 0,
	}
	t.Policy.Priority = priority
	return t, nil
}

// dueAt resolves a time or a delay: a time that has passed means now.
func (a *apply) dueAt(field string, at int64, delay job.Duration) (int64, *job.Error) {
	switch {
	case at < 0 || at > job.MaxTime:
		return 0, job.Invalid(field, "must be between 1970 and the year 9999", strconv.FormatInt(at, 10))
	case delay < 0:
		return 0, job.Invalid("delay", "must not be negative", delay.String())
	case at != 0 && delay != 0:
		return 0, job.Invalid("delay", "must not be set beside a time", delay.String())
	case delay.Milliseconds() > job.MaxTime-a.now:
		return 0, job.Invalid("delay", "must end before the year 10000", delay.String())
	}
	return max(at, a.now+delay.Milliseconds()), nil
}

// idempotencyRow reads who claimed a key; the zero row means nobody.
func (a *apply) idempotencyRow(namespace, k string) keyRow {
	a.key = a.key.idempotency(namespace, k)
	b, ok := a.tx.Get(a.key)
	if !ok {
		return keyRow{}
	}
	row, ok := decodeKeyRow(b)
	if !ok {
		panic(fmt.Sprintf("fsm: the row of key %x is damaged", []byte(a.key)))
	}
	return row
}

// deduplicate answers for a key that is live.
func (a *apply) deduplicate(namespace, k string, stored keyRow, hash [16]byte) SubmitResult {
	if stored.Hash != hash {
		return SubmitResult{Err: &job.Error{
			Code: job.CodeIdempotencyMismatch, Field: "idempotency_key", Value: job.Shorten(k),
			Rule: "belongs to task " + stored.ID.String() + ", which was submitted with another content",
		}}
	}
	t, ok := a.task(TaskRef{Namespace: namespace, ID: stored.ID})
	if !ok {
		panic(fmt.Sprintf("fsm: the state is damaged: task %s of a live idempotency key is gone", stored.ID))
	}
	return SubmitResult{Task: t, Deduplicated: true}
}

// claim writes a key's rows, in the place of those that expired.
func (a *apply) claim(t *Task, expired keyRow, hash [16]byte, window job.Duration) {
	k := t.IdempotencyKey
	if expired.Expiry != 0 {
		a.key = a.key.keyExpiry(expired.Expiry, t.Namespace, k)
		a.delete(a.key)
	}
	if window == 0 {
		window = DefaultIdempotencyWindow
	}
	t.KeyExpiry = a.now + window.Milliseconds()
	row := keyRow{ID: t.ID, Hash: hash, Expiry: t.KeyExpiry}
	a.key = a.key.idempotency(t.Namespace, k)
	a.value = appendKeyRow(a.value[:0], row)
	a.set(a.key, a.value)
	a.key = a.key.keyExpiry(row.Expiry, t.Namespace, k)
	a.set(a.key, nil)
}
