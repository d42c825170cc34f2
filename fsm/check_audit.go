package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

func (c *checker) audit(k, v []byte) {
	t, ok := record[Audit](c, k, v)
	if !ok {
		return
	}
	c.want(bytes.Equal(k, key{}.audit(t.ID)), "audit record %s: under the key %x", t.ID, k)
	c.want(t.ID.Time() == t.At, "audit record %s: of %d, its id says %d", t.ID, t.At, t.ID.Time())
	t.auditKeys(func(by key) { c.want(c.has(by), "audit record %s: has no row %x", t.ID, by) })
	c.counts[string(key{}.counter(countAudit))]++
}

func (c *checker) auditBy(k, _ []byte) {
	if len(k) < 1+idLen {
		c.report("audit index row %x: can't be read", k)
		return
	}
	id := inverse(job.ID(k[len(k)-idLen:]))
	b, ok := c.r.Get(key{}.audit(id))
	if !ok {
		c.report("audit index row %x: record %s does not exist", k, id)
		return
	}
	found := false
	if t, ok := record[Audit](c, k, bytes.Clone(b)); ok {
		t.auditKeys(func(by key) { found = found || bytes.Equal(by, k) })
		c.want(found, "audit index row %x: not of record %s", k, id)
	}
}
