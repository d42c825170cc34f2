package job

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestCalendarDays(t *testing.T) {
	for _, c := range []struct {
		name string
		spec CalendarSpec
		want string // days from 2026-12-22 on
	}{
		{"weekdays", CalendarSpec{Weekdays: []string{"mon-fri"}}, "12-22 12-23 12-24 12-25 12-28 12-29"},
		{"a range over the week's end", CalendarSpec{Weekdays: []string{"Sat-Mon"}}, "12-26 12-27 12-28 01-02 01-03 01-04"},
		{"one weekday, some dates", CalendarSpec{Weekdays: []string{"sun"}, Include: []string{"2026-12-24", "12-31"}}, "12-24 12-27 12-31 01-03 01-10 01-17"},
		{"exclude wins", CalendarSpec{Weekdays: []string{"mon-fri"}, Include: []string{"2026-12-26"}, Exclude: []string{"12-25", "2026-12-28..2026-12-29"}}, "12-22 12-23 12-24 12-26 12-30 12-31"},
		{"over New Year", CalendarSpec{Include: []string{"12-30..01-02"}}, "12-30 12-31 01-01 01-02 12-30 12-31"},
		{"spans that touch", CalendarSpec{Include: []string{"2027-01-03..2027-01-04", "2026-12-31..2027-01-02", "2027-01-01"}}, "12-31 01-01 01-02 01-03 01-04"},
		{"the leap day", CalendarSpec{Include: []string{"02-29"}}, "02-29 02-29 02-29 02-29 02-29 02-29"},
	} {
		if e := c.spec.Validate(); e != nil {
			t.Errorf("%s: %v", c.name, e)
		}
		days, err := c.spec.Days(instant(t, "2026-12-22T00:00:00Z"), 6)
		for i := range days {
			days[i] = days[i][len("2026-"):]
		}
		if got := strings.Join(days, " "); err != nil || got != c.want {
			t.Errorf("%s: got %s, %v; want %s", c.name, got, err, c.want)
		}
	}
}

func TestCalendarRefusals(t *testing.T) {
	for _, c := range []struct {
		spec  CalendarSpec
		field string
	}{
		{CalendarSpec{}, "weekdays"},
		{CalendarSpec{Exclude: []string{"12-25"}}, "weekdays"},
		{CalendarSpec{Weekdays: []string{"mon", "monday"}}, "weekdays[1]"},
		{CalendarSpec{Weekdays: []string{"mon-"}}, "weekdays[0]"},
		{CalendarSpec{Include: []string{"2026-02-29"}}, "include[0]"},
		{CalendarSpec{Include: []string{"02-30"}}, "include[0]"},
		{CalendarSpec{Include: []string{"1969-12-31"}}, "include[0]"},
		{CalendarSpec{Include: []string{"2026-12-25", "2026-12-26..2026-12-25"}}, "include[1]"},
		{CalendarSpec{Include: []string{"2026-12-25..12-26"}}, "include[0]"},
		{CalendarSpec{Weekdays: []string{"mon"}, Exclude: []string{"12-25.."}}, "exclude[0]"},
		{CalendarSpec{Weekdays: []string{"mon"}, Exclude: []string{""}}, "exclude[0]"},
		{CalendarSpec{Weekdays: []string{"mon"}, Description: "a\x00b"}, "description"},
		{CalendarSpec{Include: slices.Repeat([]string{"12-25"}, MaxCalendarDays+1)}, "include"},
	} {
		if e := c.spec.Validate(); e == nil || e.Field != c.field || e.Code != CodeInvalid {
			t.Errorf("%+.80v: got %v, want %s refused", c.spec, e, c.field)
		}
	}
}

var testCalendars = map[string]*CalendarSpec{
	"work":     {Weekdays: []string{"mon-fri"}},
	"holidays": {Include: []string{"12-25..12-26", "01-01", "2026-04-03", "2026-04-06"}},
	"never":    {Include: []string{"2020-01-01"}},
	"ides":     {Include: []string{"03-15", "10-15"}},
	"change":   {Include: []string{"2026-03-29", "2026-10-25"}}, // when Berlin's clocks change
	"sundays":  {Weekdays: []string{"sun"}},
}

func calendarPlan(t interface{ Fatal(...any) }, s ScheduleSpec) *Plan {
	p, err := NewPlan(&s, PlanFor{Namespace: "default", Name: "x", Calendar: func(name string) (*CalendarDays, bool) {
		c, ok := testCalendars[name]
		if !ok {
			return nil, false
		}
		days, err := c.Ready()
		return days, err == nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlanCalendars(t *testing.T) {
	work := Calendars{Include: []string{"work"}, Exclude: []string{"holidays"}}
	next, previous := work, work
	next.Shift, previous.Shift = ShiftNext, ShiftPrevious
	for _, c := range []struct {
		name, cron, zone, from string
		of                     Calendars
		want                   []string
	}{
		{"left out", "0 9 * * *", "", "2026-12-23T12:00:00Z", work, []string{"12-24T09:00:00", "12-28T09:00:00", "12-29T09:00:00"}},
		{"monthly on the first, moved on", "0 9 1 * *", "", "2026-07-15T00:00:00Z", next, []string{"08-03T09:00:00", "09-01T09:00:00", "10-01T09:00:00", "11-02T09:00:00"}},
		{"and over a holiday", "0 9 1 1 *", "", "2026-07-15T00:00:00Z", next, []string{"01-04T09:00:00", "01-03T09:00:00"}},
		{"monthly on the last, moved back", "0 9 L * *", "", "2026-01-15T00:00:00Z", previous, []string{"01-30T09:00:00", "02-27T09:00:00", "03-31T09:00:00"}},
		{"moved onto a time of its own: once", "0 9 * * *", "", "2026-12-24T12:00:00Z", next, []string{"12-28T09:00:00", "12-29T09:00:00"}},
		{"several moved to one day keep their hours", "0 9 24,25 12 *,0", "", "2026-12-20T00:00:00Z", next, []string{"12-24T09:00:00", "12-28T09:00:00"}},
		{"by the schedule's zone", "0 3 * * *", "Pacific/Auckland", "2026-12-23T12:00:00Z", work, []string{"12-24T03:00:00", "12-28T03:00:00"}},
		{"never", "0 9 * * *", "", "2026-01-01T00:00:00Z", Calendars{Include: []string{"never"}}, nil},
		{"no day in reach", "0 9 1 7 *", "", "2026-01-01T00:00:00Z", Calendars{Include: []string{"ides"}, Shift: ShiftNext}, nil},
		{"a moved time that doesn't exist that day", "30 2 28 3 *", "Europe/Berlin", "2026-01-01T00:00:00Z", Calendars{Include: []string{"change"}, Shift: ShiftNext}, []string{"03-29T03:00:00"}},
		{"moved from a day where it doesn't exist", "30 2 29 3 *", "Europe/Berlin", "2026-01-01T00:00:00Z", Calendars{Exclude: []string{"change"}, Shift: ShiftNext}, []string{"03-30T02:30:00", "03-29T02:30:00"}},
		{"several a day, moved", "0 9,17 * * 6", "", "2026-12-18T00:00:00Z", next, []string{"12-21T09:00:00", "12-21T17:00:00", "12-28T09:00:00", "12-28T17:00:00"}},
	} {
		p := calendarPlan(t, ScheduleSpec{Cron: CronText(c.cron), Timezone: c.zone, Calendars: &c.of})
		if got := times(p, instant(t, c.from), max(len(c.want), 1)); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}

	p := calendarPlan(t, ScheduleSpec{Cron: "50 2 * * 6", Timezone: "Europe/Berlin", Calendars: &Calendars{Include: []string{"sundays"}, Shift: ShiftNext}})
	if at, ok := p.Prev(instant(t, "2026-10-25T02:15:00+01:00")); !ok || at.Format(time.RFC3339) != "2026-10-25T02:50:00+02:00" {
		t.Errorf("before the second 02:15 comes the first 02:50, not %s", at)
	}
	p = calendarPlan(t, ScheduleSpec{Cron: "0 9 1 * *", Calendars: &next})
	if wall, note := p.Planned(instant(t, "2026-08-03T09:00:00Z")); wall != "2026-08-01T09:00:00" || note != "moved from 2026-08-01, which the calendars leave out" {
		t.Errorf("%s, %q", wall, note)
	}
	if wall, note := p.Planned(instant(t, "2026-09-01T09:00:00Z")); wall != "2026-09-01T09:00:00" || note != "" {
		t.Errorf("%s, %q", wall, note)
	}
	p = calendarPlan(t, ScheduleSpec{Every: Duration(time.Hour), Calendars: &work})
	same(t, times(p, instant(t, "2026-12-24T22:30:00Z"), 2), "12-24T23:00:00", "12-28T00:00:00")

	_, err := NewPlan(&ScheduleSpec{Cron: "@daily", Calendars: &Calendars{Exclude: []string{"gone"}}}, PlanFor{})
	if err == nil || err.Field != "calendars.exclude[0]" {
		t.Errorf("a calendar that doesn't exist: %v", err)
	}
}

// TestPlanCalendarsModel compares with all times of the expression, each moved
// or left out by itself.
func TestPlanCalendarsModel(t *testing.T) {
	exprs := []string{"0 9 * * *", "30 2 * * *", "0 0 * * 6,0", "*/30 * * * *", "0 9 1,15,L * *", "0 1-3 * * *"}
	names := []string{"work", "holidays", "ides", "change", "sundays"}
	rapid.Check(t, func(rt *rapid.T) {
		pick := func(label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID[string]).Draw(rt, label)
		}
		of := Calendars{Include: pick("include"), Exclude: pick("exclude"), Shift: rapid.SampledFrom([]Shift{"", ShiftNext, ShiftPrevious}).Draw(rt, "shift")}
		spec := ScheduleSpec{Cron: CronText(rapid.SampledFrom(exprs).Draw(rt, "cron")), Timezone: "Europe/Berlin", Calendars: &of}
		if rapid.IntRange(0, 3).Draw(rt, "every") == 0 {
			spec.Cron, spec.Every, spec.Anchor = "", Duration(7*time.Hour), 1500
		}
		p := calendarPlan(rt, spec)
		date := rapid.SampledFrom([]string{"2026-03-15", "2026-03-28", "2026-10-13", "2026-10-24", "2026-12-24", "2026-04-02", "2026-07-01"}).Draw(rt, "date")
		from := instant(t, date+"T00:00:00Z").Add(time.Duration(rapid.IntRange(0, 3*24*60).Draw(rt, "minutes")) * time.Minute)
		to := from.AddDate(0, 0, 10)

		want := map[int64]bool{}
		margin := (MaxShiftDays + 2) * 24 * time.Hour
		for _, at := range p.expr.Between(from.Add(-margin), to.Add(margin), 1_000_000) {
			wall, _ := p.expr.Planned(at)
			day, ok := p.days.target(p.expr.WallAt(at).Day)
			if !ok {
				continue
			}
			if day != p.expr.WallAt(at).Day {
				wall.Day = day
				at = p.expr.Instant(wall).Add(time.Duration(at.Nanosecond()))
			}
			if at.After(from) && at.Before(to) {
				want[at.UnixNano()] = true
			}
		}
		got, back := map[int64]bool{}, map[int64]bool{}
		last := from
		for at, ok := p.Next(from); ok && at.Before(to); at, ok = p.Next(at) {
			if !at.After(last) {
				rt.Fatalf("%s after %s", at, last)
			}
			last = at
			got[at.UnixNano()] = true
			if !want[at.UnixNano()] {
				rt.Fatalf("%s is no time of it", at)
			}
		}
		for at, ok := p.Prev(to); ok && at.After(from); at, ok = p.Prev(at) {
			back[at.UnixNano()] = true
		}
		for at := range want {
			if !got[at] || !back[at] {
				rt.Fatalf("%s is missing: forward %t, backward %t", time.Unix(0, at).In(p.expr.Location()), got[at], back[at])
			}
		}
		if len(back) != len(want) {
			rt.Fatalf("backward %d, want %d", len(back), len(want))
		}
	})
}

// FuzzCalendar: no text of an entry panics, and what is taken has days or none, in
// order.
func FuzzCalendar(f *testing.F) {
	for _, entry := range []string{"mon-fri", "12-25", "02-29", "12-24..01-06", "2026-12-25", "2026-12-24..2027-01-06", "9999-12-31", "..", "1970-01-01..9999-12-31"} {
		f.Add(entry, entry, entry)
	}
	f.Fuzz(func(t *testing.T, weekday, include, exclude string) {
		c := CalendarSpec{Weekdays: []string{weekday}, Include: []string{include}, Exclude: []string{exclude}}
		for _, spec := range []CalendarSpec{c, {Weekdays: c.Weekdays}, {Include: c.Include}, {Include: c.Include, Exclude: c.Exclude}} {
			if spec.Validate() != nil {
				continue
			}
			days, err := spec.Days(time.Unix(1_800_000_000, 0), 5)
			if err != nil || !slices.IsSorted(days) {
				t.Fatalf("%q: %v, %v", spec, days, err)
			}
		}
	})
}

// TestCalendarSearchIsBounded: what never comes is told soon, however many
// calendars of however many days are named.
func TestCalendarSearchIsBounded(t *testing.T) {
	big := &CalendarSpec{Include: []string{"2020-01-01"}}
	for i := range MaxCalendarDays - 1 {
		big.Include = append(big.Include, time.Unix(int64(i)*2*daySeconds, 0).UTC().Format(time.DateOnly))
	}
	days, err := big.Ready()
	if err != nil {
		t.Fatal(err)
	}
	var of Calendars
	for i := range MaxCalendarsOf {
		of.Include = append(of.Include, "c"+string(rune('a'+i)))
	}
	of.Shift = ShiftNext
	p, err := NewPlan(&ScheduleSpec{Cron: "* * * * *", Calendars: &of}, PlanFor{Calendar: func(string) (*CalendarDays, bool) { return days, true }})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if at, ok := p.Next(instant(t, "2026-01-01T00:00:00Z")); ok {
		t.Error(at)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("told after %s", d)
	} else {
		t.Log(d)
	}
}
