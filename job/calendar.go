package job

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CalendarSpec is a named set of days, such as working days or holidays.
// Schedules name calendars to limit their times to days. A day belongs to it if
// Weekdays or Include has it and Exclude hasn't. Which day an instant falls on
// is up to the schedule's time zone.
type CalendarSpec struct {
	Description string   `msgpack:"D,omitempty" json:"description,omitempty"`
	Weekdays    []string `msgpack:"w,omitempty" json:"weekdays,omitempty"` // mon to sun, or mon-fri
	Include     []string `msgpack:"i,omitempty" json:"include,omitempty"`  // days: 2026-12-25, each year's 12-25, spans of either: 12-24..01-06
	Exclude     []string `msgpack:"e,omitempty" json:"exclude,omitempty"`
}

// MaxCalendarDays bounds the entries of a calendar's lists, together.
const MaxCalendarDays = 2000

var weekdayNames = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// Validate checks every entry.
func (c *CalendarSpec) Validate() *Error {
	if e := validateText("description", c.Description, MaxDescription, "\n\t"); e != nil {
		return e
	}
	if n := len(c.Weekdays) + len(c.Include) + len(c.Exclude); n > MaxCalendarDays {
		return invalidNumber("include", fmt.Sprintf("must hold at most %d entries, with weekdays and exclude", MaxCalendarDays), n)
	}
	if len(c.Weekdays)+len(c.Include) == 0 {
		return &Error{Code: CodeInvalid, Field: "weekdays", Rule: "must be given, or days in include: no day would belong to the calendar"}
	}
	_, err := c.Ready()
	return err
}

// Ready reads the calendar's entries, for the plans that follow it to share.
func (c *CalendarSpec) Ready() (*CalendarDays, *Error) {
	set := &CalendarDays{}
	for i, text := range c.Weekdays {
		first, last, ranged := strings.Cut(strings.ToLower(text), "-")
		if !ranged {
			last = first
		}
		a, b := slices.Index(weekdayNames, first), slices.Index(weekdayNames, last)
		if a < 0 || b < 0 {
			return nil, Invalid(nth("weekdays", i), "must be one of mon to sun, or a range such as mon-fri", text)
		}
		for ; ; a = (a + 1) % 7 {
			set.weekdays |= 1 << a
			if a == b {
				break
			}
		}
	}
	for _, list := range []struct {
		name    string
		entries []string
		into    *dayList
	}{{"include", c.Include, &set.include}, {"exclude", c.Exclude, &set.exclude}} {
		for i, text := range list.entries {
			if !list.into.add(text) {
				return nil, Invalid(nth(list.name, i), "must be a day such as 2026-12-25, or 12-25 for each year's, or a span such as 2026-12-24..2027-01-06", text)
			}
		}
		list.into.sort()
	}
	return set, nil
}

func nth(field string, i int) string { return field + "[" + strconv.Itoa(i) + "]" }

// CalendarDays is a calendar made ready; it never changes. Days are counted from
// 1970-01-01.
type CalendarDays struct {
	weekdays         uint8 // bit 0 is Sunday
	include, exclude dayList
}

func (s *CalendarDays) has(day int64) bool {
	if s.exclude.has(day) {
		return false
	}
	weekday := ((day+4)%7 + 7) % 7
	return s.weekdays>>weekday&1 != 0 || s.include.has(day)
}

// last is the last dated day that the calendar speaks of.
func (s *CalendarDays) last() int64 { return max(s.include.last(), s.exclude.last()) }

// dayList holds spans of days, and spans within each year.
type dayList struct {
	dated  []daySpan            // sorted, apart
	yearly [13*32/64 + 1]uint64 // a bit for month × 32 + day
}

type daySpan struct{ from, to int64 }

// add reads an entry; false: it's none.
func (l *dayList) add(text string) bool {
	first, last, ranged := strings.Cut(text, "..")
	if !ranged {
		last = first
	}
	if len(first) != len(last) {
		return false
	}
	if len(first) == len("01-02") {
		from, ok1 := yearDay(first)
		to, ok2 := yearDay(last)
		if !ok1 || !ok2 {
			return false
		}
		for d := from; ; d = (d + 1) % (13 * 32) { // over New Year, where to is before from
			l.yearly[d/64] |= 1 << (d % 64)
			if d == to {
				return true
			}
		}
	}
	from, err1 := time.Parse(time.DateOnly, first)
	to, err2 := time.Parse(time.DateOnly, last)
	if err1 != nil || err2 != nil || to.Before(from) {
		return false
	}
	l.dated = append(l.dated, daySpan{from.Unix() / daySeconds, to.Unix() / daySeconds})
	return from.Year() >= 1970
}

const daySeconds = 24 * 60 * 60

// yearDay reads a day of each year, 02-29 included.
func yearDay(s string) (int64, bool) {
	t, err := time.Parse(time.DateOnly, "2000-"+s)
	return int64(t.Month())*32 + int64(t.Day()), err == nil
}

// sort orders the dated spans and makes one of those that touch.
func (l *dayList) sort() {
	slices.SortFunc(l.dated, func(a, b daySpan) int { return cmp.Compare(a.from, b.from) })
	merged := l.dated[:0]
	for _, s := range l.dated {
		if n := len(merged); n > 0 && s.from <= merged[n-1].to+1 {
			merged[n-1].to = max(merged[n-1].to, s.to)
			continue
		}
		merged = append(merged, s)
	}
	l.dated = merged
}

func (l *dayList) has(day int64) bool {
	i, found := slices.BinarySearchFunc(l.dated, day, func(s daySpan, day int64) int { return cmp.Compare(s.from, day) })
	if found || i > 0 && l.dated[i-1].to >= day {
		return true
	}
	_, month, date := time.Unix(day*daySeconds, 0).UTC().Date()
	d := int(month)*32 + date
	return l.yearly[d/64]>>(d%64)&1 != 0
}

func (l *dayList) last() int64 {
	if n := len(l.dated); n > 0 {
		return l.dated[n-1].to
	}
	return 0
}

// Days lists the calendar's days from one on, at most limit of them and none
// later than a span of years: for people to look at.
func (c *CalendarSpec) Days(from time.Time, limit int) ([]string, *Error) {
	set, err := c.Ready()
	if err != nil {
		return nil, err
	}
	var all []string
	first := from.Unix() / daySeconds
	for day := first; day < max(first, set.last())+calendarHorizon && len(all) < limit; day++ {
		if set.has(day) {
			all = append(all, time.Unix(day*daySeconds, 0).UTC().Format(time.DateOnly))
		}
	}
	return all, nil
}

// calendarHorizon is how many days past the last dated day of any calendar a
// search goes: beyond it only weekdays and days of each year count, and what
// didn't come in 41 years, which hold a 29 February on each weekday, never will.
const calendarHorizon = 41 * 366
