package fsm

import (
	"strconv"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// owe records what is owed to the outside for a task's end, in the very write
// that ends it, whatever ended it. A job is run at once.
func (a *apply) owe(t *Task) {
	url, run, secret := a.wantsCallback(t)
	if run != "" && !t.CallbackOf.IsZero() {
		return // else two jobs that call each other would never end
	}
	if url == "" && run == "" {
		return
	}
	t.Callback = t.Version
	c := &Callback{
		Namespace: t.Namespace, Task: t.ID, N: t.Version, State: CallbackOwed, URL: url, Job: run, Secret: secret, Created: a.now, Due: a.now,
		End: CallbackEnd{
			Job: t.Job, State: t.State, Attempt: t.Attempt, ExitCode: t.ExitCode, Error: t.Error,
			Created: t.Created, Due: t.Due, Started: t.Started, Ended: t.Ended,
		},
	}
	if run != "" {
		a.runCallback(c)
	}
	a.putCallback(nil, c)
}

// runCallback makes the task of a callback that is a job, and settles it.
func (a *apply) runCallback(c *Callback) {
	c.Tries++
	c.Tried, c.Settled, c.Due = a.now, a.now, 0
	spec := job.TaskSpec{Job: c.Job, Payload: CallbackBody(a.tx, c)}
	t := new(Task)
	if err := a.plan(c.Namespace, &spec, t); err != nil {
		c.State, c.Error = CallbackDead, cut(err.Error())
		return
	}
	t.ID = job.NewID(a.now, a.at.Index, a.next())
	t.CallbackOf = c.Task
	a.putBody(t, &Body{Payload: spec.Payload})
	a.write(nil, t)
	a.event(Event{Kind: EventPending, Task: t})
	c.State, c.Started, c.Error = CallbackDelivered, t.ID, ""
}

// putCallback writes a callback, which was old before (nil: it is new), and moves
// its rows in the indexes.
func (a *apply) putCallback(old, c *Callback) {
	c.Version++
	if old != nil {
		a.key = a.indexOf(old)
		a.delete(a.key)
		if old.State != c.State {
			a.key = a.key.callbackState(c.Namespace, old.State).id(c.Task).u64(c.N)
			a.delete(a.key)
		}
	}
	a.key = a.key.callback(c.Ref())
	a.set(a.key, mustEncode(a.codec, c))
	a.key = a.indexOf(c)
	a.set(a.key, nil)
	if old == nil || old.State != c.State {
		a.key = a.key.callbackState(c.Namespace, c.State).id(c.Task).u64(c.N)
		a.set(a.key, nil)
	}
	if c.State == CallbackOwed {
		a.event(Event{Kind: EventCallback, Callback: c})
	}
}

// indexOf is the key by which the callback is found in time: when it is due, or
// since when it has been settled.
func (a *apply) indexOf(c *Callback) key {
	if c.State == CallbackOwed {
		return a.key.callbackDue(c)
	}
	return a.key.callbackAge(c)
}

func (a *apply) callback(ref CallbackRef) (*Callback, *job.Error) {
	a.key = a.key.callback(ref)
	c, ok := stored[Callback](a, a.key)
	if !ok {
		return nil, job.NotFound("callback", ref.String())
	}
	return c, nil
}

// callbackTried records what came of sending a callback.
func (a *apply) callbackTried(r *CallbackTried) Result {
	if err := a.checkTerm(r.Term); err != nil {
		return rejected(err)
	}
	old, err := a.callback(r.Ref)
	switch {
	case err != nil:
		return rejected(err)
	case old.Version != r.Version:
		return rejected(stale("version", "is not the callback's version, "+strconv.FormatUint(old.Version, 10),
			strconv.FormatUint(r.Version, 10)))
	case old.State != CallbackOwed:
		return rejected(stale("callback", "is "+old.State.String()+", not owed", r.Ref.String()))
	}
	c := new(Callback)
	*c = *old
	c.Tries++
	c.Tried, c.Status, c.Error = a.now, r.Status, cut(r.Error)
	switch {
	case r.OK || mutant.CallbackLost:
		c.State, c.Due, c.Settled = CallbackDelivered, 0, a.now
	case c.Tries > job.CallbackRetry.Max():
		c.State, c.Due, c.Settled = CallbackDead, 0, a.now
	default:
		c.Due = a.now + job.CallbackRetry.Delay(c.Tries, draw(c.Task, uint32(c.Version))).Milliseconds() //nolint:gosec // any number does
	}
	a.putCallback(old, c)
	return Result{Changed: true}
}

// redeliver makes a callback owed once more, under its old id. One that still is
// becomes due at once.
func (a *apply) redeliver(r *Redeliver) Result {
	old, err := a.callback(r.Ref)
	if err != nil {
		return rejected(err)
	}
	c := new(Callback)
	*c = *old
	c.Tries = 0
	if c.Job != "" {
		a.runCallback(c)
	} else {
		c.State, c.Due, c.Settled = CallbackOwed, a.now, 0
	}
	a.putCallback(old, c)
	return Result{Changed: true}
}

// callbackRows is how many rows the deletion of a settled callback touches: its
// own, by state, by age, and its task.
const callbackRows = 4

// expireCallbacks deletes callbacks that were settled before the limit, the
// earliest first, and returns how many rows of the budget are left.
func (a *apply) expireCallbacks(before int64, budget int, r *Result) int {
	var found []CallbackRef
	a.tx.Ascend(key{tableCallbackAge}, key{tableCallbackAge}.time(before), func(k, _ []byte) bool {
		if len(found) == budget/callbackRows {
			r.More = true
			return false
		}
		kr := readKey(k)
		kr.time()
		found = append(found, kr.callbackRest())
		return true
	})
	for _, ref := range found {
		c, err := a.callback(ref)
		if err != nil {
			panic("fsm: the state is damaged: a settled callback is gone: " + ref.String())
		}
		a.key = a.key.callback(ref)
		a.delete(a.key)
		a.key = a.key.callbackState(c.Namespace, c.State).id(c.Task).u64(c.N)
		a.delete(a.key)
		a.key = a.key.callbackAge(c)
		a.delete(a.key)
		r.Deleted++
		if old, ok := a.task(ref.Task); ok && old.Callback == ref.N {
			t := new(Task)
			*t = *old
			t.Callback = 0
			a.write(old, t)
			if t.State == job.Pending { // it was replayed: the leader must know its version
				a.event(Event{Kind: EventPending, Task: t})
			}
		}
	}
	return budget - callbackRows*len(found)
}
