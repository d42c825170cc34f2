package fsm

import (
	"bytes"

	"github.com/axd-project/axd/job"
)

// schedule checks a schedule with its state and the row of its next time.
func (c *checker) schedule(k, v []byte) {
	s, ok := record[Schedule](c, k, v)
	if !ok {
		return
	}
	ref := s.Ref()
	c.want(bytes.Equal(k, key{}.schedule(ref)), "schedule %s: under the key %x", s.Name, k)
	c.counts[string(key{}.counter(countSchedules).name(s.Namespace))]++
	c.counts[string(key{}.counter(countSchedules).name(""))]++
	b, found := c.r.Get(key{}.scheduleState(ref))
	if !found {
		c.report("schedule %s: has no state", s.Name)
		return
	}
	st, ok := record[ScheduleState](c, k, bytes.Clone(b))
	if !ok {
		return
	}
	for row := range relations(ref, &s.Spec) {
		c.want(c.has(key(row)), "schedule %s: has no row %x", s.Name, row)
	}
	if st.Unfired > 0 {
		c.counts[string(key{}.counter(countUnfired))]++
	}
	c.want(!st.Alerted || st.Unfired > 0, "schedule %s: has an alert for nothing", s.Name)
	c.want(st.ID == s.ID, "schedule %s: its state is of %s", s.Name, st.ID)
	c.want(st.Active >= 0 && st.Queued >= 0, "schedule %s: %d active, %d queued", s.Name, st.Active, st.Queued)
	c.want(st.Next == 0 || st.Next > st.Cursor, "schedule %s: next %d, cursor %d", s.Name, st.Next, st.Cursor)
	c.want(st.Next <= st.NextAt, "schedule %s: next %d, due %d", s.Name, st.Next, st.NextAt)
	if at, waits := st.DueAt(); waits {
		c.want(c.has(key{}.scheduleDue(at, ref)), "schedule %s: waits without a due row", s.Name)
	}
	n, prefix := 0, key{}.fireQueue(ref)
	c.r.Ascend(prefix, prefixEnd(prefix), func(_, _ []byte) bool { n++; return true })
	c.want(n == st.Queued, "schedule %s: counts %d times that wait, has %d", s.Name, st.Queued, n)
	waits := len(ListJoinWaits(c.r, ref, nil, MaxJoinWaits+1))
	c.want(waits == st.Waiting, "schedule %s: counts %d times that wait for upstreams, has %d", s.Name, st.Waiting, waits)
	c.want(st.Rejudge == c.has(key{}.joinDue(JoinWait{Ref: ref})), "schedule %s: its joins are to be judged %v, the row says otherwise", s.Name, st.Rejudge)
	c.want(st.Queued == 0 || st.Active > 0 || !st.Planned, "schedule %s: %d times wait for nothing", s.Name, st.Queued)
	c.calendarsOf(ref, s.Spec.Calendars)
	c.fired[ref] = scheduleTally{id: s.ID, want: st.Active}
}

// scheduleTally counts what a schedule fired and has not ended.
type scheduleTally struct {
	id         job.ID
	want, seen int
}

func (c *checker) scheduleState(k, _ []byte) {
	kr := readKey(k)
	ref := kr.scheduleRef()
	c.want(kr.done() && c.has(key{}.schedule(ref)), "schedule state %x: of no schedule", k)
}

func (c *checker) scheduleDueRow(k, _ []byte) {
	kr := readKey(k)
	at, ref := kr.time(), kr.scheduleRef()
	b, ok := c.r.Get(key{}.scheduleState(ref))
	if !ok || !kr.done() {
		c.report("schedule due row %x: of no schedule", k)
		return
	}
	if st, ok := record[ScheduleState](c, k, bytes.Clone(b)); ok {
		due, waits := st.DueAt()
		c.want(waits && due == at, "schedule %s: has a due row at %d, waits %v until %d", ref.Name, at, waits, due)
	}
}

// fire checks a row of a ledger: one verdict for each planned time, so that no span
// holds a time that has a row of its own.
func (c *checker) fire(k, v []byte) {
	f, ok := record[Fire](c, k, v)
	if !ok {
		return
	}
	name := f.Schedule
	c.counts[string(key{}.counter(countFires))]++
	c.want(bytes.Equal(k, key{}.fire(&f)), "fire %d of %s: under the key %x", f.Nominal, name, k)
	c.want(f.Verdict >= VerdictQueued && f.Verdict <= VerdictWaiting, "fire %d of %s: unknown verdict %d", f.Nominal, name, f.Verdict)
	c.want((f.Verdict == VerdictFired) == (!f.Task.IsZero() || !f.Run.IsZero() || f.List != nil), "fire %d of %s: %v, task %s, run %s", f.Nominal, name, f.Verdict, f.Task, f.Run)
	c.want(f.List == nil || f.List.State != ListOwed || c.has(key{}.listFetch(TaskRef{f.Namespace, f.List.ID})), "fire %d of %s: its list is owed and has no row", f.Nominal, name)
	c.want(!f.Span() || f.Until >= f.Nominal, "fire %d of %s: a span until %d", f.Nominal, name, f.Until)
	c.want(f.Origin == ByPlan || f.Seq != 0, "fire %d of %s: not planned and not numbered", f.Nominal, name)
	switch f.Verdict {
	case VerdictQueued:
		c.want(c.has(key{}.fireQueue(f.ref()).fireKey(f.Key())), "fire %d of %s: waits without a row", f.Nominal, name)
	case VerdictWaiting:
		j, ok := FindJoin(c.r, f.ref(), f.Nominal)
		c.want(ok && c.has(key{}.joinWaits(f.ref()).time(j.End).time(f.Nominal)), "fire %d of %s: waits for upstreams without a row", f.Nominal, name)
	default:
		c.want(c.has(key{}.fireAge(&f)), "fire %d of %s: has no row by age", f.Nominal, name)
	}
	if f.Origin != ByPlan {
		return
	}
	// The newest is first, so what went before in the same ledger begins later.
	if last := c.lastFire; last.ref() == f.ref() && last.Nominal != 0 {
		c.want(max(f.Nominal, f.Until) < last.Nominal, "fires %d and %d of %s: two verdicts for one time", f.Nominal, last.Nominal, name)
	}
	c.lastFire = f
}

func (c *checker) fireAge(k, _ []byte) {
	kr := readKey(k)
	at, ref, place := kr.time(), kr.scheduleRef(), kr.fireKey()
	if f, ok := c.fireOf("age row", ref, place); ok && kr.done() {
		c.want(f.At == at && f.Verdict != VerdictQueued && f.Verdict != VerdictWaiting, "fire %d of %s: a row by age at %d, decided at %d", f.Nominal, ref.Name, at, f.At)
	}
}

func (c *checker) fireQueued(k, _ []byte) {
	kr := readKey(k)
	ref, place := kr.scheduleRef(), kr.fireKey()
	if f, ok := c.fireOf("queue row", ref, place); ok && kr.done() {
		c.want(f.Verdict == VerdictQueued, "fire %d of %s: a row of those that wait, it is %v", f.Nominal, ref.Name, f.Verdict)
	}
	c.want(c.has(key{}.schedule(ref)) || c.has(key{}.scheduleAct(ActDropQueue, ref)), "fire %d of %s: waits for a schedule that is gone", place.Nominal, ref.Name)
}

func (c *checker) fireOf(what string, ref ScheduleRef, at FireKey) (Fire, bool) {
	k := key{}.fires(ref).newest(at)
	b, ok := c.r.Get(k)
	if !ok {
		c.report("%s of fire %d of %s: it does not exist", what, at.Nominal, ref.Name)
		return Fire{}, false
	}
	return record[Fire](c, k, bytes.Clone(b))
}

// firedTask counts a task under the schedule that fired it.
func (c *checker) firedTask(t *Task) {
	if t.FiredBy != ByBackfill && !t.State.Terminal() {
		c.firedActive(ScheduleRef{t.Namespace, t.Schedule}, t.ID)
	}
}

// firedRun counts a run under the schedule that fired it.
func (c *checker) firedRun(r *Run) {
	if r.Trigger.Kind != ByBackfill.String() && !r.State.Terminal() {
		c.firedActive(ScheduleRef{r.Namespace, r.Trigger.Schedule}, r.ID)
	}
}

func (c *checker) firedActive(ref ScheduleRef, id job.ID) {
	if tally, ok := c.fired[ref]; ok && bytes.Compare(id[:], tally.id[:]) > 0 {
		tally.seen++
		c.fired[ref] = tally
	}
}

func (c *checker) firedTallies() {
	for ref, t := range c.fired {
		c.want(t.seen == t.want, "schedule %s: counts %d that have not ended, has %d", ref.Name, t.want, t.seen)
	}
}
