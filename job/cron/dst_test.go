package cron_test

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job/cron"
)

// fires lists a day's fires as wall time with offset.
func fires(t *testing.T, expr, zone, day string, opt cron.Options) []string {
	t.Helper()
	loc, err := cron.Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	opt.Location = loc
	e, err := cron.Parse(expr, opt)
	if err != nil {
		t.Fatal(err)
	}
	from, err := time.ParseInLocation(time.DateOnly, day, loc)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, at := range e.Between(from.Add(-1), from.AddDate(0, 0, 1).Add(-1), 1_000_000) {
		all = append(all, at.Format("15:04-0700"))
	}
	return all
}

// TestClockChangeSettings is the table of docs/guides/cron.md.
func TestClockChangeSettings(t *testing.T) {
	const spring, autumn = "2026-03-08", "2026-11-01"
	for _, c := range []struct{ expr, day, gap, repeat, want string }{
		{"30 2 * * *", spring, "", "", "03:00-0400"},
		{"15,45 2 * * *", spring, "", "", "03:00-0400"},
		{"0 2,3 * * *", spring, "", "", "03:00-0400"},
		{"30 2 * * *", spring, "after", "", "03:00-0400"},
		{"30 2 * * *", spring, "skip", "", ""},
		{"*/30 2 * * *", spring, "", "", ""},
		{"*/30 2 * * *", spring, "skip", "", ""},
		{"*/30 2 * * *", spring, "after", "", "03:00-0400"},
		{"*/30 1-3 * * *", spring, "", "", "01:00-0500 01:30-0500 03:00-0400 03:30-0400"},
		{"30 1 * * *", autumn, "", "", "01:30-0400"},
		{"30 1 * * *", autumn, "", "first", "01:30-0400"},
		{"30 1 * * *", autumn, "", "second", "01:30-0500"},
		{"30 1 * * *", autumn, "", "both", "01:30-0400 01:30-0500"},
		{"*/30 1 * * *", autumn, "", "", "01:00-0400 01:30-0400 01:00-0500 01:30-0500"},
		{"*/30 1 * * *", autumn, "", "first", "01:00-0400 01:30-0400"},
		{"*/30 1 * * *", autumn, "", "second", "01:00-0500 01:30-0500"},
		{"0 3 * * *", autumn, "", "", "03:00-0500"},
		{"@every 12h", autumn, "skip", "second", "07:00-0500 19:00-0500"},
	} {
		opt := cron.Options{DST: cron.DST{Gap: cron.Gap(c.gap), Repeat: cron.Repeat(c.repeat)}}
		if got := strings.Join(fires(t, c.expr, "America/New_York", c.day, opt), " "); got != c.want {
			t.Errorf("%s on %s, gap %q, repeat %q: got %q, want %q", c.expr, c.day, c.gap, c.repeat, got, c.want)
		}
	}
	for _, dst := range []cron.DST{{Gap: "before"}, {Repeat: "never"}} {
		if _, err := cron.Parse("0 5 * * *", cron.Options{DST: dst}); err == nil {
			t.Errorf("%+v is taken", dst)
		}
	}
}

func TestPlannedWallTimes(t *testing.T) {
	for _, c := range []struct{ expr, from, wall, note string }{
		{"30 2 * * *", "2026-03-08T00:00:00-05:00", "2026-03-08T02:30:00", "02:30 doesn't exist on 2026-03-08: at the first instant after the gap"},
		{"0 2,3 * * *", "2026-03-08T00:00:00-05:00", "2026-03-08T02:00:00", "02:00 doesn't exist on 2026-03-08: at the first instant after the gap, one with 03:00"},
		{"0 * * * *", "2026-03-08T01:00:00-05:00", "2026-03-08T03:00:00", ""},
		{"30 1 * * *", "2026-11-01T00:00:00-04:00", "2026-11-01T01:30:00", "01:30 comes twice on 2026-11-01: the first time"},
		{"0 * * * *", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00", "01:00 comes twice on 2026-11-01: the second time"},
		{"@every 1h", "2026-11-01T05:00:00Z", "2026-11-01T01:00:00", ""},
		{"15 0 5 * * *", "2026-11-01T05:00:00Z", "2026-11-01T05:00:15", ""},
	} {
		from, _ := time.Parse(time.RFC3339, c.from)
		e, err := parse(c.expr, "America/New_York", from)
		if err != nil {
			t.Fatal(err)
		}
		at, _ := e.Next(from)
		if wall, note := e.Planned(at); wall.String() != c.wall || note != c.note {
			t.Errorf("%s after %s: got %s, %q", c.expr, c.from, wall, note)
		}
	}
}

func TestInstantOfWallTimes(t *testing.T) {
	for zone, cases := range map[string]map[string]string{
		"America/New_York":    {"2026-03-08T02:30:00": "2026-03-08T03:00:00-04:00", "2026-11-01T01:30:00": "2026-11-01T01:30:00-04:00", "2026-06-01T12:00:00": "2026-06-01T12:00:00-04:00"},
		"Pacific/Apia":        {"2011-12-30T12:00:00": "2011-12-31T00:00:00+14:00"},
		"Australia/Lord_Howe": {"2026-04-05T01:45:00": "2026-04-05T01:45:00+11:00"},
	} {
		e, err := parse("0 0 * * *", zone, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		for wall, want := range cases {
			w, _ := time.Parse("2006-01-02T15:04:05", wall)
			got := e.Instant(cron.Wall{Day: w.Unix() / 86400, Second: int(w.Unix() % 86400)})
			if got.Format(time.RFC3339) != want {
				t.Errorf("%s in %s: got %s, want %s", wall, zone, got.Format(time.RFC3339), want)
			}
		}
	}
}

func TestHashesAreStableAndSpread(t *testing.T) {
	parse := func(expr, seed string) *cron.Expr {
		e, err := cron.Parse(expr, cron.Options{HashSeed: seed})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	from := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	// The times of stored schedules: they must never change.
	for expr, want := range map[string]string{
		"H H * * *": "06-01T04:34", "H/15 * * * *": "06-01T00:04", "H(0-29)/10 * * * *": "06-01T00:04", "H(9-17) 5 H * *": "06-25T05:16",
		"H H H H *": "04-25T04:34", "0 0 * * H": "06-02T00:00", "0 H(9-17) * * H(MON-FRI)": "06-05T13:00",
	} {
		at, _ := parse(expr, "default/backup").Next(from)
		if got := at.Format("01-02T15:04"); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
	minutes := map[int]int{}
	for i := range 3000 {
		at, _ := parse("H H H * *", "default/job-"+strings.Repeat("x", i%7)+time.Duration(i).String()).Next(from)
		minutes[at.Minute()]++
		if at.Day() > 28 {
			t.Fatalf("H drew day %d, which not every month has", at.Day())
		}
	}
	for m := range 60 {
		if minutes[m] < 20 || minutes[m] > 90 {
			t.Errorf("minute %d was drawn %d times of 3000", m, minutes[m])
		}
	}
}

func TestZonePrefix(t *testing.T) {
	for expr, want := range map[string]string{
		"CRON_TZ=Asia/Tokyo 0 5 * * *": "05:00+0900", "TZ=Asia/Tokyo 0 5 * * *": "05:00+0900", "TZ=America/New_York @daily": "00:00-0400", "0 5 * * *": "05:00+0000",
	} {
		e, err := cron.Parse(expr, cron.Options{})
		if err != nil {
			t.Fatal(err)
		}
		at, _ := e.Next(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
		if got := at.Format("15:04-0700"); got != want {
			t.Errorf("%s: got %s, want %s", expr, got, want)
		}
	}
	loc, _ := cron.Zone("Europe/Berlin")
	if _, err := cron.Parse("TZ=Asia/Tokyo 0 5 * * *", cron.Options{Location: loc}); err == nil {
		t.Error("two zones are taken")
	}
	for _, name := range []string{"Local", "localtime", "../etc/passwd", "/etc/localtime", "posix/UTC", "right/UTC", "Europe/Atlantis", "Europe/Berlin\x00", strings.Repeat("A", 300)} {
		if _, err := cron.Zone(name); err == nil {
			t.Errorf("zone %q is taken", name)
		}
	}
	if e, err := cron.Parse("0 0 * * *", cron.Options{Location: time.FixedZone("", 3600)}); err != nil {
		t.Error(err)
	} else if at, _ := e.Next(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)); at.UTC().Hour() != 23 {
		t.Errorf("a zone made by hand: %s", at)
	}
}
