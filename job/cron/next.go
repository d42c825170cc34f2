package cron

import "time"

// Next returns the first time after an instant, which is always later than it,
// in the expression's zone. ok is false where there is none before the year
// 10000.
func (e *Expr) Next(after time.Time) (t time.Time, ok bool) {
	if e.interval != nil {
		return e.interval.next(after, e.zone.loc)
	}
	s, ok := e.next(clamp(after.Unix()) + 1)
	if !ok {
		return time.Time{}, false
	}
	return time.Unix(s, 0).In(e.zone.loc), true
}

// Prev returns the last time before an instant.
func (e *Expr) Prev(before time.Time) (t time.Time, ok bool) {
	if e.interval != nil {
		return e.interval.prev(before, e.zone.loc)
	}
	s := clamp(before.Unix())
	if before.Nanosecond() == 0 {
		s--
	}
	if s, ok = e.prev(s); !ok {
		return time.Time{}, false
	}
	return time.Unix(s, 0).In(e.zone.loc), true
}

// Between returns the times after a, up to and including b, at most limit of
// them: the first ones.
func (e *Expr) Between(a, b time.Time, limit int) []time.Time {
	var all []time.Time
	for t, ok := e.Next(a); ok && !t.After(b) && len(all) < limit; t, ok = e.Next(t) {
		all = append(all, t)
	}
	return all
}

// farthest is how far two walls of one instant can lie apart, and more: offsets
// reach from -16 to +16 hours.
const farthest = 48 * 60 * 60

// clamp keeps arithmetic on instants within int64.
func clamp(t int64) int64 { return max(minWall-farthest, min(t, maxWall+farthest)) }

// next returns the first time from t on.
func (e *Expr) next(t int64) (int64, bool) {
	seg := e.zone.at(t)
	var w, from int64 // no match lies in [from, w)
	ok := false
	for {
		if t == seg.start && e.firesAfterGap(seg) {
			return t, true
		}
		if lo := t + seg.offset; !ok || lo < from || lo > w {
			from = lo
			if w, ok = e.nextWall(lo); !ok {
				return 0, false
			}
		}
		for ok && w-seg.offset < seg.end {
			resume, skip := e.skipsRepeat(w, seg)
			if !skip {
				return w - seg.offset, true
			}
			from = resume.end
			w, ok = e.nextWall(from)
		}
		if !ok || w > maxWall {
			return 0, false
		}
		t = seg.end
		if near := w - seg.offset - farthest; near > t && t+seg.offset-farthest >= from {
			t = near // nothing matches before it, whatever the clock does
		}
		seg = e.zone.at(t)
	}
}

// prev returns the last time up to t.
func (e *Expr) prev(t int64) (int64, bool) {
	for {
		seg := e.zone.at(t)
		w, ok := e.prevWall(t + seg.offset)
		for ok && (seg.start < minWall-farthest || w-seg.offset >= seg.start) {
			resume, skip := e.skipsRepeat(w, seg)
			if !skip {
				return w - seg.offset, true
			}
			w, ok = e.prevWall(resume.start - 1)
		}
		if seg.start < minWall-farthest {
			return 0, false
		}
		if e.firesAfterGap(seg) {
			return seg.start, true
		}
		t = seg.start - 1
	}
}

// walls returns the wall times of a segment.
func (s segment) walls() segment {
	w := s
	if s.start > minWall-farthest {
		w.start += s.offset
	}
	if s.end < maxWall+farthest {
		w.end += s.offset
	}
	return w
}

func (s segment) has(w int64) bool { return w >= s.start && w < s.end }

// skipsRepeat tells whether the wall time w in a segment is one that comes
// again and doesn't fire this time. It returns walls round w that have the
// same fate.
func (e *Expr) skipsRepeat(w int64, seg segment) (alike segment, skip bool) {
	switch e.repeat {
	case RepeatFirst:
		return e.earlier(w, seg)
	case RepeatSecond:
		return e.later(w, seg)
	}
	return segment{}, false
}

// earlier tells whether w came in a segment before this one, and returns that
// one's walls.
func (e *Expr) earlier(w int64, seg segment) (segment, bool) {
	for t := w - seg.offset; seg.start > t-farthest; {
		seg = e.zone.at(seg.start - 1)
		if walls := seg.walls(); walls.has(w) {
			return walls, true
		}
	}
	return segment{}, false
}

// later tells whether w comes in a segment after this one.
func (e *Expr) later(w int64, seg segment) (segment, bool) {
	for t := w - seg.offset; seg.end < t+farthest; {
		seg = e.zone.at(seg.end)
		if walls := seg.walls(); walls.has(w) {
			return walls, true
		}
	}
	return segment{}, false
}

// firesAfterGap tells whether a segment begins with a gap that swallows a time
// which is to fire after it.
func (e *Expr) firesAfterGap(seg segment) bool {
	_, fires := e.swallowed(seg)
	return fires && e.gap == GapAfter
}

// swallowed returns the first matching wall time in the gap before a segment.
func (e *Expr) swallowed(seg segment) (int64, bool) {
	if seg.start < minWall-farthest {
		return 0, false
	}
	before := e.zone.at(seg.start - 1)
	if before.offset >= seg.offset {
		return 0, false
	}
	from, to := seg.start+before.offset, seg.start+seg.offset
	for w, ok := e.wallUntil(from, to); ok; w, ok = e.wallUntil(w+1, to) {
		// A clock set back soon after may bring it all the same.
		_, was := e.earlier(w, seg)
		_, will := e.later(w, seg)
		if !was && !will {
			return w, true
		}
	}
	return 0, false
}
