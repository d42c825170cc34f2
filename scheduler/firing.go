package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// firing decides what becomes of the next times of one schedule. Times are Unix
// milliseconds.
type firing struct {
	spec    *job.ScheduleSpec
	st      *fsm.ScheduleState
	plan    *job.Plan
	joins   *joining // of a schedule with upstreams
	delay   int64    // that jitter puts each time off
	now     int64
	horizon int64

	it      fsm.FireItem
	again   int64 // nothing is to be said before then; 0: propose it
	counted int
}

func stamp(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// after is the first planned time after one; 0: there is none.
func (f *firing) after(ms int64) int64 {
	if t, ok := f.plan.Next(stamp(ms)); ok {
		return t.UnixMilli()
	}
	return 0
}

func (f *firing) decide() {
	cursor := f.st.Cursor
	if f.st.GapTo > cursor { // paused away
		last, whole := f.drop(cursor, f.st.GapTo, fsm.FireTime{Verdict: fsm.VerdictSkipped, Why: fsm.WhyPaused})
		if !whole {
			f.goOn(last)
			return
		}
		cursor = f.st.GapTo
		f.it.Upto = cursor
	}
	first := f.after(cursor)
	switch {
	case first == 0:
		f.goOn(cursor)
	case first <= f.st.MissedTo:
		f.misfire(cursor, f.st.MissedTo)
	case first+f.delay > f.now:
		f.ahead(cursor, first)
	case f.spec.ByPeriod(), f.now-first-f.delay <= f.spec.ToleranceOrDefault().Milliseconds():
		f.punctual(cursor)
	default:
		f.misfire(cursor, f.now-f.delay)
	}
}

// goOn says which time follows one that is decided.
func (f *firing) goOn(last int64) {
	f.it.Next = f.after(last)
	if f.it.Next != 0 {
		f.it.NextAt = f.it.Next + f.delay
	}
}

// mayLead tells whether a time can be fired before it has come: a task waits for its
// time, a run and a list don't, and nothing must have to end until then for it to be judged.
func (f *firing) mayLead() bool {
	return f.spec.Job != "" && (f.spec.OverlapOrDefault() == job.OverlapAllow || f.st.Active+f.st.Queued == 0)
}

// ahead fires times that have not come yet, so that their tasks can be armed. Unless
// overlaps are allowed it is one: what it fires is in the way of the next.
func (f *firing) ahead(cursor, first int64) {
	at := first + f.delay
	if f.mayLead() && at <= f.now+f.horizon {
		f.lead(cursor)
		return
	}
	if f.st.Planned && f.st.Next == first && f.it.Upto == 0 {
		f.again = at
		if f.mayLead() {
			f.again = at - f.horizon
		}
		return
	}
	f.goOn(cursor)
}

// lead adds the times within the horizon.
func (f *firing) lead(cursor int64) {
	for f.mayAdd() {
		t := f.after(cursor)
		if t == 0 || t+f.delay > f.now+f.horizon {
			break
		}
		f.add(t, false)
		cursor = t
		if f.spec.OverlapOrDefault() != job.OverlapAllow {
			break
		}
	}
	f.goOn(cursor)
}

// mayAdd tells whether the proposal and the schedule's budget hold another time.
func (f *firing) mayAdd() bool {
	n := len(f.it.Times)
	return n < fsm.MaxFireTimes && (f.spec.MaxRuns == 0 || f.st.Counts.Planned+int64(n) < int64(f.spec.MaxRuns))
}

func (f *firing) add(t int64, catchUp bool) {
	at := fsm.FireTime{Nominal: t, Due: t + f.delay, CatchUp: catchUp}
	if f.joins != nil {
		at.Join = f.joins.at(t)
	}
	f.it.Times = append(f.it.Times, at)
}

// punctual fires the times that have come.
func (f *firing) punctual(cursor int64) {
	for f.mayAdd() {
		t := f.after(cursor)
		if t == 0 || t+f.delay > f.now {
			break
		}
		f.add(t, false)
		cursor = t
	}
	if f.spec.OverlapOrDefault() == job.OverlapAllow && f.mayLead() {
		f.lead(cursor)
		return
	}
	f.goOn(cursor)
}

// misfire judges the times up to one that nobody could fire for longer than the
// tolerance.
func (f *firing) misfire(cursor, due int64) {
	f.it.MissedTo = due // unless all are judged
	keep := f.kept(cursor, due)
	until := due
	if len(keep) > 0 {
		until = keep[0] - 1
	}
	as := fsm.FireTime{Verdict: fsm.VerdictMissed, Why: fsm.WhyDowntime}
	switch f.spec.MisfireOrDefault() {
	case job.MisfireLatest:
		as.Why = fsm.WhyWindow
		if len(keep) > 0 {
			as.Verdict, as.Why, as.Into = fsm.VerdictMerged, fsm.WhyNewer, keep[0]
		}
	case job.MisfireAll:
		as.Why = fsm.WhyCap
		if old := min(f.oldest()-1, until); old > cursor {
			last, whole := f.drop(cursor, old, fsm.FireTime{Verdict: fsm.VerdictMissed, Why: fsm.WhyWindow})
			if !whole {
				f.goOn(last)
				return
			}
			cursor = old
		}
	}
	last, whole := f.drop(cursor, until, as)
	if !whole {
		f.goOn(last)
		return
	}
	last = max(cursor, until)
	now := keep[:min(len(keep), fsm.MaxFireTimes-len(f.it.Times))]
	for _, t := range now {
		f.add(t, true)
		last = t
	}
	if len(now) == len(keep) {
		f.it.MissedTo = 0
	}
	f.goOn(last)
}

// oldest is the first time that may be made up for.
func (f *firing) oldest() int64 {
	return f.now - f.spec.MisfireWindowOrDefault().Milliseconds() - f.delay
}

// kept are the missed times that are made up for, in order.
func (f *firing) kept(cursor, due int64) []int64 {
	most := 0
	switch f.spec.MisfireOrDefault() {
	case job.MisfireLatest:
		most = 1
	case job.MisfireAll:
		most = f.spec.MisfireCapOrDefault()
	}
	keep := make([]int64, most)
	at, before := most, due+1
	for at > 0 {
		t, ok := f.plan.Prev(stamp(before))
		if !ok || t.UnixMilli() <= cursor || t.UnixMilli() < f.oldest() {
			break
		}
		at, before = at-1, t.UnixMilli()
		keep[at] = before
	}
	return keep[at:]
}

// drop gives the times after one, up to another, one verdict, as far as they can be
// counted; whole tells whether these were all. It returns the last of them.
func (f *firing) drop(after, until int64, as fsm.FireTime) (last int64, whole bool) {
	last = after
	for t := f.after(after); t != 0 && t <= until; t = f.after(t) {
		if as.Count == maxCounted {
			f.it.Times = append(f.it.Times, as)
			return last, false
		}
		if as.Count == 0 {
			as.Nominal = t
		}
		as.Count++
		f.counted++
		as.Until, last = t, t
	}
	if as.Count > 0 {
		f.it.Times = append(f.it.Times, as)
	}
	return last, true
}
