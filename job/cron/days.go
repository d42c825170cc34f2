package cron

import (
	"math/bits"
	"strings"
)

// days is what the two day fields ask for.
type days struct {
	dom     uint32 // bit 1 is the 1st
	last    uint32 // bit n: n days before the last; bit 0 is L
	near    uint32 // bit n: nW
	lastMF  bool   // LW
	dow     uint8  // bit 0 is Sunday
	lastDow uint8  // bit d: dL
	nth     [5]uint8
	both    bool // a field begins with * or ?: a day must match both
	every   bool // all days match
}

// daysOfMonth reads the day-of-month field.
func (p fieldParser) daysOfMonth(text string, d *days) error {
	if text[0] == '*' || text == "?" {
		d.both = true
	}
	if text == "?" {
		text = "*"
	}
	f := domField
	items, err := f.items(text)
	if err != nil {
		return err
	}
	for _, item := range items {
		before, isNear := strings.CutSuffix(strings.ToUpper(item), "W")
		back, isBack := strings.CutPrefix(strings.ToUpper(item), "L-")
		switch {
		case strings.EqualFold(item, "L"):
			d.last |= 1
		case isNear && before == "L":
			d.lastMF = true
		case isNear:
			n, ok := number(before)
			if !ok || n < f.min || n > f.max {
				return f.fault("must have one day from "+f.span()+" before W, or L", item)
			}
			d.near |= 1 << n
		case isBack:
			n, ok := number(back)
			if !ok || n < 1 || n > 30 {
				return f.fault("must have 1 to 30 days after L-", item)
			}
			d.last |= 1 << n
		default:
			b, err := p.item(f, item)
			if err != nil {
				return err
			}
			d.dom |= uint32(b) //nolint:gosec // bits 1 to 31
		}
	}
	return nil
}

// daysOfWeek reads the day-of-week field, and with it knows both.
func (p fieldParser) daysOfWeek(text string, d *days) error {
	if text[0] == '*' || text == "?" {
		d.both = true
	}
	if text == "?" {
		text = "*"
	}
	f := dowField
	items, err := f.items(text)
	if err != nil {
		return err
	}
	for _, item := range items {
		name, k, isNth := strings.Cut(item, "#")
		before, isLast := strings.CutSuffix(strings.ToUpper(item), "L")
		switch {
		case isNth:
			v, err := p.value(f, name, item)
			if err != nil {
				return err
			}
			n, ok := number(k)
			if !ok || n < 1 || n > 5 {
				return f.fault("must have 1 to 5 after #: a month has no more of a weekday", item)
			}
			d.nth[n-1] |= 1 << (v % 7)
		case isLast:
			if before == "" {
				return f.fault("must have a weekday before L", item)
			}
			v, err := p.value(f, before, item)
			if err != nil {
				return err
			}
			d.lastDow |= 1 << (v % 7)
		default:
			b, err := p.item(f, item)
			if err != nil {
				return err
			}
			d.dow |= uint8(b&0x7f | b>>7) //nolint:gosec // bits 0 to 6
		}
	}
	const allDays = 1<<32 - 2
	d.every = d.dom == allDays && d.dow == 0x7f
	return nil
}

// of returns the days of a month that match, bit 1 being the 1st. weekday is
// that of the 1st.
func (d *days) of(length, weekday int) uint32 {
	inMonth := uint32(1)<<(length+1) - 2
	if length == 31 {
		inMonth = 1<<32 - 2
	}
	if d.every {
		return inMonth
	}
	a, b := d.inMonth(length, weekday)&inMonth, d.inWeeks(length, weekday)&inMonth
	if d.both {
		return a & b
	}
	return a | b
}

func (d *days) inMonth(length, weekday int) uint32 {
	set := d.dom
	for rest := d.last; rest != 0; rest &= rest - 1 {
		if n := length - bits.TrailingZeros32(rest); n >= 1 {
			set |= 1 << n
		}
	}
	for rest := d.near; rest != 0; rest &= rest - 1 {
		if n := bits.TrailingZeros32(rest); n <= length {
			set |= 1 << workday(n, length, weekday)
		}
	}
	if d.lastMF {
		set |= 1 << workday(length, length, weekday)
	}
	return set
}

// workday returns the day from Monday to Friday that is nearest to day n
// without leaving the month.
func workday(n, length, weekday int) int {
	switch (weekday + n - 1) % 7 {
	case 6: // Saturday
		if n == 1 {
			return 3
		}
		return n - 1
	case 0: // Sunday
		if n == length {
			return n - 2
		}
		return n + 1
	}
	return n
}

func (d *days) inWeeks(length, weekday int) uint32 {
	// The week of the 1st, turned so that bit 0 is the 1st's weekday.
	turn := func(set uint8) uint32 {
		s := uint32(set)
		return (s>>weekday | s<<(7-weekday)) & 0x7f
	}
	const weeks = 1<<1 | 1<<8 | 1<<15 | 1<<22 | 1<<29
	set := uint32(uint64(turn(d.dow)) * weeks) //nolint:gosec // beyond the month's end is cut off by the caller
	if d.lastDow != 0 {
		first := turn(d.lastDow) // as days from 1 to 7
		for rest := first; rest != 0; rest &= rest - 1 {
			n := bits.TrailingZeros32(rest) + 1
			set |= 1 << (n + (length-n)/7*7)
		}
	}
	for k, s := range d.nth {
		if s != 0 {
			set |= uint32(uint64(turn(s)) << (1 + 7*k)) //nolint:gosec // as above
		}
	}
	return set
}

// civil turns days since 1970-01-01 into a date of the Gregorian calendar.
func civil(z int64) (year int64, month, day int) {
	z += 719468
	era := floorDiv(z, 146097)
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	day = int(doy-(153*mp+2)/5) + 1
	month = int(mp) + 3
	year = yoe + era*400
	if month > 12 {
		month -= 12
		year++
	}
	return year, month, day
}

// daysTo returns the first day of a month, as civil counts.
func daysTo(year int64, month int) int64 {
	m := int64(month) - 3
	if month <= 2 {
		year--
		m += 12
	}
	era := floorDiv(year, 400)
	yoe := year - era*400
	doy := (153*m + 2) / 5
	return era*146097 + yoe*365 + yoe/4 - yoe/100 + doy - 719468
}

var lengths = [13]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

func monthLength(year int64, month int) int {
	if month == 2 && year%4 == 0 && (year%100 != 0 || year%400 == 0) {
		return 29
	}
	return lengths[month]
}

// weekdayOf returns the weekday of a day since 1970-01-01, a Thursday.
func weekdayOf(z int64) int { return int((z+4)%7+7) % 7 }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
