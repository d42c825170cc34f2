package cron_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job/cron"
)

func mustParse(t *testing.T, expr, zone string) *cron.Expr {
	t.Helper()
	e, err := parse(expr, zone, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func at(t *testing.T, s string) time.Time {
	t.Helper()
	v, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// follow checks the next times after from.
func follow(t *testing.T, e *cron.Expr, from string, want ...string) {
	t.Helper()
	now := at(t, from)
	for _, w := range want {
		next, ok := e.Next(now)
		if !ok || next.Format("2006-01-02T15:04:05-07:00") != w {
			t.Errorf("%s after %s: got %s, want %s", e, now, next, w)
			return
		}
		now = next
	}
}

// A daily run is not lost on the day of the change.
func TestK1_01_DailyRunOnTheDayOfTheChange(t *testing.T) {
	e := mustParse(t, "0 2 * * *", "America/Los_Angeles")
	follow(t, e, "2025-03-08T02:00:00-08:00", "2025-03-09T03:00:00-07:00", "2025-03-10T02:00:00-07:00", "2025-03-11T02:00:00-07:00")
	if wall, note := e.Planned(at(t, "2025-03-09T03:00:00-07:00")); wall.String() != "2025-03-09T02:00:00" || note == "" {
		t.Errorf("the planned wall time is shown as %s, %q", wall, note)
	}
}

// An interval doesn't fall silent for the repeated hour.
func TestK1_02_IntervalInTheRepeatedHour(t *testing.T) {
	count := func(expr, zone, from, to string) int {
		return len(mustParse(t, expr, zone).Between(at(t, from).Add(-1), at(t, to).Add(-1), 10_000))
	}
	for _, c := range []struct {
		expr, zone, from, to string
		want                 int
	}{
		{"*/15 * * * * *", "Europe/London", "2025-10-26T00:00:00Z", "2025-10-26T01:00:00Z", 240},
		{"*/15 * * * * *", "Europe/London", "2025-10-26T01:00:00Z", "2025-10-26T02:00:00Z", 240},
		{"* * * * *", "Europe/London", "2025-10-26T00:00:00+01:00", "2025-10-27T00:00:00Z", 1500},
		{"* * * * *", "Europe/London", "2025-03-30T00:00:00Z", "2025-03-31T00:00:00+01:00", 1380},
		{"* * * * *", "Australia/Lord_Howe", "2026-04-05T00:00:00+11:00", "2026-04-06T00:00:00+10:30", 1470},
		{"* * * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "2026-10-05T00:00:00+11:00", 1410},
	} {
		if got := count(c.expr, c.zone, c.from, c.to); got != c.want {
			t.Errorf("%s in %s from %s to %s: %d, want %d", c.expr, c.zone, c.from, c.to, got, c.want)
		}
	}
}

// A loop that crosses the gap second by second starts one run, and next is
// always later than now.
func TestK1_03_NextIsLaterThanNow(t *testing.T) {
	e := mustParse(t, "0 2 * * *", "America/New_York")
	runs := map[string]int{}
	for now := at(t, "2019-03-10T06:59:59Z"); now.Before(at(t, "2019-03-10T07:00:06Z")); now = now.Add(time.Second) {
		for _, run := range e.Between(now.Add(-time.Second), now, 1000) {
			runs[run.UTC().Format(time.RFC3339)]++
		}
	}
	if len(runs) != 1 || runs["2019-03-10T07:00:00Z"] != 1 {
		t.Errorf("runs: %v", runs)
	}
	follow(t, e, "2019-03-10T07:00:00Z", "2019-03-11T02:00:00-04:00")

	zones := zoneNames(t)
	if testing.Short() {
		zones = zones[:50]
	}
	exprs := []string{"* * * * *", "0 2 * * *", "30 1 * * *", "*/15 * * * * *", "0 0 * * *", "0 12 L * *", "*/30 2 * * *"}
	for i, name := range zones {
		if !whole() && i%8 != 0 {
			continue
		}
		for _, expr := range exprs {
			e := mustParse(t, expr, name)
			for _, c := range changes2020s(t, name) {
				for s := c - 10; s <= c+10; s++ {
					now := time.Unix(s, 0)
					next, ok := e.Next(now)
					prev, okPrev := e.Prev(now)
					if !ok || !next.After(now) || !okPrev || !prev.Before(now) {
						t.Fatalf("%s in %s at %s: next %s, previous %s", expr, name, now.UTC(), next, prev)
					}
					if again, _ := e.Prev(next.Add(time.Second)); !again.Equal(next) {
						t.Fatalf("%s in %s at %s: next is %s, previous of that is %s", expr, name, now.UTC(), next, again)
					}
				}
			}
		}
	}
}

var changesOf = map[string][]int64{}

func changes2020s(t *testing.T, zone string) (in []int64) {
	if known, ok := changesOf[zone]; ok {
		return known
	}
	for _, c := range changes(t, []string{zone}) {
		if y := time.Unix(c.at, 0).UTC().Year(); y >= 2020 && y <= 2030 {
			in = append(in, c.at)
		}
	}
	changesOf[zone] = in
	return in
}

// A day without midnight is not skipped, and with it a year.
func TestK1_04_DayWithoutMidnight(t *testing.T) {
	const from = "2018-11-03T23:00:00-03:00"
	follow(t, mustParse(t, "0 1 4 11 *", "America/Sao_Paulo"), from, "2018-11-04T01:00:00-02:00", "2019-11-04T01:00:00-03:00")
	follow(t, mustParse(t, "0 0 * * *", "America/Sao_Paulo"), from, "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00")
}

// What can never match is refused at once.
func TestK1_05_DatesThatNeverCome(t *testing.T) {
	for _, expr := range []string{"0 0 31 2 *", "0 0 31 4 *", "0 0 31 2,4,6,9,11 *", "0 0 30W 2 *", "* * * 30 2 ?", "0 0 L-30 2 *"} {
		fastest := time.Hour
		for range 10 { // the machine may be busy with other tests
			start := time.Now()
			_, err := parse(expr, "UTC", time.Time{})
			fastest = min(fastest, time.Since(start))
			if err == nil || !strings.Contains(err.Error(), "must be a date that exists") {
				t.Errorf("%s: %v", expr, err)
			}
		}
		if fastest > 50*time.Millisecond {
			t.Errorf("%s: refused after %s", expr, fastest)
		}
	}
	follow(t, mustParse(t, "0 0 29 2 *", "UTC"), "2026-01-01T00:00:00Z", "2028-02-29T00:00:00+00:00")
	follow(t, mustParse(t, "0 0 31 2 1", "UTC"), "2026-01-01T00:00:00Z", "2026-02-02T00:00:00+00:00", "2026-02-09T00:00:00+00:00")
}

// The next leap day is found though it is eight years off, and that there is no
// next time is a result of its own.
func TestK1_06_LeapDayFarAway(t *testing.T) {
	e := mustParse(t, "0 0 29 2 *", "UTC")
	follow(t, e, "2096-03-01T00:00:00Z", "2104-02-29T00:00:00+00:00", "2108-02-29T00:00:00+00:00", "2112-02-29T00:00:00+00:00")
	follow(t, mustParse(t, "0 0 29 2 */7", "UTC"), "2088-03-01T00:00:00Z", "2128-02-29T00:00:00+00:00") // a Sunday as well
	if next, ok := e.Next(at(t, "9999-01-01T00:00:00Z")); ok || !next.IsZero() {
		t.Errorf("after the last leap day of four digits: %s, %t", next, ok)
	}
	if prev, ok := e.Prev(at(t, "0001-01-01T00:00:00Z")); ok {
		t.Errorf("before the first: %s", prev)
	}
	for _, far := range []time.Time{{}, time.Unix(1<<61, 0), time.Unix(-1<<61, 0), time.Unix(1<<62, 0)} {
		for _, expr := range []string{"* * * * *", "0 2 * * *", "@every 1h"} {
			e := mustParse(t, expr, "Europe/Berlin")
			if next, ok := e.Next(far); ok && !next.After(far) {
				t.Errorf("%s after %s: %s", expr, far, next)
			}
			if prev, ok := e.Prev(far); ok && !prev.Before(far) {
				t.Errorf("%s before %s: %s", expr, far, prev)
			}
		}
	}
}

// Both day fields set: either matches, unless one begins with a star.
func TestK1_07_BothDayFields(t *testing.T) {
	days := func(expr string) (n int, weekend bool) {
		weekend = true
		last := ""
		for _, run := range mustParse(t, expr, "UTC").Between(at(t, "2025-12-31T23:59:59Z"), at(t, "2026-12-31T23:59:59Z"), 1_000_000) {
			if day := run.Format(time.DateOnly); day != last {
				n, last = n+1, day
				weekend = weekend && (run.Weekday() == time.Saturday || run.Weekday() == time.Sunday)
			}
		}
		return n, weekend
	}
	if n, _ := days("0 0 13 * 5"); n != 61 {
		t.Errorf("13th or Friday: %d days, want 61", n)
	}
	if n, _ := days("0 0 */2 * 3"); n != 26 {
		t.Errorf("odd dates that are Wednesdays: %d, want 26", n)
	}
	if n, weekend := days("* * * * 0,6"); n != 104 || !weekend {
		t.Errorf("weekends: %d days, want 104; only weekends: %t", n, weekend)
	}
}

// Nonsense is refused with the field named.
func TestK1_08_NonsenseIsRefused(t *testing.T) {
	for expr, field := range map[string]string{
		"": "expression", "   \t ": "expression", strings.Repeat(",", 10_000): "expression", "0 ５ * * *": "expression",
		"0 5\n* * *": "expression", "0 5 * * *\n": "expression", "0 5 * * \x00": "expression",
		"60 * * * *": "minute", "* 24 * * *": "hour", "* * 0 * *": "day-of-month", "* * * 13 *": "month", "* * * * 8": "day-of-week",
		"60 * * * * *": "second", "*/0 * * * *": "minute", "5-5/0 * * * *": "minute", "*/90 * * * *": "minute", "1,2, * * * *": "minute",
		",1 * * * *": "minute", "-1 * * * *": "minute", "+1 * * * *": "minute", "1.5 * * * *": "minute", "*/ * * * *": "minute",
		"/5 * * * *": "minute", "1/2/3 * * * *": "minute", "1-2-3 * * * *": "minute", "0 5-3 * * *": "hour", "0 22-2 * * *": "hour",
		"0 5 * * FOO": "day-of-week", "0 5 * FOO *": "month", "0 5 * JANUARY *": "month", "? * * * *": "minute", "0 5 ?/2 * *": "day-of-month",
		"0 5 ?,3 * *": "day-of-month", "0 5 0W * *": "day-of-month", "0 5 32W * *": "day-of-month", "0 5 W * *": "day-of-month",
		"0 0 1-5W * *": "day-of-month", "0 0 WL * *": "day-of-month", "0 0 L-0 * *": "day-of-month", "0 0 L-31 * *": "day-of-month",
		"0 0 L/2 * *": "day-of-month", "0 0 1L * *": "day-of-month", "0 0 * * L": "day-of-week", "0 0 * * 8L": "day-of-week",
		"0 0 * * 1#6": "day-of-week", "0 0 * * 1#0": "day-of-week", "0 0 * * #1": "day-of-week", "0 0 * * 1#": "day-of-week",
		"0 0 * * 1-5#2": "day-of-week", "0 0 * * 5W": "day-of-week", "H(5) * * * *": "minute", "H(5-1) * * * *": "minute", "H( * * * *": "minute",
		"H(0-99) * * * *": "minute", "H() * * * *": "minute", "Hx * * * *": "minute", "H-5 * * * *": "minute", "1-H * * * *": "minute",
		"99999999999999999999 * * * *": "minute", "* * * *": "expression", "* * * * * * *": "expression", "@fortnightly": "expression",
		"@daily 5": "expression", "@reboot": "expression", "@every": "every", "@every 0s": "every", "@every -5m": "every", "@every 5": "every",
		"@every 500ms": "every", "@every 1h 2h": "every", "@every 99999999h": "every", "@every 36526d": "every", "@every 1d-1h": "every",
		"TZ=UTC": "expression", "TZ=TZ=TZ=": "timezone", "TZ= 0 5 * * *": "timezone", "TZ=Local 0 5 * * *": "timezone", "CRON_TZ=Mars/X @daily": "timezone",
	} {
		_, err := cron.Parse(expr, cron.Options{})
		var bad *cron.Error
		if !errors.As(err, &bad) || bad.Field != field || bad.Rule == "" {
			t.Errorf("%.40q: got %v, want %s refused", expr, err, field)
		}
		if bad != nil && bad.Value == "" && strings.TrimSpace(expr) != "" {
			t.Errorf("%.40q: %v doesn't say what was given", expr, err)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.40q: a message of %d bytes", expr, len(err.Error()))
		}
	}
}

// Zone data is built in, and no zone is UTC wherever the host's clock stands.
func TestK1_09_ZonesUnknownOnTheHost(t *testing.T) {
	local := time.Local
	defer func() { time.Local = local }()
	time.Local, _ = time.LoadLocation("Asia/Tokyo")
	t.Setenv("ZONEINFO", "/nowhere")
	const from = "2026-07-01T00:00:00Z"
	follow(t, mustParse(t, "30 21 * * *", "America/Los_Angeles"), from, "2026-06-30T21:30:00-07:00", "2026-07-01T21:30:00-07:00")
	follow(t, mustParse(t, "0 5 * * *", ""), from, "2026-07-01T05:00:00+00:00")
	if _, err := os.Stat("/usr/share/zoneinfo"); err == nil {
		t.Log("this host has zone files of its own")
	}
}
