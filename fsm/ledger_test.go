package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
)

// Each schedule has its share of what all ledgers may hold, however many there are.
func TestLedgerShare(t *testing.T) {
	for schedules, want := range map[int64]int64{0: 100_000, 1: 100_000, 75: 100_000, 1000: 7500, 100_000: 75, MaxSchedules: 8} {
		if got := ledgerShare(schedules); got != want {
			t.Errorf("of %d schedules each has %d rows, want %d", schedules, got, want)
		}
	}
}

// A schedule that fires often loses its own oldest verdicts beyond its share, and no
// other's; they are counted, and what can't be told any more is not fired as missing.
func TestLedgerIsCut(t *testing.T) {
	w := newWorld(t)
	every := job.Duration(60_000_000_000)
	w.do(PutSchedule{Namespace: "default", Name: "seldom", Spec: job.ScheduleSpec{Job: "true", Every: every, Overlap: job.OverlapAllow}},
		PutSchedule{Namespace: "default", Name: "often", Spec: job.ScheduleSpec{Job: "true", Every: every, Overlap: job.OverlapAllow}})
	w.quick = true // as if there were many schedules
	for _, k := range w.counterKeys("S\x00") {
		w.tx.Set(k, key{}.u64(MaxSchedules))
	}
	w.m = NewMachine()
	fire := func(name string) {
		ref := ScheduleRef{"default", name}
		_, st, _ := GetSchedule(w.tx, ref)
		w.now += 60_000
		w.do(FireSchedules{Items: []FireItem{{
			Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Times: []FireTime{{Nominal: w.now}}, Next: w.now + 60_000, NextAt: w.now + 60_000,
		}}})
	}
	ledger := func(name string) []Fire {
		list, _, err := ListFires(w.tx, ScheduleRef{"default", name}, FireFilter{}, "", 1000)
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	fire("seldom")
	first := w.now + 60_000
	for i := range 200 {
		fire("often")
		if n := len(ledger("often")); n > minLedger*3/2+trimEvery || n < min(i+1, minLedger) {
			t.Fatalf("%d rows after %d", n, i+1)
		}
	}
	if n := len(ledger("seldom")); n != 1 {
		t.Errorf("the other has %d rows", n)
	}
	s, st, _ := GetSchedule(w.tx, ScheduleRef{"default", "often"})
	kept := ledger("often")
	oldest := kept[len(kept)-1].Nominal
	if n := int64(200 - len(kept)); st.Counts.Dropped != n || CountDroppedFires(w.tx) != n || st.Ledger.Dropped >= oldest || st.Ledger.Dropped < oldest-2*minLedger*60_000 {
		t.Errorf("%d dropped, the counter says %d; up to %d, the oldest is %d", st.Counts.Dropped, CountDroppedFires(w.tx), st.Ledger.Dropped, oldest)
	}
	fill := PutBackfill{Namespace: "default", Schedule: "often", Version: s.Version, From: first, To: first + 1, Times: []int64{first}, Parallel: 1, Which: FillMissing}
	if r := w.try(fill)[0]; r.Err == nil || !strings.Contains(r.Err.Error(), "from: must be after") {
		t.Errorf("a backfill of what is not known: %v", r.Err)
	}
	fill.Which = FillAll
	w.do(fill)
	for _, k := range w.counterKeys("S\x00") {
		w.tx.Set(k, key{}.u64(2))
	}
	w.check()
}

// counterKeys are the rows of counters by their kinds and names.
func (w *world) counterKeys(of string) (keys []key) {
	w.tx.Ascend([]byte{tableCounters}, tableEnd(tableCounters), func(k, _ []byte) bool {
		if string(k[1:]) == of {
			keys = append(keys, append(key{}, k...))
		}
		return true
	})
	return keys
}

// Many schedules that don't fire share an alert, so that they push out no other.
func TestManyUnfiredSchedules(t *testing.T) {
	w := newWorld(t)
	w.do(PutAlert{Kind: AlertDiverged, Subject: "s1", Text: "look"})
	every := job.Duration(60_000_000_000)
	names := make([]string, maxUnfiredAlerts+20)
	var puts []Command
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
		puts = append(puts, PutSchedule{Namespace: "default", Name: names[i], Spec: job.ScheduleSpec{Job: "true", Every: every}})
	}
	w.do(puts...)
	propose := func(names []string, missed bool) {
		w.now += 600_000
		c := FireSchedules{}
		for _, name := range names {
			ref := ScheduleRef{"default", name}
			_, st, _ := GetSchedule(w.tx, ref)
			it := FireItem{Ref: ref, Generation: st.Generation, Cursor: st.Cursor, Next: w.now + 60_000, NextAt: w.now + 60_000, Times: []FireTime{{Nominal: w.now}}}
			if missed {
				it.Times[0] = FireTime{Nominal: st.Cursor + 1, Until: w.now, Count: 3, Verdict: VerdictMissed, Why: WhyDowntime}
			}
			c.Items = append(c.Items, it)
		}
		for _, err := range w.do(c)[0].Attempts {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	shared := func() AlertState {
		a, _ := GetAlert(w.tx, AlertUnfired, othersUnfired)
		return a.State
	}
	propose(names, true)
	if n := len(ListAlerts(w.tx, AlertOpen)); n != maxUnfiredAlerts+2 || CountUnfired(w.tx) != int64(len(names)) {
		t.Errorf("%d alerts, %d schedules", n, CountUnfired(w.tx))
	}
	if a, ok := GetAlert(w.tx, AlertUnfired, "default/s1"); !ok || !strings.Contains(a.Text, "3 times from ") || shared() != AlertOpen {
		t.Errorf("%+v, shared %v", a, shared())
	}
	propose(names[:20], false)
	if shared() != AlertResolved {
		t.Errorf("the shared alert is %v", shared())
	}
	propose(names[20:], true)
	if a, _ := GetAlert(w.tx, AlertUnfired, "default/s119"); a.State != AlertOpen || CountUnfired(w.tx) != maxUnfiredAlerts {
		t.Errorf("%+v, %d schedules", a, CountUnfired(w.tx))
	}
}
