package fsm

import (
	"bytes"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// claimedKey is what a task claims in tableKeys.
func (t *Task) claimedKey() string { return t.IdempotencyKey + t.KeyPeriod }

// admit looks whether the keys of a request are free for t. It returns an answer
// where the request makes no task, and the task that the new one replaces.
func (a *apply) admit(spec *job.TaskSpec, t *Task) (answer *SubmitResult, replaced *Task) {
	if spec.IdempotencyKey != "" {
		row := a.idempotencyRow(t.Namespace, t.claimedKey())
		if row.Expiry > a.now || mutant.KeyForever && row.Expiry > 0 {
			hash := job.RequestHash(*spec)
			if answer, replaced = a.claimed(spec, t, row, hash); answer != nil {
				return answer, nil
			}
		}
	}
	if spec.UniqueKey != "" {
		holder, ok := a.uniqueHolder(t.Namespace, spec.UniqueKey)
		if ok && (replaced == nil || replaced.ID != holder.ID) {
			return &SubmitResult{Err: a.uniqueTaken(spec.UniqueKey, holder)}, nil
		}
	}
	return nil, replaced
}

// idempotencyRow reads who claimed a key; the zero row means nobody.
func (a *apply) idempotencyRow(namespace, k string) keyRow {
	a.key = a.key.idempotency(namespace, k)
	if !a.keys.mayHold(a.key) {
		return keyRow{}
	}
	b, ok := a.tx.Get(a.key)
	if !ok {
		return keyRow{}
	}
	row, ok := decodeKeyRow(b)
	if !ok {
		damaged(a.key)
	}
	return row
}

// claimed answers for a key that is live, or returns the task to replace.
func (a *apply) claimed(spec *job.TaskSpec, t *Task, row keyRow, hash [16]byte) (*SubmitResult, *Task) {
	first, ok := a.task(TaskRef{Namespace: t.Namespace, ID: row.ID})
	if !ok {
		panic("fsm: the state is damaged: task " + row.ID.String() + " of a live idempotency key is gone")
	}
	same := row.Hash == hash
	switch {
	case same && spec.IdempotencyPolicy == job.IdempotencyReject:
		return &SubmitResult{Err: job.Conflict("idempotency_key", "is claimed by task "+row.ID.String(), spec.IdempotencyKey)}, nil
	case same: // also of a replacement that is repeated, since its answer was lost
		return &SubmitResult{ID: first.ID, Task: first, Deduplicated: true}, nil
	case spec.IdempotencyPolicy != job.IdempotencyReplace:
		return &SubmitResult{Err: &job.Error{
			Code: job.CodeIdempotencyMismatch, Field: "idempotency_key", Value: job.Shorten(spec.IdempotencyKey),
			Rule: "belongs to task " + row.ID.String() + ", which was submitted with another content",
		}}, nil
	case first.State != job.Pending:
		return &SubmitResult{Err: job.Conflict("idempotency_key",
			"belongs to task "+row.ID.String()+", which is "+a.shown(first)+": only a task that waits can be replaced",
			spec.IdempotencyKey)}, nil
	}
	return nil, first
}

// replace ends a pending task in favour of another, which takes over its key.
func (a *apply) replace(old, by *Task) {
	t := new(Task)
	*t = *old
	t.KeyExpiry = a.now
	t.Error = "replaced by task " + by.ID.String()
	t.end(job.Cancelled, a.now)
	a.write(old, t)
	a.event(Event{Kind: EventEnded, Task: t})
}

// claim writes the row of a task's key, in the place of one that has expired or
// whose task is replaced.
func (a *apply) claim(t *Task, hash [16]byte) {
	row := keyRow{ID: t.ID, Hash: hash, Expiry: t.KeyExpiry}
	a.key = a.key.idempotency(t.Namespace, t.claimedKey())
	a.value = appendKeyRow(a.value[:0], row)
	a.set(a.key, a.value)
	a.keys.add(a.key)
}

// uniqueHolder finds the task that holds a unique key.
func (a *apply) uniqueHolder(namespace, k string) (*Task, bool) {
	a.key = a.key.unique(namespace, k)
	b, ok := a.tx.Get(a.key)
	if !ok {
		return nil, false
	}
	if len(b) != idLen {
		damaged(a.key)
	}
	id := job.ID(bytes.Clone(b))
	t, ok := a.task(TaskRef{Namespace: namespace, ID: id})
	if !ok {
		panic("fsm: the state is damaged: task " + id.String() + " of a unique key is gone")
	}
	return t, true
}

func (a *apply) uniqueTaken(k string, holder *Task) *job.Error {
	return job.Conflict("unique_key", "is held by task "+holder.ID.String()+", which is "+a.shown(holder), k)
}

// shown is a task's state as users know it.
func (a *apply) shown(t *Task) string { return string(job.Show(t.State, t.Due, t.Retry, a.now)) }

func (a *apply) claimUnique(t *Task) {
	a.key = a.key.unique(t.Namespace, t.UniqueKey)
	a.set(a.key, t.ID[:])
}

// freeUnique gives a unique key back when its task has ended, however.
func (a *apply) freeUnique(t *Task) {
	if t.UniqueKey == "" {
		return
	}
	a.key = a.key.unique(t.Namespace, t.UniqueKey)
	a.delete(a.key)
}

// GetUniqueHolder returns the task that holds a unique key.
func GetUniqueHolder(r Reader, namespace, k string) (job.ID, bool) {
	b, ok := r.Get(key{}.unique(namespace, k))
	if !ok || len(b) != idLen {
		return job.ID{}, false
	}
	return job.ID(b), true
}
