package fsm

import "github.com/axd-project/axd/job"

// deadTask checks what a dead letter's record says, and that it has its rows.
func (c *checker) deadTask(t *Task) {
	if !t.Dead {
		return
	}
	c.want(t.State == job.Failed || t.State == job.TimedOut, "task %s: %v is a dead letter", t.ID, t.State)
	c.want(c.has(key{}.dead(t.Namespace).time(t.Ended).id(t.ID)), "task %s: a dead letter without row", t.ID)
	c.want(!t.Run.IsZero() || c.has(key{}.deadAge(t.deadFrom(), t.Ref())), "task %s: a dead letter without row by age", t.ID)
	c.counts[string(key{}.counter(countDead))]++
	c.counts[string(key{}.counter(countDeadNamespace).name(t.Namespace))]++
	if t.Job != "" {
		c.want(c.has(key{}.deadByJob(t.Namespace, t.Job).time(t.Ended).id(t.ID)), "task %s: a dead letter without row by job", t.ID)
		c.counts[string(key{}.counter(countDeadJob).name(t.Namespace).name(t.Job))]++
	}
}

func (c *checker) dead(k, _ []byte) {
	kr := readKey(k)
	ns, at, id := kr.name(), kr.time(), kr.id()
	c.want(kr.done(), "dead letter row %x: can't be read", k)
	if t, ok := c.taskOf("dead letter row", TaskRef{ns, id}); ok {
		c.want(t.Dead && t.Ended == at, "dead letter row of task %s at %d: the task is %v, ended %d", id, at, t.State, t.Ended)
	}
}

func (c *checker) deadByJob(k, _ []byte) {
	kr := readKey(k)
	ns, name, at, id := kr.name(), kr.name(), kr.time(), kr.id()
	c.want(kr.done(), "dead letter row %x: can't be read", k)
	if t, ok := c.taskOf("dead letter row by job", TaskRef{ns, id}); ok {
		c.want(t.Dead && t.Ended == at && t.Job == name, "dead letter row of task %s, job %q, at %d: the task is %v of %q, ended %d",
			id, name, at, t.State, t.Job, t.Ended)
	}
}

func (c *checker) deadAge(k, _ []byte) {
	kr := readKey(k)
	at, ref := kr.time(), kr.ref()
	c.want(kr.done(), "dead letter age row %x: can't be read", k)
	if t, ok := c.taskOf("dead letter age row", ref); ok {
		c.want(t.Dead && t.Run.IsZero() && t.deadFrom() == at, "dead letter age row of task %s at %d: the task is %v, ended %d", t.ID, at, t.State, t.Ended)
	}
}
