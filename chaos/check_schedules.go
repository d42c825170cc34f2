package chaos

import (
	"slices"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// times enumerates, second by second, when a schedule of the load fires after it was
// made, in Unix milliseconds. It shares nothing with what servers reckon by.
func (t *timetable) times(made time.Time) []int64 {
	end := t.spec.End.Std()
	switch {
	case t.spec.At != 0:
		return []int64{int64(t.spec.At)}
	case t.spec.Every != 0:
		var out []int64
		for at := made.Add(time.Duration(t.spec.Every)); at.Before(end); at = at.Add(time.Duration(t.spec.Every)) {
			out = append(out, at.UnixMilli())
		}
		return out
	case t.wall != nil:
		return t.wall.times(made, end, t.spec.TimezoneOrDefault())
	}
	return nil
}

// comesUp tells whether the schedule has anything to wait for from some time on.
func (t *timetable) comesUp(from time.Time) bool { return !t.spec.Timed() || len(t.times(from)) > 0 }

func (w *wallTimes) times(made, end time.Time, zone string) (out []int64) {
	at, err := time.LoadLocation(zone)
	if err != nil {
		return nil
	}
	for s := made.Truncate(time.Second).Add(time.Second); s.Before(end); s = s.Add(time.Second) {
		if w.at(s, at) && (len(out) == 0 || out[len(out)-1] != s.UnixMilli()) {
			out = append(out, s.UnixMilli())
		}
	}
	return out
}

// at tells whether an instant is one of the times.
func (w *wallTimes) at(s time.Time, zone *time.Location) bool {
	now := wallOf(s, zone)
	if w.match(now) {
		return !w.fixed || !w.shownBefore(now, s, zone)
	}
	if !w.fixed {
		return false
	}
	before := wallOf(s.Add(-time.Second), zone) // fixed times in a gap come right after it
	for missing := before.Add(time.Second); missing.Before(now); missing = missing.Add(time.Second) {
		if w.match(missing) {
			return true
		}
	}
	return false
}

// wallOf is what clocks of a zone show, as a time of UTC.
func wallOf(s time.Time, zone *time.Location) time.Time {
	l := s.In(zone)
	return time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), l.Second(), 0, time.UTC)
}

func (w *wallTimes) match(wall time.Time) bool {
	in := func(list []int, n int) bool { return list == nil || slices.Contains(list, n) }
	return in(w.second, wall.Second()) && in(w.minute, wall.Minute()) && in(w.hour, wall.Hour())
}

// shownBefore tells whether the clocks have shown the same within the last day.
func (w *wallTimes) shownBefore(now, s time.Time, zone *time.Location) bool {
	for back := 15 * time.Minute; back <= 3*time.Hour; back += 15 * time.Minute {
		if wallOf(s.Add(-back), zone).Equal(now) {
			return true
		}
	}
	return false
}

// ledgers: each time of each schedule has exactly one verdict, there is none for what
// is no time of it, each that was fired made one task or run, and none without one.
func (c *check) ledgers() {
	if len(c.Dumps) == 0 || len(c.Dumps[0].Schedules) == 0 {
		return
	}
	until := time.Time{}
	for _, s := range c.Dumps[0].Schedules {
		until = latest(until, s.Spec.End.Std())
	}
	for _, t := range timetables(until, c.Plan) {
		s, ok := c.Dumps[0].Schedules[t.name]
		if !ok && !t.comesUp(until.Add(-c.Plan.Length)) {
			continue
		}
		if !ok {
			c.broken("schedule %s was acknowledged and is missing", t.name)
			continue
		}
		l := &ledgerCheck{check: c, table: t, ScheduleDump: s, times: t.times(time.UnixMilli(s.Created)), made: map[string]int{}}
		l.verdicts()
		l.makes()
		l.policy()
		l.pauses()
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

type ledgerCheck struct {
	*check
	ScheduleDump
	table timetable
	times []int64
	made  map[string]int // tasks and runs of its rows
}

// verdicts: one for each time, none for another.
func (l *ledgerCheck) verdicts() {
	got := map[int64]int{}
	for i := range l.Fires {
		f := &l.Fires[i]
		if f.Verdict == fsm.VerdictQueued {
			l.broken("schedule %s: its time %s still waits at the end", l.Name, stamp(f.Nominal))
		}
		if f.Origin != fsm.ByPlan {
			continue
		}
		if !f.Span() {
			if got[f.Nominal]++; !slices.Contains(l.times, f.Nominal) {
				l.broken("schedule %s has a verdict for %s, which is none of its times", l.Name, stamp(f.Nominal))
			}
			continue
		}
		n := int64(0)
		for _, t := range l.times {
			if t >= f.Nominal && t <= f.Until {
				got[t]++
				n++
			}
		}
		if f.Count > 0 && f.Count != n {
			l.broken("schedule %s: a span from %s to %s counts %d times, there are %d", l.Name, stamp(f.Nominal), stamp(f.Until), f.Count, n)
		}
	}
	fired := 0
	for i := range l.Fires {
		if l.Fires[i].Origin == fsm.ByPlan && l.Fires[i].Verdict == fsm.VerdictFired {
			fired++
		}
	}
	spent := l.Spec.MaxRuns > 0 && fired >= l.Spec.MaxRuns
	for _, t := range l.times {
		if n := got[t]; n > 1 || n == 0 && !spent {
			l.broken("schedule %s has %d verdicts for %s", l.Name, n, stamp(t))
		}
	}
	if l.Spec.MaxRuns > 0 && fired > l.Spec.MaxRuns {
		l.broken("schedule %s was fired %d times by its plan, it may %d", l.Name, fired, l.Spec.MaxRuns)
	}
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("15:04:05.000") }

// makes: what was fired made one task or run, of this schedule and time, and whatever
// is of this schedule was made by a row.
func (l *ledgerCheck) makes() {
	d := l.Dumps[0]
	for i := range l.Fires {
		f := &l.Fires[i]
		if f.Verdict != fsm.VerdictFired {
			continue
		}
		id := f.Task.String()
		t, ok := d.Tasks[id]
		nominal, of := t.Nominal, t.Schedule
		if l.Spec.Workflow != "" {
			var r RunDump
			id = f.Run.String()
			r, ok = d.Runs[id]
			nominal, of = r.Nominal, r.Schedule
		}
		if !ok || of != l.Name || nominal != f.Nominal {
			l.broken("schedule %s: the fire of %s names %s, which is not there, or not its", l.Name, stamp(f.Nominal), id)
		}
		if l.made[id]++; l.made[id] > 1 {
			l.broken("schedule %s: two fires name %s", l.Name, id)
		}
	}
	for id, t := range d.Tasks {
		if t.Schedule == l.Name && t.Run.IsZero() && l.made[id] == 0 {
			l.broken("schedule %s made task %s for %s without a verdict", l.Name, id, stamp(t.Nominal))
		}
	}
	for id, r := range d.Runs {
		if r.Schedule == l.Name && l.made[id] == 0 {
			l.broken("schedule %s made run %s for %s without a verdict", l.Name, id, stamp(r.Nominal))
		}
	}
}

// commitTime is how long a decision may take to be committed, on top of a tolerance.
const commitTime = 20 * time.Second

// policy: what was missed was treated by the rule for it.
func (l *ledgerCheck) policy() {
	spec := &l.Spec
	for i := range l.Fires {
		f := &l.Fires[i]
		if f.Origin != fsm.ByPlan {
			continue
		}
		misfire := spec.MisfireOrDefault()
		switch {
		case f.CatchUp && misfire == job.MisfireNone:
			l.broken("schedule %s makes up for %s, which its rule for missed times forbids", l.Name, stamp(f.Nominal))
		case f.Why == fsm.WhyOverlap && spec.OverlapOrDefault() != job.OverlapSkip,
			f.Why == fsm.WhyQueueFull && spec.OverlapOrDefault() != job.OverlapQueueAll,
			f.Why == fsm.WhyOlder && spec.OverlapOrDefault() != job.OverlapQueueOne,
			f.Why == fsm.WhyNewer && misfire != job.MisfireLatest && spec.OverlapOrDefault() != job.OverlapLatest && spec.OverlapOrDefault() != job.OverlapCancelOther,
			f.Why == fsm.WhyDowntime && misfire != job.MisfireNone, f.Why == fsm.WhyWindow, f.Why == fsm.WhyCap && misfire != job.MisfireAll,
			f.Why == fsm.WhyRefused:
			l.broken("schedule %s: %s is %s with %q (%s), which none of its rules allows", l.Name, stamp(f.Nominal), f.Verdict, f.Why, f.Error)
		case f.Verdict == fsm.VerdictMerged && !l.has(f.Into):
			l.broken("schedule %s: %s is merged into %s, which has no verdict", l.Name, stamp(f.Nominal), stamp(f.Into))
		}
		late := time.Duration(f.At-max(f.Due, f.Nominal)) * time.Millisecond
		plain := spec.OverlapOrDefault() == job.OverlapAllow || spec.OverlapOrDefault() == job.OverlapSkip // else it may have waited
		if f.Verdict == fsm.VerdictFired && !f.CatchUp && plain && late > time.Duration(spec.ToleranceOrDefault())+commitTime {
			l.broken("schedule %s was fired for %s %v late and not as missed: its tolerance is %v", l.Name, stamp(f.Nominal), late, spec.ToleranceOrDefault())
		}
		if f.Why == fsm.WhyDowntime && time.Duration(f.At-f.Nominal)*time.Millisecond < time.Duration(spec.ToleranceOrDefault()) {
			l.broken("schedule %s: %s was missed although it was judged in time", l.Name, stamp(f.Nominal))
		}
	}
}

// has tells whether a time has a row.
func (l *ledgerCheck) has(nominal int64) bool {
	return slices.ContainsFunc(l.Fires, func(f fsm.Fire) bool { return f.Nominal == nominal })
}

// pauses: nothing was decided to be fired by plan while the schedule was surely paused,
// and times were paused away only when it may have been.
func (l *ledgerCheck) pauses() {
	if l.Name == failingPlan {
		return // it pauses itself
	}
	var pauses, resumes []Call
	for _, call := range l.Calls {
		if call.Object != l.Name || call.Code == job.CodeConflict {
			continue
		}
		switch {
		case call.Verb == Pause:
			pauses = append(pauses, call)
		case call.Verb == Resume:
			resumes = append(resumes, call)
		default:
			continue
		}
		if call.Code != "" {
			return // whether it took effect, and when, is not known
		}
	}
	for i := range pauses {
		begin := pauses[i].Ended
		end, sure := resumedAt(&pauses[i], resumes)
		if !sure {
			continue
		}
		for j := range l.Fires {
			f := &l.Fires[j]
			if at := time.UnixMilli(f.At); f.Origin == fsm.ByPlan && f.Verdict == fsm.VerdictFired && !f.CatchUp &&
				f.Late == 0 && at.Sub(begin) > l.limits.Skew && end.Sub(at) > l.limits.Skew {
				l.broken("schedule %s was fired for %s at %s, while it was paused from %s to %s", l.Name, stamp(f.Nominal), stamp(f.At), clock(begin), clock(end))
			}
		}
	}
	for j := range l.Fires {
		if l.Fires[j].Why == fsm.WhyPaused && len(pauses) == 0 {
			l.broken("schedule %s: %s was paused away, and nobody has paused it", l.Name, stamp(l.Fires[j].Nominal))
		}
	}
}

// resumedAt is when a pause may have ended at the earliest; false: nobody resumed
// afterwards, or somebody did beside it, and which came first is not known.
func resumedAt(pause *Call, resumes []Call) (at time.Time, sure bool) {
	for i := range resumes {
		r := &resumes[i]
		switch {
		case !r.Begun.Before(pause.Ended):
			if !sure || r.Begun.Before(at) {
				at, sure = r.Begun, true
			}
		case r.Ended.After(pause.Begun):
			return time.Time{}, false
		}
	}
	return at, sure
}

// events: one event for each that was sent, whoever sent it how often, and each
// schedule that waits for it was asked once.
func (c *check) events() {
	if len(c.Dumps) == 0 {
		return
	}
	kept, answered := map[string]string{}, map[string]string{}
	for _, e := range c.Dumps[0].Events {
		if kept[e.Dedup] != "" {
			c.broken("event %s was kept twice", e.Dedup)
		}
		kept[e.Dedup] = e.ID.String()
	}
	paused := map[string]bool{}
	for _, call := range c.Calls {
		switch {
		case call.Verb == Pause && call.Code != job.CodeConflict:
			paused[call.Object] = true
		case call.Verb == SendEvent && call.Code == "":
			if is := kept[call.Arg]; is != call.Object {
				c.broken("event %s was acknowledged as %s and is kept as %q", call.Arg, call.Object, is)
			}
			if before := answered[call.Arg]; before != "" && before != call.Object {
				c.broken("event %s was acknowledged as %s and as %s", call.Arg, before, call.Object)
			}
			answered[call.Arg] = call.Object
		}
	}
	for name, s := range c.Dumps[0].Schedules {
		if s.Spec.Event == nil {
			continue
		}
		rows := map[string]int{}
		for i := range s.Fires {
			if s.Fires[i].Origin == fsm.ByEvent {
				rows[s.Fires[i].Actor]++
			}
		}
		for dedup := range kept {
			if n := rows["event "+eventName+" "+dedup]; n > 1 || n == 0 && !paused[name] {
				c.broken("schedule %s has %d verdicts for event %s", name, n, dedup)
			}
		}
	}
}

// fireWatch: unless a schedule allows overlaps, what it fires begins only when what it
// fired before has ended.
type fireWatch struct {
	*check
	live map[string]map[string]bool // by schedule
	may  map[string]bool            // overlap
}

func newFireWatch(c *check) *fireWatch {
	w := &fireWatch{check: c, live: map[string]map[string]bool{}, may: map[string]bool{}}
	for _, t := range timetables(time.Time{}, c.Plan) {
		w.may[t.name] = t.spec.OverlapOrDefault() == job.OverlapAllow
	}
	return w
}

func (w *fireWatch) done(fsm.Reader) {}

func (w *fireWatch) see(entry []change) {
	for i := range entry {
		w.one(&entry[i])
	}
}

func (w *fireWatch) one(ch *change) {
	name := ch.is.Schedule
	if name == "" || !ch.is.Run.IsZero() || w.may[name] {
		return
	}
	id := ch.is.ID.String()
	n := member(w.live, name, id, !ch.is.State.Terminal() && !w.revived[id]) // one that is replayed is in nobody's way
	if n > 1 && ch.was.Version == 0 {
		w.broken("at entry %d schedule %s fires task %s while %d that it fired have not ended", ch.index, name, ch.is.ID, n-1)
	}
}
