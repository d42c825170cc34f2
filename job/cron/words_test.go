package cron

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWords(t *testing.T) {
	berlin, err := Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ expr, want string }{
		{"0 2 * * *", "at 02:00 every day"},
		{"@daily", "at 00:00 every day"},
		{"@hourly", "every hour"},
		{"@weekly", "at 00:00 on Sunday"},
		{"@monthly", "at 00:00 on the 1st of the month"},
		{"@yearly", "at 00:00 on the 1st of January"},
		{"* * * * *", "every minute"},
		{"* * * * * *", "every second"},
		{"*/10 * * * * *", "every 10 seconds of every minute"},
		{"30 * * * * *", "at second 30 of every minute"},
		{"30 0 2 * * *", "at 02:00:30 every day"},
		{"0,30 0 2 * * *", "at 02:00:00 and 02:00:30 every day"},
		{"*/5 10-20 9-17 * * *", "every 5 seconds of minutes 10 to 20 of hours 9 to 17"},
		{"*/15 * * * *", "every 15 minutes"},
		{"5/15 * * * *", "every 15th minute from 5 to 50"},
		{"*/7 * * * *", "every 7th minute from 0 to 56"},
		{"5 * * * *", "at minute 5 of every hour"},
		{"0,30 * * * *", "every 30 minutes"},
		{"1,30 * * * *", "at minutes 1 and 30 of every hour"},
		{"0 */2 * * *", "every 2 hours from 00:00"},
		{"5 */2 * * *", "at minute 5 of every 2 hours"},
		{"0 1-23/2 * * *", "at minute 0 of every 2nd hour from 1 to 23"},
		{"0 9-17 * * mon-fri", "at minute 0 of hours 9 to 17 on Monday to Friday"},
		{"*/15 9-17 * * 1-5", "every 15 minutes of hours 9 to 17 on Monday to Friday"},
		{"0 8,12,18 * * *", "at 08:00, 12:00 and 18:00 every day"},
		{"30 2 1,15 * *", "at 02:30 on the 1st and 15th of the month"},
		{"30 2 1-7 * *", "at 02:30 on the 1st to 7th of the month"},
		{"0 0 */2 * *", "at 00:00 on every 2nd day from the 1st to the 31st of the month"},
		{"0 0 */2 * 3", "at 00:00 on every 2nd day from the 1st to the 31st of the month, if that is Wednesday"},
		{"0 0 13 * 5", "at 00:00 on the 13th of the month or on Friday"},
		{"0 0 1-31 * 5", "at 00:00 every day"},
		{"0 9 L * *", "at 09:00 on the last day of the month"},
		{"0 9 L-3 * *", "at 09:00 on the 3rd day before the last of the month"},
		{"0 9 LW * *", "at 09:00 on the last weekday of the month"},
		{"0 9 15W * *", "at 09:00 on the weekday nearest to the 15th of the month"},
		{"0 9 ? * FRIL", "at 09:00 on the last Friday of the month"},
		{"0 9 ? * 5#2", "at 09:00 on the 2nd Friday of the month"},
		{"0 9 ? 3,9 5#2,1", "at 09:00 on Monday in March and September or on the 2nd Friday of March and September"},
		{"0 9 1,L 1-3 *", "at 09:00 on the 1st of January to March or on the last day of January to March"},
		{"0 9 * 2 *", "at 09:00 every day in February"},
		{"* * * 2 *", "every minute every day in February"},
		{"0 0 * * 5,6,0", "at 00:00 on Friday to Sunday"},
		{"0 0 * * 0,1", "at 00:00 on Monday and Sunday"},
		{"0 0 22,23 * *", "at 00:00 on the 22nd and 23rd of the month"},
	} {
		e, err := Parse(c.expr, Options{Location: berlin})
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Words(); got != c.want+" in Europe/Berlin" {
			t.Errorf("%s: %q, want %q", c.expr, got, c.want)
		}
	}
	every, err := Parse("@every 90m", Options{Anchor: time.Date(2026, 3, 29, 1, 2, 3, 0, time.UTC)})
	if err != nil || every.Words() != "every 1h30m0s, counted from 2026-03-29T01:02:03Z" {
		t.Errorf("%q, %v", every.Words(), err)
	}
	if h, err := Parse("H H * * *", Options{HashSeed: "default/backup"}); err != nil || h.Words() == "" || h.Words()[:3] != "at " {
		t.Errorf("%q, %v", h.Words(), err)
	}
}

// meaning is all that decides when an expression fires, but for clock changes.
func (e *Expr) meaning() string {
	text := fmt.Sprint(e.seconds, e.minutes, e.hours, e.months)
	for length := 28; length <= 31; length++ {
		for weekday := range 7 {
			text += fmt.Sprint(" ", e.days.of(length, weekday))
		}
	}
	return text
}

// Two expressions that are told alike mean the same.
func TestWordsTellAllThatMatters(t *testing.T) {
	known := map[string]*Expr{}
	rapid.Check(t, func(t *rapid.T) {
		pick := func(name string, from ...string) string { return rapid.SampledFrom(from).Draw(t, name) }
		text := pick("second", "0", "0", "0", "30", "*/10", "*", "0-2", "1,59") + " " +
			pick("minute", "0", "*", "*/15", "5/15", "0,30", "1-5", "*/7", "3,4,5,9") + " " +
			pick("hour", "*", "0", "2", "*/2", "9-17", "1-23/2", "1,5", "0-22/2") + " " +
			pick("day", "*", "?", "1", "1,15", "1-7", "*/2", "L", "L-3", "LW", "15W", "1,L", "1-31", "*/30", "2-30/4") + " " +
			pick("month", "*", "1", "1-3", "1,7", "*/3", "1-12") + " " +
			pick("weekday", "*", "?", "1", "1-5", "0,6", "FRIL", "5#2", "5#2,1", "*/2", "0-6")
		e, err := Parse(text, Options{})
		if err != nil {
			t.Skip(err)
		}
		words := e.Words()
		if other, ok := known[words]; ok && other.meaning() != e.meaning() {
			t.Fatalf("%s and %s are both told as %q", e, other, words)
		}
		known[words] = e
	})
}
