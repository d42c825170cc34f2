package cron

import "time"

// Wall is a wall time: a day since 1970-01-01 and a second of it.
type Wall struct {
	Day    int64
	Second int
}

func wallOf(w int64) Wall {
	day := floorDiv(w, daySeconds)
	return Wall{day, int(w - day*daySeconds)}
}

// String writes 2026-03-08T02:30:00.
func (w Wall) String() string {
	return time.Unix(w.Day*daySeconds+int64(w.Second), 0).UTC().Format("2006-01-02T15:04:05")
}

// Date writes 2026-03-08.
func (w Wall) Date() string { return w.String()[:len("2006-01-02")] }

// clock writes 02:30, or 02:30:15 where the second counts.
func (w Wall) clock() string {
	s := w.String()[len("2006-01-02T"):]
	if w.Second%60 == 0 {
		return s[:len("15:04")]
	}
	return s
}

// WallAt returns what the clocks of the expression's zone show at an instant.
func (e *Expr) WallAt(t time.Time) Wall {
	s := clamp(t.Unix())
	return wallOf(s + e.zone.at(s).offset)
}

// Instant returns when a wall time first comes; one that doesn't exist comes at
// the end of the gap it lies in.
func (e *Expr) Instant(w Wall) time.Time {
	wall := w.Day*daySeconds + int64(w.Second)
	for seg := e.zone.at(wall - farthest); ; seg = e.zone.at(seg.end) {
		walls := seg.walls()
		if wall < walls.end {
			return time.Unix(max(wall, walls.start)-seg.offset, 0).In(e.zone.loc)
		}
	}
}

// Planned returns the wall time that a time of this expression stands for, which
// is another one than the clocks show where a gap has put it off, and words on
// what a clock change does to it; mostly none.
func (e *Expr) Planned(at time.Time) (wall Wall, note string) {
	wall = e.WallAt(at)
	if e.interval != nil {
		return wall, ""
	}
	s := clamp(at.Unix())
	seg := e.zone.at(s)
	if s == seg.start && e.gap == GapAfter {
		if w, ok := e.swallowed(seg); ok {
			planned := wallOf(w)
			note = planned.clock() + " doesn't exist on " + planned.Date() + ": at the first instant after the gap"
			if shown := s + seg.offset; e.matches(shown) {
				note += ", one with " + wall.clock()
			}
			return planned, note
		}
	}
	shown := s + seg.offset
	_, was := e.earlier(shown, seg)
	_, will := e.later(shown, seg)
	switch {
	case was:
		note = wall.clock() + " comes twice on " + wall.Date() + ": the second time"
	case will:
		note = wall.clock() + " comes twice on " + wall.Date() + ": the first time"
	}
	return wall, note
}

func (e *Expr) matches(w int64) bool {
	_, ok := e.wallUntil(w, w+1)
	return ok
}
