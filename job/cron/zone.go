package cron

import (
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Zone returns the zone of an IANA name; empty is UTC. Names that mean what a
// host is set to are refused, as every server must come to the same times.
func Zone(name string) (*time.Location, error) {
	if name == "" {
		return time.UTC, nil
	}
	z, err := zoneNamed(name)
	if err != nil {
		return nil, err
	}
	return z.loc, nil
}

func zoneNamed(name string) (*zone, error) {
	if known, ok := zones.Load(name); ok {
		return known.(*zone), nil
	}
	switch name {
	case "Local", "localtime", "posixrules", "Factory":
		return nil, &Error{"timezone", "must be an IANA name: " + name + " differs between hosts", name}
	}
	if strings.HasPrefix(name, "posix/") || strings.HasPrefix(name, "right/") || !zoneName(name) {
		return nil, &Error{"timezone", "must be an IANA name such as Europe/Berlin", name}
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, &Error{"timezone", "must be an IANA name such as Europe/Berlin: there is no such zone", name}
	}
	known, _ := zones.LoadOrStore(name, newZone(loc))
	return known.(*zone), nil
}

// zoneName keeps paths from a zone's name.
func zoneName(s string) bool {
	if s == "" || len(s) > 64 || s[0] == '/' || strings.Contains(s, "..") {
		return false
	}
	for _, c := range []byte(s) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("/_+-", c) >= 0) {
			return false
		}
	}
	return true
}

// zones keeps the clock changes of each zone that was asked for, by name:
// thousands of schedules share a few, and asking package time costs more than
// all the rest. There are no more than there are names, some 600.
var zones sync.Map // string to *zone

// zoneFor returns the zone of a location, which is known by its name; one that
// has no name of a zone was made by hand.
func zoneFor(loc *time.Location) *zone {
	if z, err := zoneNamed(loc.String()); err == nil {
		return z
	}
	return newZone(loc)
}

// zone is a location with its clock changes of two centuries at hand.
type zone struct {
	loc     *time.Location
	changes []int64 // sorted instants; the first is the table's start
	offsets []int64 // of UTC, in seconds, from the change on
	end     int64   // of the table
}

// segment is a span of time within which a zone's clock runs on: instants from
// start up to, not including, end have wall time = instant + offset.
type segment struct{ start, end, offset int64 }

const (
	tableFrom = -1 << 31                 // 1901
	tableTo   = (2200 - 1970) * 31556952 // 2200
)

func newZone(loc *time.Location) *zone {
	z := &zone{loc: loc, end: tableTo}
	for t := int64(tableFrom); t < tableTo; {
		s := lookup(loc, t)
		if n := len(z.offsets); n == 0 || z.offsets[n-1] != s.offset {
			z.changes = append(z.changes, t)
			z.offsets = append(z.offsets, s.offset)
		}
		t = s.end
	}
	z.changes, z.offsets = slices.Clip(z.changes), slices.Clip(z.offsets)
	return z
}

// at returns the segment of an instant. Two that follow each other may have the
// same offset.
func (z *zone) at(t int64) segment {
	if t < tableFrom || t >= z.end {
		return lookup(z.loc, t)
	}
	lo, hi := 0, len(z.changes) // the last change up to t is in [lo, hi)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; z.changes[mid] <= t {
			lo = mid
		} else {
			hi = mid
		}
	}
	s := segment{z.changes[lo], z.end, z.offsets[lo]}
	if hi < len(z.changes) {
		s.end = z.changes[hi]
	}
	return s
}

// lookup asks package time.
func lookup(loc *time.Location, t int64) segment {
	at := time.Unix(t, 0).In(loc)
	_, offset := at.Zone()
	from, to := at.ZoneBounds()
	s := segment{math.MinInt64, math.MaxInt64, int64(offset)}
	if !from.IsZero() {
		s.start = from.Unix()
	}
	if !to.IsZero() {
		s.end = to.Unix()
	}
	if s.end <= t {
		// For the last day of a leap year package time says that the year has
		// 365 days. No zone changes its clock on that day.
		s.end = (floorDiv(t, daySeconds) + 1) * daySeconds
	}
	return s
}
