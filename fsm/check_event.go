package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

func (c *checker) relation(k, _ []byte) {
	kr := readKey(k)
	kr.u8()
	ref := ScheduleRef{Namespace: kr.name()}
	kr.name()
	ref.Name = kr.name()
	s, _, ok := GetSchedule(c.r, ref)
	u, has := relations(ref, &s.Spec)[string(k)]
	c.want(kr.done() && ok && has, "relation row %x: not of schedule %s", k, ref.Name)
	if awaitable(u.kind) {
		c.want(upstreamExists(c.r, u), "schedule %s: waits for %s, which does not exist", ref.Name, u.label())
	}
}

func (c *checker) sentEvent(k, v []byte) {
	e, ok := record[SentEvent](c, k, v)
	if !ok {
		return
	}
	c.want(bytes.Equal(k, key{}.event(e.Namespace, e.Name).id(inverse(e.ID))), "event %s: under the key %x", e.ID, k)
	c.want(c.has(key{}.eventAge(&e)), "event %s: has no row by age", e.ID)
	c.want(e.Open == c.has(key{}.scheduleAct(ActEvent, e.actRef())), "event %s: goes on %v, its act says otherwise", e.ID, e.Open)
	c.counts[string(key{}.counter(countEvents))]++
}

func (c *checker) eventAux(k, v []byte) {
	kr := readKey(k)
	kind := kr.u8()
	at := int64(0)
	if kind == eventAge {
		at = kr.time()
	}
	ns, name := kr.name(), kr.name()
	var id job.ID
	dedup := ""
	if kind == eventAge {
		id = kr.id()
	} else if dedup = kr.name(); len(v) == idLen {
		id = job.ID(v)
	}
	e, ok := GetEvent(c.r, ns, name, id)
	c.want(kr.done() && ok && (kind == eventAge && e.At == at || kind == eventDedup && e.Dedup == dedup), "event row %x: of no event", k)
}
