package fsm

import "github.com/axd-project/axd/job"

// claimsUnique checks that a task that has not ended holds its unique key; that an
// ended one holds none is checked from the row's side.
func (c *checker) claimsUnique(t *Task) {
	if t.UniqueKey == "" || t.State.Terminal() {
		return
	}
	id, ok := GetUniqueHolder(c.r, t.Namespace, t.UniqueKey)
	c.want(ok && id == t.ID, "task %s: %v, and unique key %q has no row for it", t.ID, t.State, t.UniqueKey)
}

func (c *checker) unique(k, v []byte) {
	kr := readKey(k)
	ns, name := kr.name(), kr.name()
	if !kr.done() || len(v) != idLen {
		c.report("unique key row %x: can't be read", k)
		return
	}
	if t, ok := c.taskOf("unique key", TaskRef{ns, job.ID(v)}); ok {
		c.want(t.UniqueKey == name && !t.State.Terminal(), "unique key %q: task %s is %v and has %q", name, t.ID, t.State, t.UniqueKey)
	}
}
