package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

func (c *checker) backfill(k, v []byte) {
	b, ok := record[Backfill](c, k, v)
	if !ok {
		return
	}
	ref := b.ref()
	c.want(bytes.Equal(k, key{}.backfill(ref, b.ID)), "backfill %s: under the key %x", b.ID, k)
	n, prefix := 0, key{}.backfillTimes(ref, b.ID)
	c.r.Ascend(prefix, prefixEnd(prefix), func(_, _ []byte) bool { n++; return true })
	c.want(n == b.Left, "backfill %s: counts %d times that are left, has %d", b.ID, b.Left, n)
	c.want(b.Active == b.Fired-b.Succeeded-b.Failed, "backfill %s: %d of its tasks run, %d fired, %d succeeded, %d failed", b.ID, b.Active, b.Fired, b.Succeeded, b.Failed)
	c.want(b.State != BackfillRunning || b.Left+b.Active > 0, "backfill %s: runs with nothing left", b.ID)
	c.want((b.State == BackfillRunning) != c.has(key{}.backfillAge(&b)), "backfill %s is %v: its row by age says otherwise", b.ID, b.State)
	if b.State == BackfillRunning {
		c.running[ref]++
		_, _, exists := GetSchedule(c.r, ref)
		c.want(exists, "backfill %s: runs without its schedule", b.ID)
	}
}

func (c *checker) backfillAux(k, v []byte) {
	kr := readKey(k)
	switch kr.u8() {
	case backfillTask:
		ref := kr.ref()
		schedule, active := "", false
		if run, ok := GetRun(c.r, RunRef(ref)); ok {
			schedule, active = run.Trigger.Schedule, !run.State.Terminal()
		} else if t, ok := c.taskOf("backfill row", ref); ok {
			schedule, active = t.Schedule, !t.State.Terminal() && t.FiredBy == ByBackfill
		}
		_, exists := GetBackfill(c.r, ScheduleRef{ref.Namespace, schedule}, job.ID(v))
		c.want(kr.done() && exists && active, "backfill row of %s: active %v", ref.ID, active)
	case backfillTime:
		ref, id := kr.scheduleRef(), kr.id()
		kr.u64()
		_, exists := GetBackfill(c.r, ref, id)
		c.want(kr.done() && exists, "backfill row %x: of no backfill", k)
	default:
		at, ref, id := kr.time(), kr.scheduleRef(), kr.id()
		b, exists := GetBackfill(c.r, ref, id)
		c.want(kr.done() && exists && b.Ended == at, "backfill row %x: of no backfill", k)
	}
}

func (c *checker) backfillTallies() {
	for ref, n := range c.running {
		st, _ := GetScheduleState(c.r, ref)
		c.want(st.Backfills == n, "schedule %s: counts %d backfills that run, has %d", ref.Name, st.Backfills, n)
	}
}
