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
	if len(results) == 1 && results[0].Task != nil {
		a.annotate(&results[0])
	}
	return Result{Tasks: results}
}

// annotate adds what other records know of a task.
func (a *apply) annotate(r *SubmitResult) {
	policy := a.policy(r.Task)
	r.App, r.Owner = policy.App, policy.Owner
	if policy.CallbackURL != "" || policy.CallbackJob != "" {
		r.Callback = &CallbackWish{URL: policy.CallbackURL, Job: policy.CallbackJob, Secret: policy.CallbackSecret, On: policy.CallbackOn}
	}
	if r.Task.Worker != "" {
		if w, ok := a.worker(r.Task.Worker); ok {
			r.Address = w.Address
		}
	}
}

// submitOne makes a task of a request, in t.
func (a *apply) submitOne(namespace string, spec *job.TaskSpec, t *Task, w *Worker) SubmitResult {
	if err := a.plan(namespace, spec, t); err != nil {
		return SubmitResult{Err: err}
	}
	var replaced *Task
	if spec.IdempotencyKey != "" || spec.UniqueKey != "" {
		var answer *SubmitResult
		if answer, replaced = a.admit(spec, t); answer != nil {
			return *answer
		}
	}
	if replaced == nil {
		if err := a.withinQuota(namespace); err != nil {
			return SubmitResult{Err: err}
		}
	}
	t.ID = job.NewID(a.now, a.at.Index, a.next())
	if replaced != nil {
		a.replace(replaced, t)
	}
	if spec.IdempotencyKey != "" {
		a.claim(t, job.RequestHash(*spec))
	}
	if t.UniqueKey != "" {
		a.claimUnique(t)
	}
	if t.Offer != "" || len(spec.Payload) > 0 {
		a.putBody(t, &Body{Executor: spec.Executor, Payload: spec.Payload})
	}
	if w != nil && t.Due <= a.now && !t.Limited && !t.IsBroadcast() && !a.isPaused(t) {
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
		IdempotencyKey: spec.IdempotencyKey, UniqueKey: spec.UniqueKey, FairnessKey: policy.FairnessKey,
	}
	if spec.IdempotencyKey != "" {
		t.KeyPeriod, t.KeyExpiry = spec.KeyPeriod(a.now, due)
	}
	if err := a.hasSecret(namespace, &policy); err != nil {
		return err
	}
	t.Policy.Priority = policy.PriorityOrDefault()
	t.limit(&policy)
	limited := t
	if policy.Broadcasts() { // its parts are what is limited
		t.Extra = &Extra{Broadcast: &Parts{}}
		limited = new(Task)
	}
	if policy.Concurrency != nil || policy.Rate != nil {
		return limited.keyLimits(&policy, spec.Payload)
	}
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
