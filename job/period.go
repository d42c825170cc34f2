package job

import "time"

// Bounds returns the span of a period that holds t, by the clocks of a zone: from
// start, before end. A day begins with its first instant, also where midnight is
// left out or comes twice.
func (p Period) Bounds(t time.Time, zone *time.Location) (start, end time.Time) {
	t = t.In(zone)
	y, m, d := t.Date()
	switch p {
	case PeriodHour:
		return hourOf(t)
	case PeriodWeek:
		monday := d - (int(t.Weekday())+6)%7
		return dayStart(y, m, monday, zone), dayStart(y, m, monday+7, zone)
	case PeriodMonth:
		return dayStart(y, m, 1, zone), dayStart(y, m+1, 1, zone)
	case PeriodYear:
		return dayStart(y, 1, 1, zone), dayStart(y+1, 1, 1, zone)
	default:
		return dayStart(y, m, d, zone), dayStart(y, m, d+1, zone)
	}
}

// quarter divides every offset from UTC since 1972, so clocks change at its multiples.
const quarter = 15 * time.Minute

// hourOf is the span around t in which the clocks show one hour and run on evenly: an
// hour that comes twice is two.
func hourOf(t time.Time) (start, end time.Time) {
	one := func(a, b time.Time) bool { return a.Hour() == b.Hour() && a.Minute() < b.Minute() }
	since := time.Duration(t.Minute()%15)*time.Minute + time.Duration(t.Second())*time.Second + time.Duration(t.Nanosecond())
	start = t.Add(-since)
	end = start.Add(quarter)
	for one(start.Add(-quarter), start) {
		start = start.Add(-quarter)
	}
	for one(end.Add(-quarter), end) {
		end = end.Add(quarter)
	}
	return start, end
}

// dayStart is the first instant of a day, or where a zone has left that day out,
// of the one after it.
func dayStart(y int, m time.Month, d int, zone *time.Location) time.Time {
	want := time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
	before := func(t time.Time) bool {
		y, m, d := t.Date()
		return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Before(want)
	}
	t := time.Date(want.Year(), want.Month(), want.Day(), 0, 0, 0, 0, zone)
	for before(t) { // midnight is left out, or Date chose the later offset
		t = t.Add(quarter)
	}
	for !before(t.Add(-quarter)) { // midnight comes twice
		t = t.Add(-quarter)
	}
	return t
}
