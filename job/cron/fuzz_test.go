package cron_test

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job/cron"
)

// FuzzParse holds what must be true of every input: no panic, no endless
// search; what is taken has a next time, later than now and found again by Prev,
// and is read the same from its own text.
func FuzzParse(f *testing.F) {
	table, err := os.ReadFile("testdata/cron.tsv")
	if err != nil {
		f.Fatal(err)
	}
	for row := range strings.Lines(string(table)) {
		f.Add(strings.Split(row, "\t")[0], int64(1772960400))
	}
	for _, expr := range []string{"H H(0-5) H * H", "0 9 L-3,LW,15W * 5L,MON#2", "TZ=Asia/Tokyo @daily", "@every 1d12h"} {
		f.Add(expr, int64(-1))
	}
	berlin, err := cron.Zone("Europe/Berlin")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, expr string, s int64) {
		opt := cron.Options{HashSeed: "ns/fuzz"}
		if s%2 == 0 {
			opt.Location = berlin
		}
		e, err := cron.Parse(expr, opt)
		if err != nil {
			if bad := (*cron.Error)(nil); !errors.As(err, &bad) || bad.Field == "" {
				t.Fatalf("%q: %v", expr, err)
			}
			return
		}
		now := time.Unix(s, 0)
		next, ok := e.Next(now)
		if s > 0 && s < 200_000_000_000 && !ok {
			t.Fatalf("%q has no time after %s", expr, now)
		}
		if ok {
			if !next.After(now) {
				t.Fatalf("%q: %s comes after %s", expr, next, now)
			}
			if prev, ok := e.Prev(next.Add(1)); !ok || !prev.Equal(next) {
				t.Fatalf("%q: next %s, but before its end %s", expr, next, prev)
			}
			if prev, ok := e.Prev(next); ok && prev.After(now) {
				t.Fatalf("%q: %s lies between %s and its next %s", expr, prev, now, next)
			}
			if again, ok := e.Next(next.Add(-1)); !ok || !again.Equal(next) {
				t.Fatalf("%q: %s isn't found right before it, but %s", expr, next, again)
			}
		}
		opt.Location = e.Location()
		again, err := cron.Parse(e.String(), opt)
		if err != nil {
			t.Fatalf("%q is written as %q, which is refused: %v", expr, e, err)
		}
		if n, ok2 := again.Next(now); ok2 != ok || !n.Equal(next) {
			t.Fatalf("%q is written as %q, which is another plan", expr, e)
		}
	})
}
