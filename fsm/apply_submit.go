package fsm

import (
	"bytes"
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job"
)

// submit creates tasks. placed holds the worker that each is given to at once, if
// it is due; nil: all wait.
func (a *apply) submit(c *Submit, placed []*Worker) Result {
	if err := job.ValidateNamespace(c.Namespace); err != nil {
		return rejected(err)
	}
	if n := len(c.Tasks); n == 0 || n > job.MaxBatch {
		return rejected(job.Invalid("tasks", fmt.Sprintf("must hold 1 to %d tasks", job.MaxBatch), strconv.Itoa(n)))
	}
	results := make([]SubmitResult, len(c.Tasks))
	tasks := make([]Task, len(c.Tasks)) // at once: it is cheaper than one by one
	for i := range c.Tasks {
		var w *Worker
		if placed != nil {
			w = placed[i]
		}
		results[i] = a.submitOne(c.Namespace, &c.Tasks[i], &tasks[i], w)
	}
	return Result{Tasks: results}
}

// submitOne makes a task of a request, in t.
func (a *apply) submitOne(namespace string, spec *job.TaskSpec, t *Task, w *Worker) SubmitResult {
	if err := a.plan(namespace, spec, t); err != nil {
		return SubmitResult{Err: err}
	}
	var hash [16]byte
	var stored keyRow
	if spec.IdempotencyKey != "" {
		hash = job.RequestHash(*spec)
		stored = a.idempotencyRow(namespace, spec.IdempotencyKey)
		if stored.Expiry > a.now {
			return a.deduplicate(namespace, spec.IdempotencyKey, stored, hash)
		}
	}
	t.ID = job.NewID(a.now, a.at.Index, a.next())
	if spec.IdempotencyKey != "" {
		a.claim(t, hash, spec.IdempotencyWindowOrDefault())
	}
	if t.Offer != "" || len(spec.Payload) > 0 {
		a.putBody(t, &Body{Executor: spec.Executor, Payload: spec.Payload})
	}
	if w != nil && t.Due <= a.now {
		a.give(nil, t, w)
		return SubmitResult{ID: t.ID, Task: t}
	}
	a.write(nil, t)
	a.event(Event{Kind: EventPending, Task: t})
	return SubmitResult{ID: t.ID, Task: t}
}

// plan checks a request and builds its task, all but the id. The rules are
// applied here on every server, whoever checked them before: to change one, tie
// it to the cluster's feature level.
func (a *apply) plan(namespace string, spec *job.TaskSpec, t *Task) *job.Error {
	if err := spec.Validate(); err != nil {
		return err
	}
	due, err := spec.DueAt(a.now)
	if err != nil {
		return err
	}
	policy := spec.Policy
	if spec.Job != "" {
		j, ok := a.job(namespace, spec.Job)
		if !ok {
			return job.NotFound("job", spec.Job)
		}
		policy = j.Spec.Policy.Merge(spec.Policy)
		if err := policy.ValidateFor(j.Spec.Kind()); err != nil {
			return err
		}
	}
	*t = Task{
		Namespace: namespace, State: job.Pending, Job: spec.Job, Offer: a.offer(spec), Policy: spec.Policy,
		Due: due, Created: a.now, MaxRetries: policy.RetryOrDefault().Max(),
		IdempotencyKey: spec.IdempotencyKey,
	}
	t.Policy.Priority = policy.PriorityOrDefault()
	return nil
}

// offer is the spec's Offer, of which there are few.
func (a *apply) offer(spec *job.TaskSpec) string {
	if spec.Handler == "" {
		return spec.Kind()
	}
	a.value = append(append(a.value[:0], job.KindHandler+":"...), spec.Handler...)
	return a.codec.intern(a.value)
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
	return SubmitResult{ID: t.ID, Task: t, Deduplicated: true}
}

// putBody keeps the body in the task where it is small.
func (a *apply) putBody(t *Task, b *Body) {
	a.value = a.codec.appendBody(a.value[:0], b)
	if len(a.value) <= maxInlineBody {
		t.Body = bytes.Clone(a.value)
		return
	}
	t.HasBody = true
	a.key = a.key.body(t.Ref())
	a.set(a.key, a.value)
}

// claim writes a key's row, in the place of one that has expired.
func (a *apply) claim(t *Task, hash [16]byte, window job.Duration) {
	t.KeyExpiry = a.now + window.Milliseconds()
	row := keyRow{ID: t.ID, Hash: hash, Expiry: t.KeyExpiry}
	a.key = a.key.idempotency(t.Namespace, t.IdempotencyKey)
	a.value = appendKeyRow(a.value[:0], row)
	a.set(a.key, a.value)
	a.keys.add(a.key)
}
