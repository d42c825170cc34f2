package cron

import (
	"strconv"
	"strings"
	"time"
)

// The shortest interval and the longest, a century.
const (
	MinEvery = time.Second
	MaxEvery = 36525 * 24 * time.Hour
)

// interval fires at anchor + k × every, for every whole k.
type interval struct {
	anchor time.Time
	every  time.Duration
}

func parseEvery(words []string, anchor time.Time) (*interval, error) {
	if len(words) != 1 {
		return nil, &Error{"every", "must have one duration, as in @every 90s", strings.Join(append([]string{"@every"}, words...), " ")}
	}
	d, ok := duration(words[0])
	if !ok {
		return nil, &Error{"every", "must be a duration such as 90s, 1h30m or 2d", words[0]}
	}
	return newInterval(d, words[0], anchor)
}

func newInterval(d time.Duration, text string, anchor time.Time) (*interval, error) {
	if d < MinEvery || d > MaxEvery {
		return nil, &Error{"every", "must be from 1s to 36525d", text}
	}
	if anchor.IsZero() {
		anchor = time.Unix(0, 0)
	}
	return &interval{anchor.UTC().Round(0), d}, nil
}

// duration reads what time.ParseDuration does, and whole days before it.
func duration(s string) (time.Duration, bool) {
	head, rest, dayed := strings.Cut(s, "d")
	if !dayed {
		d, err := time.ParseDuration(s)
		return d, err == nil
	}
	days, err := strconv.ParseUint(head, 10, 16) // 65,535 days are 179 years
	if err != nil {
		return 0, false
	}
	var part time.Duration
	if rest != "" {
		if part, err = time.ParseDuration(rest); err != nil || part < 0 || part > 24*365*100*time.Hour {
			return 0, false
		}
	}
	return time.Duration(days)*24*time.Hour + part, true
}

// Every returns what fires at an anchor and each d before and after it; a zero
// anchor is the Unix epoch, a nil location UTC.
func Every(d time.Duration, anchor time.Time, loc *time.Location) (*Expr, error) {
	v, err := newInterval(d, d.String(), anchor)
	if err != nil {
		return nil, err
	}
	if loc == nil {
		loc = time.UTC
	}
	return &Expr{text: "@every " + d.String(), zone: zoneFor(loc), interval: v}, nil
}

// floor returns the last time up to an instant of years 0 to 10000. That may
// lie farther from the anchor than a Duration reaches.
func (v *interval) floor(t time.Time) time.Time {
	const reach = 1 << 62 // 146 years
	for at := v.anchor; ; {
		d := max(-reach, min(t.Sub(at), reach))
		k := d / v.every
		if d%v.every < 0 {
			k--
		}
		if k == 0 {
			return at
		}
		at = at.Add(k * v.every)
	}
}

var (
	yearZero = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	yearEnd  = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
)

func (v *interval) next(after time.Time, loc *time.Location) (time.Time, bool) {
	if !after.Before(yearEnd) {
		return time.Time{}, false
	}
	if after.Before(yearZero) {
		after = yearZero
	}
	t := v.floor(after).Add(v.every)
	if !t.Before(yearEnd) {
		return time.Time{}, false
	}
	return t.In(loc), true
}

func (v *interval) prev(before time.Time, loc *time.Location) (time.Time, bool) {
	if before.Before(yearZero) {
		return time.Time{}, false
	}
	if before.After(yearEnd) {
		before = yearEnd
	}
	t := v.floor(before)
	if !t.Before(before) {
		t = t.Add(-v.every)
	}
	if t.Before(yearZero) {
		return time.Time{}, false
	}
	return t.In(loc), true
}
