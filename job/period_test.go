package job

import (
	"testing"
	"time"
)

func TestPeriodBounds(t *testing.T) {
	for _, c := range []struct {
		period               Period
		zone, at, start, end string
	}{
		{PeriodHour, "Europe/Berlin", "2026-03-29T00:30:00Z", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{PeriodHour, "Europe/Berlin", "2026-10-25T01:10:00Z", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"},
		{PeriodHour, "Asia/Kolkata", "2026-01-01T00:40:00Z", "2026-01-01T06:00:00+05:30", "2026-01-01T07:00:00+05:30"},
		{PeriodDay, "Europe/Berlin", "2026-03-29T12:00:00Z", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00"},
		{PeriodDay, "Europe/Berlin", "2026-10-24T22:00:00Z", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"},
		{"", "UTC", "2026-12-31T23:59:59Z", "2026-12-31T00:00:00Z", "2027-01-01T00:00:00Z"},
		// A midnight that is left out, one that comes twice, a day that is left out.
		{PeriodDay, "Asia/Beirut", "2026-03-29T09:00:00Z", "2026-03-29T01:00:00+03:00", "2026-03-30T00:00:00+03:00"},
		{PeriodDay, "America/Havana", "2026-11-01T12:00:00Z", "2026-11-01T00:00:00-04:00", "2026-11-02T00:00:00-05:00"},
		{PeriodDay, "Pacific/Apia", "2011-12-29T20:00:00Z", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"},
		{PeriodWeek, "UTC", "2026-03-01T12:00:00Z", "2026-02-23T00:00:00Z", "2026-03-02T00:00:00Z"},
		{PeriodWeek, "UTC", "2026-03-02T00:00:00Z", "2026-03-02T00:00:00Z", "2026-03-09T00:00:00Z"},
		{PeriodMonth, "Europe/Berlin", "2026-12-31T23:30:00Z", "2027-01-01T00:00:00+01:00", "2027-02-01T00:00:00+01:00"},
		{PeriodYear, "UTC", "2028-02-29T00:00:00Z", "2028-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := time.Parse(time.RFC3339, c.at)
		start, end := c.period.Bounds(at, zone)
		if got := start.Format(time.RFC3339) + " " + end.Format(time.RFC3339); got != c.start+" "+c.end {
			t.Errorf("%s of %s in %s: %s, want %s %s", c.period, c.at, c.zone, got, c.start, c.end)
		}
	}
}

// Periods follow each other without a gap, in every zone that changes its clocks at
// midnight.
func TestPeriodsFollowEachOther(t *testing.T) {
	for _, name := range []string{"Asia/Beirut", "America/Havana", "Africa/Cairo", "America/Asuncion", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Period{PeriodHour, PeriodDay, PeriodWeek, PeriodMonth} {
			end := time.Date(2026, 1, 1, 0, 0, 0, 0, zone)
			for end.Year() < 2027 {
				start, next := p.Bounds(end, zone)
				if !start.Equal(end) && !end.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, zone)) || !next.After(end) ||
					next.Unix()%900 != 0 { // what has succeeded is kept by the quarter of an hour
					t.Fatalf("%s in %s: %v is followed by %v to %v", p, name, end, start, next)
				}
				end = next
			}
		}
	}
}
