package fsm

import "bytes"

// joinTables checks what waits for upstreams, and their successes.
func (c *checker) joinTables() {
	c.rows(tableJoins, c.joinRow)
	c.rows(tableJoinDue, c.joinDue)
	c.rows(tableDone, c.doneRow)
}

func (c *checker) joinRow(k, v []byte) {
	kr := readKey(k)
	kind, ref, end := kr.u8(), kr.scheduleRef(), kr.time()
	if kind == joinWait {
		w := JoinWait{Until: (&keyReader{rest: v}).time(), Ref: ref, End: end, Nominal: kr.time()}
		c.want(kr.done() && c.has(key{}.joinDue(w)), "join wait %x: has no row by time", k)
		return
	}
	j, ok := record[Join](c, k, v)
	if !ok {
		return
	}
	c.want(kr.done() && bytes.Equal(k, key{}.joins(j.ref()).time(j.End)), "join of %s: under the key %x", j.Schedule, k)
	c.want(j.Start < j.End, "join of %s: from %d to %d", j.Schedule, j.Start, j.End)
	waits := ListJoinWaits(c.r, ref, &j, MaxJoinWaits+1)
	c.want(len(waits) == j.Waiting && j.Waiting > 0, "join of %s until %d: counts %d times that wait, has %d", j.Schedule, end, j.Waiting, len(waits))
	s, st, ok := GetSchedule(c.r, ref)
	if !ok || s.Spec.After == nil {
		c.report("join of %s: it is no schedule that waits", j.Schedule)
		return
	}
	if st.Rejudge {
		return
	}
	c.want(len(j.Parts) == len(s.Spec.After.All), "join of %s: has %d parts", j.Schedule, len(j.Parts))
	full := readCounter(c.r, key{}.counter(countDones)) >= MaxDone // some of the oldest may be gone
	for i := range j.Parts {
		p := &j.Parts[i]
		n := countDone(c.r, upstream{p.Kind, j.Namespace, p.Name}, p, j.Start, j.End)
		c.want(p.Got == n || full && p.Got > n, "join of %s until %d: counts %d of %s, has %d", j.Schedule, end, p.Got, p.Name, n)
	}
	c.want(!j.Complete() || c.has(key{}.scheduleAct(ActRelease, ref)), "join of %s until %d: waits for nothing", j.Schedule, end)
}

func (c *checker) joinDue(k, _ []byte) {
	w := readJoinDue(k)
	if w.Until == 0 {
		st, ok := GetScheduleState(c.r, w.Ref)
		c.want(ok && st.Rejudge, "join row %x: schedule %s is not to be judged", k, w.Ref.Name)
		return
	}
	b, _ := c.r.Get(key{}.joinWaits(w.Ref).time(w.End).time(w.Nominal))
	c.want(bytes.Equal(b, key{}.time(w.Until)), "join row %x: nothing waits so long", k)
	f, ok := c.fireOf("join row", w.Ref, FireKey{Nominal: w.Nominal})
	c.want(!ok || f.Verdict == VerdictWaiting, "fire %d of %s: a row of those that wait for upstreams, it is %v", w.Nominal, w.Ref.Name, f.Verdict)
	c.want(c.has(key{}.joins(w.Ref).time(w.End)), "fire %d of %s: waits without a join", w.Nominal, w.Ref.Name)
}

func (c *checker) doneRow(k, v []byte) {
	if k[1] == doneTime {
		c.counts[string(key{}.counter(countDones))]++
		c.want(c.has(doneAgeOf((&keyReader{rest: v}).time(), k)), "success %x: has no row by age", k)
		return
	}
	kr := readKey(k)
	kr.u8()
	at := kr.time()
	b, _ := c.r.Get(append(key{tableDone, doneTime}, k[2+8:]...))
	c.want(bytes.Equal(b, key{}.time(at)), "success row by age %x: of none", k)
}
