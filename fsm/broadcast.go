package fsm

import (
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job"
)

// A broadcast is a task that goes to every worker that fits (route.strategy:
// broadcast). When it is due the leader decides once which those are, and apply makes
// a part for each: a task that is bound to its worker, and found by the broadcast and
// the worker's name. The broadcast itself is never given to a worker. It is blocked
// until the last of its parts has ended, and then ends by what has become of them.
// Parts are kept as long as their broadcast; they leave no dead letters and no
// callbacks, which are its own.

// Parts is what a broadcast knows of its parts.
type Parts struct {
	Total     uint32 `msgpack:"t,omitempty"`
	Made      uint32 `msgpack:"m,omitempty"` // that there are
	Succeeded uint32 `msgpack:"s,omitempty"`
	Failed    uint32 `msgpack:"f,omitempty"` // or timed out
	Cancelled uint32 `msgpack:"c,omitempty"`
}

// Ended is how many of the parts have ended.
func (p *Parts) Ended() uint32 { return p.Succeeded + p.Failed + p.Cancelled }

// maxPartsAtOnce is how many parts one command makes or cancels; each takes a few rows.
const maxPartsAtOnce = 100

// broadcastAct is what goes on with a broadcast, a part of it with each command.
type broadcastAct struct {
	Workers []string `msgpack:"w,omitempty"` // for which parts are to be made
	Cancel  bool     `msgpack:"c,omitempty"` // else its parts are to be cancelled
	After   string   `msgpack:"a,omitempty"` // the last worker whose part was looked at
}

func (k key) parts(r TaskRef) key        { return k.table(tableParts).ref(r) }
func (k key) broadcastAct(r TaskRef) key { return k.table(tableBroadcastActs).ref(r) }

// IsBroadcast reports whether the task goes to every worker that fits.
func (t *Task) IsBroadcast() bool { return t.Extra != nil && t.Extra.Broadcast != nil }

// Bound is the worker that alone may run the task; empty: any may.
func (t *Task) Bound() string {
	if t.Extra == nil {
		return ""
	}
	return t.Extra.Bound
}

// Parent is the broadcast that the task is a part of; false: it is none.
func (t *Task) Parent() (TaskRef, bool) {
	if t.Extra == nil || t.Extra.Parent.IsZero() {
		return TaskRef{}, false
	}
	return TaskRef{t.Namespace, t.Extra.Parent}, true
}

// isOwn reports whether the task stands alone: others are kept as long as their run or
// broadcast.
func (t *Task) isOwn() bool {
	_, part := t.Parent()
	return t.Run.IsZero() && !part
}

func (a *apply) broadcast(c *Broadcast) Result {
	old, err := a.mayBroadcast(c)
	if err != nil {
		return rejected(err)
	}
	t := new(Task)
	*t = *old
	if c.Total > job.MaxBroadcast {
		t.Error = fmt.Sprintf("%d workers fit, and a broadcast goes to at most %d: narrow its selector or route.require", c.Total, job.MaxBroadcast)
		t.end(job.Failed, a.now)
		a.write(old, t)
		a.event(Event{Kind: EventEnded, Task: t})
		return Result{Changed: true}
	}
	t.Extra = t.Extra.clone()
	t.Extra.Broadcast = &Parts{Total: uint32(len(c.Workers))} //nolint:gosec // at most job.MaxBroadcast
	t.State, t.Retry, t.Started, t.Error = job.Blocked, false, a.now, ""
	a.write(old, t)
	r := a.makeParts(t, &broadcastAct{Workers: c.Workers})
	t, _ = a.task(c.Ref)
	a.event(Event{Kind: EventBroadcast, Task: t})
	return r
}

// mayBroadcast checks that what the leader saw when it decided still holds.
func (a *apply) mayBroadcast(c *Broadcast) (*Task, *job.Error) {
	if err := a.checkTerm(c.Term); err != nil {
		return nil, err
	}
	t, ok := a.task(c.Ref)
	switch {
	case !ok:
		return nil, stale("task", "does not exist", c.Ref.ID.String())
	case t.State != job.Pending:
		return nil, stale("task", "is "+t.State.String()+", not pending", c.Ref.ID.String())
	case t.Version != c.Version:
		return nil, stale("version", "is not the task's version, "+strconv.FormatUint(t.Version, 10), strconv.FormatUint(c.Version, 10))
	case !t.IsBroadcast():
		return nil, job.Conflict("task", "is no broadcast", c.Ref.ID.String())
	case t.Due > a.now:
		return nil, stale("task", "is due only at "+job.FormatTime(t.Due), c.Ref.ID.String())
	case c.Total > job.MaxBroadcast:
		return t, nil
	case len(c.Workers) == 0 || len(c.Workers) > job.MaxBroadcast:
		return nil, job.Invalid("workers", fmt.Sprintf("must be 1 to %d", job.MaxBroadcast), strconv.Itoa(len(c.Workers)))
	}
	for i, name := range c.Workers {
		if err := job.ValidateName("workers", name); err != nil {
			return nil, err
		}
		if i > 0 && name <= c.Workers[i-1] {
			return nil, job.Invalid("workers", "must be in the order of their names, each once", name)
		}
	}
	return t, nil
}

// continueBroadcast goes on with a broadcast; the leader asks for it.
func (a *apply) continueBroadcast(c *ContinueBroadcast) Result {
	a.key = a.key.broadcastAct(c.Ref)
	act, ok := stored[broadcastAct](a, a.key)
	t, is := a.task(c.Ref)
	switch {
	case !ok || !is:
		return rejected(job.NotFound("act", c.Ref.ID.String()))
	case act.Cancel:
		return a.cancelParts(t, act)
	}
	return a.makeParts(t, act)
}

// goesOn keeps what is left of an act, unless its broadcast has ended meanwhile.
func (a *apply) goesOn(ref TaskRef, act *broadcastAct, more bool) Result {
	t, _ := a.task(ref)
	more = more && !t.State.Terminal()
	a.key = a.key.broadcastAct(ref)
	if more {
		a.set(a.key, mustEncode(a.codec, act))
	} else if _, ok := a.tx.Get(a.key); ok {
		a.delete(a.key)
	}
	return Result{Changed: true, More: more}
}

// makeParts makes the parts of the next workers of a broadcast.
func (a *apply) makeParts(p *Task, act *broadcastAct) Result {
	ref := p.Ref()
	policy := a.policy(p)
	body, _ := BodyOf(a.tx, p)
	n := min(len(act.Workers), maxPartsAtOnce)
	succeeded := uint32(0)
	for _, worker := range act.Workers[:n] {
		a.key = a.key.parts(ref).name(worker)
		is, ok := a.tx.Get(a.key)
		switch {
		case !ok:
			a.makePart(p, &policy, body.Payload, worker)
		case a.runsAgain(TaskRef{p.Namespace, job.ID(is)}, p, &policy):
		default:
			succeeded++
		}
	}
	act.Workers = act.Workers[n:]
	now, _ := a.task(ref) // a part that could not be made has changed it
	t := now.withParts(func(b *Parts) {
		b.Made += uint32(n) //nolint:gosec // at most maxPartsAtOnce
		b.Succeeded += succeeded
	})
	a.settleParts(now, t)
	return a.goesOn(ref, act, len(act.Workers) > 0)
}

// withParts returns a copy of a broadcast whose parts have changed.
func (t *Task) withParts(change func(*Parts)) *Task {
	out := new(Task)
	*out = *t
	out.Extra = t.Extra.clone()
	out.Extra.Broadcast = new(*t.Extra.Broadcast)
	change(out.Extra.Broadcast)
	return out
}

// makePart makes the part of one worker. What its job refuses ends it at once.
func (a *apply) makePart(p *Task, policy *job.Policy, payload []byte, worker string) {
	t := &Task{
		Namespace: p.Namespace, ID: job.NewID(a.now, a.at.Index, a.next()), State: job.Pending, Job: p.Job, Offer: p.Offer, Policy: p.Policy,
		Due: a.now, Created: a.now, MaxRetries: policy.RetryOrDefault().Max(), FairnessKey: p.FairnessKey, EndBy: p.EndBy,
		Extra: &Extra{Parent: p.ID, Bound: worker},
	}
	t.waits(policy)
	var err *job.Error
	if policy.Concurrency != nil || policy.Rate != nil {
		err = t.keyLimits(policy, payload)
	}
	a.key = a.key.parts(p.Ref()).name(worker)
	a.set(a.key, t.ID[:])
	a.write(nil, t)
	if err != nil {
		a.unmade(t, err)
		return
	}
	a.event(Event{Kind: EventPending, Task: t})
}

// waits sets until when a part may wait for its worker.
func (t *Task) waits(p *job.Policy) {
	if t.QueueBy = 0; p.QueueTimeout != nil {
		t.QueueBy = p.QueueTimeoutOrDefault().Until(t.Due)
	}
}

// runsAgain makes a part of an earlier time pending, since its broadcast was replayed;
// false: it has succeeded then.
func (a *apply) runsAgain(ref TaskRef, p *Task, policy *job.Policy) bool {
	old, ok := a.task(ref)
	if !ok {
		panic("fsm: the state is damaged: a part of broadcast " + p.ID.String() + " is gone")
	}
	if old.State == job.Success {
		return false
	}
	t := new(Task)
	*t = *old
	t.State, t.Ended, t.Retries, t.TooLate, t.CancelRequested = job.Pending, 0, 0, false, false
	t.Due, t.MaxRetries, t.EndBy = a.now, policy.RetryOrDefault().Max(), p.EndBy
	t.waits(policy)
	a.write(old, t)
	a.event(Event{Kind: EventPending, Task: t})
	return true
}

// partMoved tells a broadcast that one of its parts has ended.
func (a *apply) partMoved(old, t *Task) {
	ref, part := t.Parent()
	if !part || old == nil || old.State.Terminal() || !t.State.Terminal() {
		return
	}
	p, ok := a.task(ref)
	if !ok || !p.IsBroadcast() {
		panic("fsm: the state is damaged: the broadcast of part " + t.ID.String() + " is gone")
	}
	a.settleParts(p, p.withParts(func(b *Parts) {
		switch t.State {
		case job.Success:
			b.Succeeded++
		case job.Cancelled:
			b.Cancelled++
		default:
			b.Failed++
		}
	}))
}

// settleParts writes a broadcast, and ends it with its last part: all must have
// succeeded.
func (a *apply) settleParts(old, t *Task) {
	b := t.Extra.Broadcast
	if b.Made < b.Total || b.Ended() < b.Total {
		a.write(old, t)
		return
	}
	switch {
	case b.Succeeded == b.Total:
		t.Error = ""
		t.end(job.Success, a.now)
	case t.CancelRequested:
		t.end(job.Cancelled, a.now)
	case b.Failed > 0:
		t.Error = fmt.Sprintf("it failed on %d of %d workers", b.Failed, b.Total)
		if b.Cancelled > 0 {
			t.Error += fmt.Sprintf(", and was cancelled on %d", b.Cancelled)
		}
		t.end(job.Failed, a.now)
	default:
		t.Error = fmt.Sprintf("it was cancelled on %d of %d workers", b.Cancelled, b.Total)
		t.end(job.Cancelled, a.now)
	}
	a.write(old, t)
	a.event(Event{Kind: EventEnded, Task: t})
}

// cancelBroadcast cancels the parts of a broadcast, which ends with the last of them.
func (a *apply) cancelBroadcast(old *Task, why string) *Task {
	t := old.withParts(func(b *Parts) { b.Total = b.Made })
	t.CancelRequested, t.Error = true, why
	a.settleParts(old, t)
	a.cancelParts(t, &broadcastAct{Cancel: true})
	t, _ = a.task(t.Ref())
	return t
}

func (a *apply) cancelParts(p *Task, act *broadcastAct) Result {
	ref, why := p.Ref(), p.Error
	prefix := key{}.parts(ref)
	from := prefix
	if act.After != "" {
		from = append(key{}.parts(ref).name(act.After), 0)
	}
	var parts []job.ID
	more := false
	a.tx.Ascend(from, prefixEnd(prefix), func(k, v []byte) bool {
		if len(parts) == maxPartsAtOnce {
			more = true
			return false
		}
		kr := keyReader{rest: k[len(prefix):]}
		act.After = kr.name()
		parts = append(parts, job.ID(v))
		return true
	})
	for _, id := range parts {
		if t, ok := a.task(TaskRef{p.Namespace, id}); ok && !t.State.Terminal() && !t.CancelRequested {
			a.cancelTask(t, why)
		}
	}
	return a.goesOn(ref, act, more)
}

// endParts ends parts whose worker is gone for good.
func (a *apply) endParts(c *EndParts) Result {
	return a.asSeen(c.Term, c.Parts, a.endPart)
}

func (a *apply) endPart(old *Task) *job.Error {
	if old.State != job.Pending || old.Bound() == "" {
		return stale("task", "is no part that waits for its worker", old.ID.String())
	}
	if _, ok := a.worker(old.Bound()); ok {
		return stale("worker", "is registered", old.Bound())
	}
	t := new(Task)
	*t = *old
	t.Error = "its worker " + t.Bound() + " was forgotten"
	t.end(job.Failed, a.now)
	a.write(old, t)
	a.event(Event{Kind: EventEnded, Task: t})
	return nil
}

// deleteParts deletes parts of an ended broadcast as far as a budget of rows goes;
// done: none is left.
func (a *apply) deleteParts(p *Task, budget int) (left int, done bool) {
	prefix := key{}.parts(p.Ref())
	var rows []key
	var parts []job.ID
	most := budget / 3 // a part has at least as many rows
	done = true
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		if len(parts) == most {
			done = false
			return false
		}
		rows, parts = append(rows, append(key{}, k...)), append(parts, job.ID(v))
		return true
	})
	for i, id := range parts {
		if budget < maxTaskRows+1 {
			return budget, false
		}
		t, ok := a.task(TaskRef{p.Namespace, id})
		if !ok {
			damaged(rows[i])
		}
		budget -= a.deleteTask(t) + 1
		a.delete(rows[i])
	}
	return budget, done
}

// ListBroadcastActs reads the broadcasts that the leader is to go on with.
func ListBroadcastActs(r Reader, limit int) (refs []TaskRef) {
	r.Ascend([]byte{tableBroadcastActs}, tableEnd(tableBroadcastActs), func(k, _ []byte) bool {
		refs = append(refs, readKey(k).ref())
		return len(refs) < limit
	})
	return refs
}

// ListParts reads the first parts of a broadcast, by the names of their workers.
func ListParts(r Reader, p *Task, limit int) []Task {
	if !p.IsBroadcast() {
		return nil
	}
	prefix := key{}.parts(p.Ref())
	var ids []job.ID
	r.Ascend(prefix, prefixEnd(prefix), func(_, v []byte) bool {
		ids = append(ids, job.ID(v))
		return len(ids) < limit
	})
	parts := make([]Task, 0, len(ids))
	for _, id := range ids {
		if t, ok := GetTask(r, TaskRef{p.Namespace, id}); ok {
			parts = append(parts, t)
		}
	}
	return parts
}
