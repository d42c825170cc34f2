package job

import (
	"time"

	"github.com/axd-project/axd/job/cron"
)

// MaxShiftDays is how far a shift moves a time at most; where the calendars
// allow no day within it, the time is left out.
const MaxShiftDays = 31

// planDays says on which days a plan may fire.
type planDays struct {
	include, exclude []*CalendarDays
	shift            Shift
	last             int64 // dated day of any of the calendars
}

func newPlanDays(c *Calendars, calendar func(string) (*CalendarDays, bool)) (*planDays, *Error) {
	p := &planDays{shift: c.Shift}
	for _, list := range []struct {
		field string
		names []string
		into  *[]*CalendarDays
	}{{"calendars.include", c.Include, &p.include}, {"calendars.exclude", c.Exclude, &p.exclude}} {
		for i, name := range list.names {
			var set *CalendarDays
			ok := false
			if calendar != nil {
				set, ok = calendar(name)
			}
			if !ok {
				return nil, Invalid(nth(list.field, i), "must be a calendar that exists", name)
			}
			*list.into = append(*list.into, set)
			p.last = max(p.last, set.last())
		}
	}
	return p, nil
}

// AnyCalendar stands for calendars that can't be looked at, where a schedule is
// checked for all else.
func AnyCalendar(string) (*CalendarDays, bool) { return &CalendarDays{weekdays: 1<<7 - 1}, true }

// allow tells whether a plan may fire on a day.
func (p *planDays) allow(day int64) bool {
	in := len(p.include) == 0
	for _, set := range p.include {
		in = in || set.has(day)
	}
	if !in {
		return false
	}
	for _, set := range p.exclude {
		if set.has(day) {
			return false
		}
	}
	return true
}

// horizon is the last day worth looking at from a day on.
func (p *planDays) horizon(day int64) int64 { return max(day, p.last) + calendarHorizon }

// target returns the day on which what is planned for a day fires.
func (p *planDays) target(day int64) (int64, bool) {
	if p.allow(day) {
		return day, true
	}
	step := int64(1)
	switch p.shift {
	case ShiftNext:
	case ShiftPrevious:
		step = -1
	default:
		return 0, false
	}
	for range MaxShiftDays {
		if day += step; p.allow(day) {
			return day, true
		}
	}
	return 0, false
}

// sources returns the days whose times fire on an allowed day, which is one of
// them, as a span.
func (p *planDays) sources(day int64) (from, to int64) {
	from, to = day, day
	switch p.shift {
	case ShiftNext:
		for from > day-MaxShiftDays && !p.allow(from-1) {
			from--
		}
	case ShiftPrevious:
		for to < day+MaxShiftDays && !p.allow(to+1) {
			to++
		}
	}
	return from, to
}

// moved returns when what is planned for a time fires that is moved to a day:
// at the same wall time.
func moved(e *cron.Expr, t time.Time, day int64) time.Time {
	if e.WallAt(t).Day == day {
		return t
	}
	wall, _ := e.Planned(t)
	wall.Day = day
	return e.Instant(wall).Add(time.Duration(t.Nanosecond()))
}

// next returns the first time after an instant, at the days allowed.
func (p *planDays) next(e *cron.Expr, after time.Time) (time.Time, bool) {
	day := e.WallAt(after).Day
	for end := p.horizon(day); day <= end; day++ {
		if !p.allow(day) {
			continue
		}
		from, to := p.sources(day)
		var first time.Time
		for source := from; source <= to; source++ {
			for t, ok := e.Next(p.floor(e, after, source, day)); ok && e.WallAt(t).Day == source; t, ok = e.Next(t) {
				if at := moved(e, t, day); at.After(after) {
					if first.IsZero() || at.Before(first) {
						first = at
					}
					break
				}
			}
		}
		if !first.IsZero() {
			return first, true
		}
		// Nothing before the plan's next time of its own, moved or not.
		t, ok := e.Next(e.Instant(cron.Wall{Day: to + 1}).Add(-1))
		if !ok {
			return time.Time{}, false
		}
		day = max(day, e.WallAt(t).Day-MaxShiftDays-1)
	}
	return time.Time{}, false
}

// floor returns an instant on a source day before which nothing moves to later
// than after on the target day: the same wall time, or the day's begin.
func (p *planDays) floor(e *cron.Expr, after time.Time, source, day int64) time.Time {
	wall := e.WallAt(after)
	if source == day && wall.Day == day {
		return after
	}
	if wall.Day != day {
		wall.Second = 0
	}
	wall.Day = source
	return e.Instant(wall).Add(-1)
}

// ceiling is floor's mirror: nothing from it on moves to earlier than before.
func (p *planDays) ceiling(e *cron.Expr, before time.Time, source, day int64) time.Time {
	wall := e.WallAt(before)
	end := e.Instant(cron.Wall{Day: source + 1})
	if wall.Day != day || before.Sub(e.Instant(wall)) >= time.Second { // a time that has come before, so later walls have as well
		if source == day && end.After(before) {
			return before
		}
		return end
	}
	if source == day {
		return before
	}
	return e.Instant(cron.Wall{Day: source, Second: wall.Second + 1})
}

// prev returns the last time before an instant, at the days allowed.
func (p *planDays) prev(e *cron.Expr, before time.Time) (time.Time, bool) {
	day := e.WallAt(before).Day
	for end := day - calendarHorizon; day >= end; day-- {
		if !p.allow(day) {
			continue
		}
		from, to := p.sources(day)
		var last time.Time
		for source := from; source <= to; source++ {
			for t, ok := e.Prev(p.ceiling(e, before, source, day)); ok && e.WallAt(t).Day == source; t, ok = e.Prev(t) {
				if at := moved(e, t, day); at.Before(before) {
					if at.After(last) {
						last = at
					}
					break
				}
			}
		}
		if !last.IsZero() {
			return last, true
		}
		t, ok := e.Prev(e.Instant(cron.Wall{Day: from}))
		if !ok {
			return time.Time{}, false
		}
		day = min(day, e.WallAt(t).Day+MaxShiftDays+1)
	}
	return time.Time{}, false
}

// planned returns the wall time of a time of the plan, and what moved it.
func (p *planDays) planned(e *cron.Expr, at time.Time) (cron.Wall, string) {
	if t, ok := e.Next(at.Add(-1)); ok && t.Equal(at) && p.allow(e.WallAt(at).Day) {
		return e.Planned(at)
	}
	wall := e.WallAt(at)
	from, to := p.sources(wall.Day)
	for source := from; source <= to; source++ {
		begin := e.Instant(cron.Wall{Day: source}).Add(-1)
		for t, ok := e.Next(begin); ok && e.WallAt(t).Day == source; t, ok = e.Next(t) {
			if moved(e, t, wall.Day).Equal(at) {
				planned, _ := e.Planned(t)
				return planned, "moved from " + planned.Date() + ", which the calendars leave out"
			}
		}
	}
	return wall, ""
}
