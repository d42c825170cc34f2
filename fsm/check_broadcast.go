package fsm

import "github.com/axd-project/axd/job"

// partTally is what one broadcast says of its parts, and what there is of them.
type partTally struct{ open, found int }

// ofBroadcast checks what a broadcast, or a part of one, says of itself.
func (c *checker) ofBroadcast(t *Task) {
	if ref, ok := t.Parent(); ok {
		b, _ := c.r.Get(key{}.parts(ref).name(t.Bound()))
		c.want(len(b) == idLen && job.ID(b) == t.ID, "task %s: is no part of broadcast %s for worker %s", t.ID, ref.ID, t.Bound())
		c.want(!t.Dead && t.Callback == 0, "task %s: a part that is a dead letter or owes a callback", t.ID)
		if !t.State.Terminal() {
			tally := c.parts[ref]
			tally.found++
			c.parts[ref] = tally
		}
		return
	}
	if !t.IsBroadcast() {
		return
	}
	b := t.Extra.Broadcast
	c.want(!t.State.Active() && t.Attempt == 0, "task %s: a broadcast that a worker was given", t.ID)
	c.want(b.Ended() <= b.Made && b.Made <= b.Total, "task %s: %d of %d parts, %d ended", t.ID, b.Made, b.Total, b.Ended())
	if t.State == job.Blocked {
		c.want(b.Ended() < b.Total, "task %s: all parts have ended, and it has not", t.ID)
		c.want(b.Made == b.Total || c.has(key{}.broadcastAct(t.Ref())), "task %s: %d of %d parts, and nothing goes on", t.ID, b.Made, b.Total)
		tally := c.parts[t.Ref()]
		tally.open = int(b.Made - b.Ended())
		c.parts[t.Ref()] = tally
	}
}

func (c *checker) part(k, v []byte) {
	kr := readKey(k)
	ref, worker := kr.ref(), kr.name()
	if !kr.done() || len(v) != idLen {
		c.report("part row %x: can't be read", k)
		return
	}
	p, ok := c.taskOf("part row", ref)
	c.want(!ok || p.IsBroadcast(), "part row of task %s: it is no broadcast", ref.ID)
	if t, ok := c.taskOf("part row", TaskRef{ref.Namespace, job.ID(v)}); ok {
		of, _ := t.Parent()
		c.want(of == ref && t.Bound() == worker, "part row of broadcast %s for worker %s: the task is of %s for %s", ref.ID, worker, of.ID, t.Bound())
	}
}

func (c *checker) broadcastAct(k, v []byte) {
	ref := readKey(k).ref()
	act, ok := record[broadcastAct](c, k, v)
	t, is := c.taskOf("broadcast act", ref)
	if ok && is {
		c.want(t.IsBroadcast() && t.State == job.Blocked && act.Cancel == t.CancelRequested && act.Cancel == (len(act.Workers) == 0),
			"broadcast act of task %s: it is %v", ref.ID, t.State)
	}
}

func (c *checker) partTallies() {
	for ref, n := range c.parts {
		c.want(n.open == n.found, "task %s: %d of its parts have not ended, it counts %d", ref.ID, n.found, n.open)
	}
}
