package cron

// Wall times are counted in seconds as if the zone were UTC. They end where
// RFC 3339 does.
var (
	minWall = daysTo(1, 1) * daySeconds
	maxWall = daysTo(10000, 1)*daySeconds - 1
)

const (
	daySeconds = 24 * 60 * 60
	// cycleMonths is after how many months the calendar repeats, weekdays
	// included: what has not matched by then never does.
	cycleMonths = 400 * 12
)

// nextWall returns the first wall time from w on that matches.
func (e *Expr) nextWall(w int64) (int64, bool) { return e.wallUntil(w, maxWall+1) }

// wallUntil is nextWall for what lies before end.
func (e *Expr) wallUntil(w, end int64) (int64, bool) {
	w, end = max(w, minWall), min(end, maxWall+1)
	if w >= end {
		return 0, false
	}
	z := floorDiv(w, daySeconds)
	year, month, day := civil(z)
	set := e.monthDays(year, month, z-int64(day)+1)
	if set>>day&1 != 0 {
		if s, ok := e.nextInDay(int(w - z*daySeconds)); ok {
			return z*daySeconds + s, z*daySeconds+s < end
		}
	}
	first := z - int64(day) + 1 // of the month
	from := day + 1
	for range cycleMonths + 1 {
		if d, ok := lowest(uint64(set), from); ok {
			w = (first+int64(d)-1)*daySeconds + e.firstSecond
			return w, w < end
		}
		m, ok := lowest(uint64(e.months), month+1)
		if !ok {
			m, _ = lowest(uint64(e.months), 1)
			year++
		}
		month = m
		if first = daysTo(year, month); first*daySeconds >= end {
			return 0, false
		}
		set, from = e.monthDays(year, month, first), 1
	}
	return 0, false
}

// prevWall returns the last wall time up to w that matches.
func (e *Expr) prevWall(w int64) (int64, bool) {
	w = min(w, maxWall)
	if w < minWall {
		return 0, false
	}
	z := floorDiv(w, daySeconds)
	year, month, day := civil(z)
	first := z - int64(day) + 1
	set := e.monthDays(year, month, first)
	if set>>day&1 != 0 {
		if s, ok := e.prevInDay(int(w - z*daySeconds)); ok {
			return z*daySeconds + s, true
		}
	}
	upTo := day - 1
	for range cycleMonths + 1 {
		if d, ok := highest(uint64(set), upTo); ok {
			s, _ := e.prevInDay(daySeconds - 1)
			return (first+int64(d)-1)*daySeconds + s, true
		}
		m, ok := highest(uint64(e.months), month-1)
		if !ok {
			m, _ = highest(uint64(e.months), 12)
			if year--; year < 1 {
				return 0, false
			}
		}
		month = m
		first = daysTo(year, month)
		set, upTo = e.monthDays(year, month, first), 31
	}
	return 0, false
}

// monthDays returns the matching days of a month, given its first day.
func (e *Expr) monthDays(year int64, month int, first int64) uint32 {
	if e.months>>month&1 == 0 {
		return 0
	}
	return e.days.of(monthLength(year, month), weekdayOf(first))
}

// nextInDay returns the first second of a day from s on that matches.
func (e *Expr) nextInDay(s int) (int64, bool) {
	h, m, sec := s/3600, s/60%60, s%60
	if e.hours>>h&1 != 0 {
		if e.minutes>>m&1 != 0 {
			if sec, ok := lowest(e.seconds, sec); ok {
				return second(h, m, sec), true
			}
		}
		if m, ok := lowest(e.minutes, m+1); ok {
			sec, _ = lowest(e.seconds, 0)
			return second(h, m, sec), true
		}
	}
	h, ok := lowest(uint64(e.hours), h+1)
	if !ok {
		return 0, false
	}
	m, _ = lowest(e.minutes, 0)
	sec, _ = lowest(e.seconds, 0)
	return second(h, m, sec), true
}

// prevInDay returns the last second of a day up to s that matches.
func (e *Expr) prevInDay(s int) (int64, bool) {
	h, m, sec := s/3600, s/60%60, s%60
	if e.hours>>h&1 != 0 {
		if e.minutes>>m&1 != 0 {
			if sec, ok := highest(e.seconds, sec); ok {
				return second(h, m, sec), true
			}
		}
		if m, ok := highest(e.minutes, m-1); ok {
			sec, _ = highest(e.seconds, 59)
			return second(h, m, sec), true
		}
	}
	h, ok := highest(uint64(e.hours), h-1)
	if !ok {
		return 0, false
	}
	m, _ = highest(e.minutes, 59)
	sec, _ = highest(e.seconds, 59)
	return second(h, m, sec), true
}

func second(h, m, s int) int64 { return int64(h)*3600 + int64(m)*60 + int64(s) }
