package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// callback checks a callback and that it has its rows in the indexes: those owed
// are exactly what terminal tasks have asked for and nobody has confirmed. A task
// may be gone before what it is owed.
func (c *checker) callback(k, v []byte) {
	cb, ok := record[Callback](c, k, v)
	if !ok {
		return
	}
	id := cb.Ref().String()
	c.want(bytes.Equal(k, key{}.callback(cb.Ref())), "callback %s: under the key %x", id, k)
	c.want((cb.URL == "") != (cb.Job == ""), "callback %s: to %q and job %q", id, cb.URL, cb.Job)
	c.want(cb.End.State.Terminal(), "callback %s: of a task that is %v", id, cb.End.State)
	owed := cb.State == CallbackOwed
	c.want(owed || cb.State == CallbackDelivered || cb.State == CallbackDead, "callback %s: unknown state %d", id, cb.State)
	settled, due := cb.Settled != 0, cb.Due != 0
	c.want(settled != owed && due == owed, "callback %s: %v, due %d, settled %d", id, cb.State, cb.Due, cb.Settled)
	c.want(cb.Job == "" || !owed, "callback %s: job %s was not run", id, cb.Job)
	c.want(cb.Tries <= job.CallbackRetry.Max()+1, "callback %s: %d tries", id, cb.Tries)
	c.want(c.has(key{}.callbackState(cb.Namespace, cb.State).id(cb.Task).u64(cb.N)), "callback %s: has no row by state %v", id, cb.State)
	if owed {
		c.want(c.has(key{}.callbackDue(&cb)), "callback %s: owed without a due row", id)
	} else {
		c.want(c.has(key{}.callbackAge(&cb)), "callback %s: %v without a row by age", id, cb.State)
	}
	b, ok := c.r.Get(key{}.task(cb.Ref().Task))
	if !ok {
		return
	}
	if t, ok := record[Task](c, k, bytes.Clone(b)); ok {
		c.want(cb.N <= t.Version, "callback %s: the task is at version %d", id, t.Version)
		c.want(t.Callback == 0 || cb.N <= t.Callback, "callback %s: the task's newest is %d", id, t.Callback)
	}
}

// callbackOf reads the callback that a row of an index belongs to.
func (c *checker) callbackOf(what string, ref CallbackRef) (Callback, bool) {
	b, ok := c.r.Get(key{}.callback(ref))
	if !ok {
		c.report("%s: callback %s does not exist", what, ref)
		return Callback{}, false
	}
	return record[Callback](c, key{}.callback(ref), bytes.Clone(b))
}

func (c *checker) callbackDue(k, _ []byte) {
	kr := readKey(k)
	target, due, ref := kr.name(), kr.time(), kr.callbackRest()
	c.want(kr.done(), "callback due row %x: can't be read", k)
	if cb, ok := c.callbackOf("callback due row", ref); ok {
		c.want(cb.State == CallbackOwed && cb.Due == due && cb.Target() == target,
			"callback due row of %s to %s at %d: it is %v to %s, due %d", ref, target, due, cb.State, cb.Target(), cb.Due)
	}
}

func (c *checker) callbackState(k, _ []byte) {
	kr := readKey(k)
	ns, state := kr.name(), CallbackState(kr.u8())
	ref := CallbackRef{TaskRef{ns, kr.id()}, kr.u64()}
	c.want(kr.done(), "callback state row %x: can't be read", k)
	if cb, ok := c.callbackOf("callback state row", ref); ok {
		c.want(cb.State == state, "callback state row of %s: %v, it is %v", ref, state, cb.State)
	}
}

func (c *checker) callbackAge(k, _ []byte) {
	kr := readKey(k)
	at, ref := kr.time(), kr.callbackRest()
	c.want(kr.done(), "callback age row %x: can't be read", k)
	if cb, ok := c.callbackOf("callback age row", ref); ok {
		c.want(cb.State != CallbackOwed && cb.Settled == at, "callback age row of %s at %d: it is %v, settled %d", ref, at, cb.State, cb.Settled)
	}
}
