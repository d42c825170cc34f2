package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// Ref names the task.
func (t *Task) Ref() TaskRef { return TaskRef{Namespace: t.Namespace, ID: t.ID} }

func (t *Task) dueKey() DueKey { return DueKey{Due: t.Due, ID: t.ID, Namespace: t.Namespace} }

// RunRef names the run that the task is a step of.
func (t *Task) RunRef() RunRef { return RunRef{Namespace: t.Namespace, ID: t.Run} }

// retainFrom is when the retention of an ended task begins: the time of its row
// in tableEnded.
func (t *Task) retainFrom() int64 { return max(t.Ended, t.KeyExpiry) }

// task reads a task, an active one through the cache; the caller must not change it.
func (a *apply) task(ref TaskRef) (*Task, bool) {
	if held, ok := a.active[ref]; ok {
		return held.task, true
	}
	a.key = a.key.task(ref)
	return stored[Task](a, a.key)
}

// stored reads a row; what it returns is the caller's.
func stored[T any](a *apply, k key) (*T, bool) {
	b, ok := a.tx.Get(k)
	if !ok {
		return nil, false
	}
	row := new(T)
	mustDecode(a.codec, k, b, row)
	return row, true
}

// held reads the task of an attempt whose token is the current one.
func (a *apply) held(ref AttemptRef) (*Task, *job.Error) {
	t, ok := a.task(ref.Ref)
	if !ok {
		return nil, job.NotFound("task", ref.Ref.ID.String())
	}
	return t, t.isHeld(ref.Token)
}

// isHeld refuses a token that is not that of the task's current attempt.
func (t *Task) isHeld(token job.Token) *job.Error {
	if token.IsZero() || token != t.Token && !(mutant.AnyToken && t.State.Active()) {
		return stale("token", "is not the token of the task's current attempt", token.String())
	}
	return nil
}

func stale(field, rule, value string) *job.Error {
	return &job.Error{Code: job.CodeStale, Field: field, Rule: rule, Value: job.Shorten(value)}
}

// write stores t, which was old before (nil: it is new), and moves its rows in
// the indexes and its place in the counters. The row of tableActive is set by
// the verb that gives an attempt, and deleted here.
func (a *apply) write(old, t *Task) {
	t.Version++
	ended := t.State.Terminal() && old != nil && !old.State.Terminal()
	var next *Task
	if _, part := t.Parent(); ended && !part {
		next = a.bury(t)
		if t.Run.IsZero() || !a.neverRan(t) {
			a.owe(t)
		}
	} else if mutant.CallbackEarly && t.State == job.Running && old.State != job.Running {
		a.owe(t)
	}
	if t.Holds != "" && !t.State.Active() && !mutant.LimitKept {
		a.freeLimit(t)
	}
	ref := t.Ref()
	a.key = a.key.task(ref)
	a.value = a.codec.appendTask(a.value[:0], t)
	a.set(a.key, a.value)
	a.remember(ref, t)
	a.moveDue(old, t)
	if t.QueueBy|t.EndBy != 0 || old != nil && old.QueueBy|old.EndBy != 0 {
		a.moveDeadline(old, t)
	}
	if old == nil {
		if t.Job != "" {
			a.key = a.key.byJob(t.Namespace, t.Job).id(t.ID)
			a.set(a.key, nil)
		}
	} else if old.State != t.State && !mutant.CounterKept {
		a.count(t, old.State, -1)
	}
	if old == nil || old.State != t.State {
		a.count(t, t.State, +1)
	}
	if old != nil {
		a.moveEnd(old, t, ended)
	}
	if t.Schedule != "" && old != nil && old.State.Terminal() != t.State.Terminal() {
		a.taskMoved(t)
	}
	if len(a.awaited) > 0 && t.State == job.Success && old != nil && old.State != job.Success {
		a.taskSucceeded(t)
	}
	if next != nil {
		a.write(nil, next)
		a.event(Event{Kind: EventPending, Task: next})
	}
	if !t.Run.IsZero() {
		a.stepMoved(old, t)
	}
	if t.Extra != nil {
		a.partMoved(old, t)
	}
}

// moveEnd moves the rows that a task has while a worker holds it, and once it has
// ended.
func (a *apply) moveEnd(old, t *Task, ended bool) {
	if old.State.Active() && !t.State.Active() {
		a.key = a.key.active(old.Worker, t.Ref())
		a.delete(a.key)
	}
	if old.State != t.State {
		if old.State.Terminal() {
			a.key = a.key.byState(old.Namespace, old.State).id(old.ID)
			a.delete(a.key)
		}
		if t.State.Terminal() {
			a.key = a.key.byState(t.Namespace, t.State).id(t.ID)
			a.set(a.key, nil)
		}
	}
	if !ended {
		return
	}
	a.freeUnique(t)
	switch {
	case t.Dead:
		a.putDead(t)
	case t.isOwn(): // else it is kept as long as what it belongs to
		a.key = a.key.ended(t.retainFrom(), t.Ref())
		a.set(a.key, nil)
	}
}

// remember keeps the cache of active tasks. After write nobody changes t.
func (a *apply) remember(ref TaskRef, t *Task) {
	if !t.State.Active() {
		delete(a.active, ref)
		return
	}
	held := a.active[ref]
	held.task = t
	a.active[ref] = held
}

// moveDue keeps the due index equal to the pending tasks.
func (a *apply) moveDue(old, t *Task) {
	was, is := old != nil && old.State == job.Pending, t.State == job.Pending
	same := was && is && old.Policy.Priority == t.Policy.Priority && old.Due == t.Due
	if was && !same {
		a.key = a.key.dueRow(old.Policy.Priority, old.dueKey())
		a.delete(a.key)
	}
	if is && (!same || old.Retry != t.Retry) {
		a.key = a.key.dueRow(t.Policy.Priority, t.dueKey())
		mark := byte(0)
		if t.Retry {
			mark = 1
		}
		a.value = append(a.value[:0], mark)
		if t.Limited || t.FairnessKey != "" {
			a.value = binary.BigEndian.AppendUint64(a.value, t.Hint())
		}
		a.set(a.key, a.value)
		a.lower(t.Policy.Priority, a.key[dueSuffix:])
	}
}

// dueSuffix is where the part of a key of tableDue begins that a low mark holds.
const dueSuffix = 2

// lower moves the low mark of a priority down to a row that was inserted before it.
func (a *apply) lower(p job.Priority, row []byte) {
	if mark := a.low[p]; mark != nil && bytes.Compare(row, mark) < 0 {
		a.setLow(p, row)
	}
}

func (a *apply) setLow(p job.Priority, row []byte) {
	a.low[p] = bytes.Clone(row)
	a.set(key{}.low(p), a.low[p])
}

// attempt reads an attempt; the copy is the caller's.
func (a *apply) attempt(ref TaskRef, n uint32) (*Attempt, bool) {
	a.key = a.key.attempt(ref, n)
	return stored[Attempt](a, a.key)
}

// currentAttempt reads the attempt that an active task has by invariant.
func (a *apply) currentAttempt(t *Task) *Attempt {
	if held := a.active[t.Ref()]; held.attempt != nil {
		at := *held.attempt
		return &at
	}
	at, ok := a.attempt(t.Ref(), t.Attempt)
	if !ok {
		panic(fmt.Sprintf("fsm: the state is damaged: task %s has no attempt %d", t.ID, t.Attempt))
	}
	return at
}

func (a *apply) putAttempt(ref TaskRef, at *Attempt) {
	a.key = a.key.attempt(ref, at.Number)
	a.value = appendAttempt(a.value[:0], at)
	a.set(a.key, a.value)
	if held, ok := a.active[ref]; ok && held.task.Attempt == at.Number {
		held.attempt = at
		a.active[ref] = held
	}
}

// putActive writes the row that says which attempt a worker holds.
func (a *apply) putActive(t *Task, boot string) {
	a.key = a.key.active(t.Worker, t.Ref())
	a.value = appendActive(a.value[:0], activeRow{
		Due: t.Due, Token: t.Token, Attempt: t.Attempt, Running: t.State == job.Running, Boot: boot,
		Priority: t.Policy.Priority,
	})
	a.set(a.key, a.value)
}

// job reads a job through the cache; the caller must not change it.
func (a *apply) job(namespace, name string) (*Job, bool) {
	n := jobName{namespace, name}
	if j, ok := a.jobs[n]; ok {
		return j, true
	}
	a.key = a.key.job(namespace, name)
	j, ok := stored[Job](a, a.key)
	if ok {
		a.jobs[n] = j
	}
	return j, ok
}

// policy is what holds for a task: its job's policy, where the task says nothing else.
func (a *apply) policy(t *Task) job.Policy {
	if t.Job == "" {
		return t.Policy
	}
	j, ok := a.job(t.Namespace, t.Job)
	if !ok { // refused by deleteJob as long as the task could still run
		return t.Policy
	}
	return j.Spec.Policy.Merge(t.Policy)
}

// worker reads a worker through the cache; the caller must not change it.
func (a *apply) worker(name string) (*Worker, bool) {
	if w, ok := a.workers[name]; ok {
		return w, true
	}
	a.key = a.key.worker(name)
	w, ok := stored[Worker](a, a.key)
	if ok {
		a.workers[name] = w
	}
	return w, ok
}

// putWorker writes a worker; it must not be changed afterwards.
func (a *apply) putWorker(w *Worker) {
	w.Changed = a.now
	a.key = a.key.worker(w.Name)
	a.set(a.key, mustEncode(a.codec, w))
	a.workers[w.Name] = w
	a.event(Event{Kind: EventWorkerChanged, Worker: w.Name})
}
