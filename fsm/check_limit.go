package fsm

import "bytes"

// holdsLimit checks that an active attempt holds what its task says, and that no
// other task says so; that a holder is such an attempt is checked from its side.
func (c *checker) holdsLimit(t *Task) {
	id, ok := t.HeldLimit()
	if !ok {
		return
	}
	c.want(t.State.Active(), "task %s: %v and holds limit %s %q", t.ID, t.State, id.Scope, id.Key)
	c.want(c.has(key{}.table(tableHolders).limit(id).id(t.ID)), "task %s: limit %s %q has no row for it", t.ID, id.Scope, id.Key)
}

// heldLimit compares the number of a limit's holders with their rows.
func (c *checker) heldLimit(k, v []byte) {
	kr := readKey(k)
	id := kr.limit()
	row, ok := decodeLimit(v)
	c.want(ok && kr.done() && row.Held > 0, "limit row %x: can't be read", k)
	n := uint32(0)
	ascendHolders(c.r, key{tableHolders}.limit(id), func(LimitID, Holder) bool {
		n++
		return true
	})
	c.want(n == row.Held, "limit %s %q: held %d times, by %d attempts", id.Scope, id.Key, row.Held, n)
}

func (c *checker) holder(k, v []byte) {
	kr := readKey(k)
	id, task := kr.limit(), kr.id()
	c.want(kr.done() && len(v) == 8, "holder row %x: can't be read", k)
	c.want(c.has(key{tableLimits}.limit(id)), "holder of limit %s %q: the limit has no row", id.Scope, id.Key)
	if t, ok := c.taskOf("holder of a limit", TaskRef{id.Namespace, task}); ok {
		held, _ := t.HeldLimit()
		c.want(held == id && t.State.Active(), "holder of limit %s %q: task %s is %v and holds %s %q",
			id.Scope, id.Key, t.ID, t.State, held.Scope, held.Key)
	}
}

func (c *checker) rate(k, v []byte) {
	kr := readKey(k)
	id := kr.limit()
	if !kr.done() || len(v) != 8 {
		c.report("rate row %x: can't be read", k)
		return
	}
	c.want(c.has(key{tableRateAge}.time(rateAge(RateState(c.r, id))).limit(id)), "rate %s %q: has no row by age", id.Scope, id.Key)
}

func (c *checker) rateAge(k, _ []byte) {
	kr := readKey(k)
	at, id := kr.time(), kr.limit()
	c.want(kr.done(), "rate age row %x: can't be read", k)
	c.want(bytes.Equal(k, key{tableRateAge}.time(rateAge(RateState(c.r, id))).limit(id)), "rate age row of %s %q at %d: the rate says %d",
		id.Scope, id.Key, at, rateAge(RateState(c.r, id)))
}
