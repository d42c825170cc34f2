package cron_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job/cron"
)

// The oracle knows when an expression fires by walking real minutes, one by one,
// and reading the wall clock off package time. It shares nothing with the
// package: not even the parser, since the test makes each field as text and as
// predicate at once.

// drawn is an expression as text and as a predicate over wall times.
type drawn struct {
	text    string
	second  int
	matches func(wall time.Time) bool
	follows bool // real time: a * or a step in minute or hour
}

type drawnField struct {
	text string
	ok   func(v int) bool
}

func drawField(r *rand.Rand, from, to int, stars float64) drawnField {
	v := func() int { return from + r.IntN(to-from+1) }
	switch k := r.Float64(); {
	case k < stars/2:
		return drawnField{"*", func(int) bool { return true }}
	case k < stars:
		n := 2 + r.IntN((to-from)/2)
		return drawnField{fmt.Sprintf("*/%d", n), func(x int) bool { return (x-from)%n == 0 }}
	case k < stars+0.15:
		a, b := v(), v()
		if a > b {
			a, b = b, a
		}
		return drawnField{fmt.Sprintf("%d-%d", a, b), func(x int) bool { return x >= a && x <= b }}
	}
	set := []int{v(), v(), v()}[:1+r.IntN(3)]
	words := make([]string, len(set))
	for i, x := range set {
		words[i] = strconv.Itoa(x)
	}
	return drawnField{strings.Join(words, ","), func(x int) bool { return slices.Contains(set, x) }}
}

// drawDays draws both day fields. Most leave all days, so that the hours round a
// clock change matter.
func drawDays(r *rand.Rand, near time.Time) (dom, dow string, ok func(time.Time) bool) {
	last := func(t time.Time) int { return time.Date(t.Year(), t.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day() }
	wd := near.Weekday()
	switch r.IntN(10) {
	case 0:
		return strconv.Itoa(near.Day()), "*", func(t time.Time) bool { return t.Day() == near.Day() }
	case 1:
		return "?", strconv.Itoa(int(wd)), func(t time.Time) bool { return t.Weekday() == wd }
	case 2:
		return strconv.Itoa(near.Day()), wd.String()[:3], func(t time.Time) bool { return t.Day() == near.Day() || t.Weekday() == wd }
	case 3:
		return "*/2", strconv.Itoa(int(wd)), func(t time.Time) bool { return t.Day()%2 == 1 && t.Weekday() == wd }
	case 4:
		return "*", wd.String()[:3] + "L", func(t time.Time) bool { return t.Weekday() == wd && t.Day()+7 > last(t) }
	case 5:
		k := (near.Day()-1)/7 + 1
		return "*", fmt.Sprintf("%d#%d", wd, k), func(t time.Time) bool { return t.Weekday() == wd && (t.Day()-1)/7+1 == k }
	case 6:
		return "L,L-1,1", "*", func(t time.Time) bool { return t.Day() == 1 || t.Day() >= last(t)-1 }
	}
	return "*", "*", func(time.Time) bool { return true }
}

func draw(r *rand.Rand, near time.Time) drawn {
	minute, hour := drawField(r, 0, 59, 0.3), drawField(r, 0, 23, 0.4)
	if r.IntN(3) == 0 { // an hour that the change touches
		h := (near.Hour() + 23 + r.IntN(3)) % 24
		hour = drawnField{strconv.Itoa(h), func(x int) bool { return x == h }}
	}
	dom, dow, day := drawDays(r, near)
	d := drawn{
		text:    strings.Join([]string{minute.text, hour.text, dom, "*", dow}, " "),
		follows: strings.ContainsAny(minute.text+hour.text, "*/"),
	}
	if r.IntN(4) == 0 {
		d.second = r.IntN(60)
		d.text = strconv.Itoa(d.second) + " " + d.text
	}
	d.matches = func(w time.Time) bool { return minute.ok(w.Minute()) && hour.ok(w.Hour()) && day(w) }
	return d
}

// oracle lists the fires in [from, to): Unix seconds.
func (d drawn) oracle(loc *time.Location, from, to int64, dst cron.DST) []int64 {
	const slack = 2 * 24 * 3600 // what came before the span counts as well
	wallOf := func(s int64) time.Time {
		t := time.Unix(s, 0).In(loc)
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	}
	var walls []time.Time
	comes := map[time.Time][]int64{}
	for s := from - slack; s < to+slack; s += 60 {
		w := wallOf(s)
		walls = append(walls, w)
		comes[w] = append(comes[w], s)
	}
	set := map[int64]bool{}
	for w, at := range comes {
		if !d.matches(w) {
			continue
		}
		switch {
		case dst.Repeat == cron.RepeatSecond:
			at = at[len(at)-1:]
		case dst.Repeat == cron.RepeatFirst || dst.Repeat == "" && !d.follows:
			at = at[:1]
		}
		for _, s := range at {
			set[s+int64(d.second)] = true
		}
	}
	if dst.Gap == cron.GapAfter || dst.Gap == "" && !d.follows {
		for i := 1; i < len(walls); i++ {
			for w := walls[i-1].Add(time.Minute); w.Before(walls[i]); w = w.Add(time.Minute) {
				if d.matches(w) && comes[w] == nil {
					set[from-slack+int64(i)*60] = true
				}
			}
		}
	}
	var all []int64
	for s := range set {
		if s >= from && s < to {
			all = append(all, s)
		}
	}
	slices.Sort(all)
	return all
}

type change struct {
	zone string
	at   int64
}

// zoneNames lists all zones that differ.
func zoneNames(t *testing.T) []string {
	data, err := os.ReadFile("testdata/zones.txt")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// changes lists the clock changes of zones from 2000 to 2040.
func changes(t *testing.T, zones []string) []change {
	var all []change
	for _, name := range zones {
		loc, err := cron.Zone(name)
		if err != nil {
			t.Fatal(err)
		}
		offset := func(at int64) int { _, o := time.Unix(at, 0).In(loc).Zone(); return o }
		const halfDay = 12 * 3600
		end := time.Date(2041, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
		for s := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); s < end; s += halfDay {
			lo, hi := s, s+halfDay
			if offset(lo) == offset(hi) {
				continue
			}
			for hi-lo > 1 {
				if mid := (lo + hi) / 2; offset(mid) == offset(lo) {
					lo = mid
				} else {
					hi = mid
				}
			}
			all = append(all, change{name, hi})
		}
	}
	return all
}

func random(t *testing.T) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("AXD_CRON_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("AXD_CRON_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// whole tells whether to try every zone instead of a sample (some minutes).
func whole() bool { return os.Getenv("AXD_CRON_ALL") != "" }

// TestOracle compares with the oracle round clock changes of all zones from 2000
// to 2040: a sample of them, or each.
func TestOracle(t *testing.T) {
	zones, r := zoneNames(t), random(t)
	if !whole() {
		r.Shuffle(len(zones), func(i, j int) { zones[i], zones[j] = zones[j], zones[i] })
		zones = zones[:40]
	}
	all := changes(t, zones)
	if !whole() {
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:min(len(all), 50)]
	}
	for _, c := range all {
		for range 2 {
			compare(t, r, c)
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d clock changes of %d zones", len(all), len(zones))
	if len(all) < 20 {
		t.Error("too few clock changes to show anything")
	}
}

// compare draws an expression and checks Next, Prev and Between against the
// oracle within a day and a half of a clock change.
func compare(t *testing.T, r *rand.Rand, c change) {
	t.Helper()
	loc, _ := cron.Zone(c.zone)
	d := draw(r, time.Unix(c.at, 0).In(loc))
	dst := cron.DST{
		Gap:    []cron.Gap{"", "", cron.GapAfter, cron.GapSkip}[r.IntN(4)],
		Repeat: []cron.Repeat{"", "", cron.RepeatFirst, cron.RepeatSecond, cron.RepeatBoth}[r.IntN(5)],
	}
	e, err := cron.Parse(d.text, cron.Options{Location: loc, DST: dst})
	if err != nil {
		t.Fatalf("%q: %v", d.text, err)
	}
	from, to := c.at-36*3600, c.at+36*3600
	want := d.oracle(loc, from, to, dst)
	var got, back []int64
	for at, ok := e.Next(time.Unix(from-1, 0)); ok && at.Unix() < to; at, ok = e.Next(at) {
		got = append(got, at.Unix())
	}
	for at, ok := e.Prev(time.Unix(to, 0)); ok && at.Unix() >= from; at, ok = e.Prev(at) {
		back = append(back, at.Unix())
	}
	slices.Reverse(back)
	where := fmt.Sprintf("%q in %s with %+v round %s", d.text, c.zone, dst, time.Unix(c.at, 0).In(loc))
	if !slices.Equal(got, want) {
		t.Errorf("Next of %s: first difference %s", where, differ(got, want, loc))
	}
	if !slices.Equal(back, want) {
		t.Errorf("Prev of %s: first difference %s", where, differ(back, want, loc))
	}
	// From each second next to the change, the next fire is the oracle's.
	for s := c.at - 10; s <= c.at+10; s++ {
		i, _ := slices.BinarySearch(want, s+1)
		at, ok := e.Next(time.Unix(s, 0))
		if ok && at.Unix() <= s || i < len(want) && at.Unix() != want[i] || i == len(want) && ok && at.Unix() < to {
			t.Errorf("%s: after %d comes %d", where, s, at.Unix())
		}
	}
}

func differ(got, want []int64, loc *time.Location) string {
	show := func(l []int64, i int) string {
		if i >= len(l) {
			return "none"
		}
		return time.Unix(l[i], 0).In(loc).Format(time.RFC3339)
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	return "got " + show(got, i) + ", want " + show(want, i)
}
