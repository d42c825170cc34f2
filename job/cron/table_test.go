package cron_test

import (
	"os"
	"strings"
	"testing"
	"time"

	_ "time/tzdata" // the tests must not depend on what the host has installed

	"github.com/axd-project/axd/job/cron"
)

// parse is Parse with the zone's name, as callers do it.
func parse(expr, zone string, anchor time.Time) (*cron.Expr, error) {
	loc, err := cron.Zone(zone)
	if err != nil {
		return nil, err
	}
	return cron.Parse(expr, cron.Options{Location: loc, Anchor: anchor})
}

// TestTable runs testdata/cron.tsv: cases from public bug reports. Its columns
// are expression, zone, from, the next three times, note; error means refused.
func TestTable(t *testing.T) {
	text, err := os.ReadFile("testdata/cron.tsv")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(string(text)), "\n")[1:]
	if len(rows) != 102 {
		t.Errorf("%d rows, want 102", len(rows))
	}
	for i, row := range rows {
		col := strings.Split(row, "\t")
		from, err := time.Parse(time.RFC3339, col[2])
		if err != nil {
			t.Fatal(err)
		}
		e, err := parse(col[0], col[1], from)
		if col[3] == "error" {
			if err == nil {
				t.Errorf("row %d: %q in %s is not refused: %s", i+2, col[0], col[1], col[6])
			}
			continue
		}
		if err != nil {
			t.Errorf("row %d: %q in %s: %v", i+2, col[0], col[1], err)
			continue
		}
		at := from
		for _, want := range col[3:6] {
			var ok bool
			if at, ok = e.Next(at); !ok || at.Format("2006-01-02T15:04:05-07:00") != want {
				t.Errorf("row %d: %q in %s: got %s, want %s: %s", i+2, col[0], col[1], at, want, col[6])
				break
			}
		}
	}
}

func BenchmarkNext(b *testing.B) {
	for _, expr := range []string{"* * * * *", "30 2 * * *", "*/15 9-17 * * MON-FRI", "0 0 L * *", "0 10 * * FRI#5", "0 0 29 2 *"} {
		b.Run(strings.ReplaceAll(expr, " ", "_"), func(b *testing.B) {
			e, err := parse(expr, "America/New_York", time.Time{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			from := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for at := from; b.Loop(); {
				at, _ = e.Next(at)
				if at.Year() > 2090 {
					at = from
				}
			}
		})
	}
}
