package cron

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Words says in English when the expression fires. It is written from what was
// understood, not from the text: two expressions with the same words fire at the same
// times, and an H is the value that it stands for.
func (e *Expr) Words() string {
	if v := e.interval; v != nil {
		return "every " + v.every.String() + ", counted from " + v.anchor.Format(time.RFC3339Nano)
	}
	when, days := e.timeWords(), e.dayWords()
	if days != "every day" || !strings.Contains(when, "every") {
		when += " " + days
	}
	return when + " in " + e.zone.loc.String()
}

// maxTimes is how many times of a day are listed one by one.
const maxTimes = 6

// timeWords tells the times of a day.
func (e *Expr) timeWords() string {
	s, m, h := e.seconds, e.minutes, uint64(e.hours)
	if bits.OnesCount64(s)*bits.OnesCount64(m)*bits.OnesCount64(h) <= maxTimes {
		return "at " + e.clockTimes()
	}
	hours := unitWords(h, hourField)
	if s != 1 { // not on the minute alone
		text := at(unitWords(s, secondField))
		if minutes := unitWords(m, minuteField); minutes != "every minute" || text != "every second" {
			text += " of " + minutes
		}
		if hours != "every hour" {
			text += " of " + hours
		}
		return text
	}
	minutes := unitWords(m, minuteField)
	switch {
	case hours == "every hour" && m == 1:
		return hours
	case strings.HasPrefix(hours, "every ") && strings.HasSuffix(hours, " hours") && m == 1:
		return hours + " from 00:00"
	case hours == "every hour" && strings.HasPrefix(minutes, "every"):
		return minutes
	}
	return at(minutes) + " of " + hours
}

// at begins what is no "every".
func at(unit string) string {
	if strings.HasPrefix(unit, "every") {
		return unit
	}
	return "at " + unit
}

func (e *Expr) clockTimes() string {
	var all []string
	for h := range members(uint64(e.hours)) {
		for m := range members(e.minutes) {
			for s := range members(e.seconds) {
				text := fmt.Sprintf("%02d:%02d", h, m)
				if s != 0 || e.seconds != 1 {
					text += fmt.Sprintf(":%02d", s)
				}
				all = append(all, text)
			}
		}
	}
	return list(all)
}

// unitWords tells which seconds, minutes or hours are in a set.
func unitWords(set uint64, f field) string {
	size := f.max - f.min + 1
	if bits.OnesCount64(set) == 1 {
		return f.name + " " + strconv.Itoa(bits.TrailingZeros64(set))
	}
	first, last, step, regular := regularSet(set)
	switch {
	case regular && step == 1 && last-first+1 == size:
		return "every " + f.name
	case regular && step > 1 && first == f.min && size%step == 0 && last == f.max+1-step:
		return "every " + strconv.Itoa(step) + " " + f.name + "s"
	case regular && step > 1 && bits.OnesCount64(set) > 3:
		return "every " + ordinal(step) + " " + f.name + " from " + strconv.Itoa(first) + " to " + strconv.Itoa(last)
	}
	return f.name + "s " + spans(set, strconv.Itoa)
}

// dayWords tells the days, with their months.
func (e *Expr) dayWords() string {
	d := &e.days
	months := spans(uint64(e.months), func(m int) string { return time.Month(m).String() })
	of, in := " of "+months, " in "+months
	const allMonths = 1<<13 - 2
	if e.months == allMonths {
		of, in = " of the month", ""
	}
	dom, dow := d.monthWords(of), d.weekWords(of, in)
	switch {
	case d.both && dom == "" && dow == "", !d.both && (dom == "" || dow == ""):
		return "every day" + in
	case d.both && dom == "":
		return "on " + list2(dow, " or on ")
	case d.both && dow == "":
		return "on " + list2(dom, " or on ")
	case d.both:
		return "on " + list2(dom, " or on ") + ", if that is " + list2(d.weekWords(of, ""), " or ")
	}
	return "on " + list2(dom, " or on ") + " or on " + list2(dow, " or on ")
}

// list2 joins what was joined by bars.
func list2(text, with string) string { return strings.ReplaceAll(text, "|", with) }

// monthWords tells which days of the month match, parted by bars; empty: all.
func (d *days) monthWords(of string) string {
	const allDays = 1<<32 - 2
	if d.dom == allDays {
		return ""
	}
	var all []string
	if first, last, step, regular := regularSet(uint64(d.dom)); regular && step > 1 && bits.OnesCount32(d.dom) > 3 {
		all = append(all, "every "+ordinal(step)+" day from the "+ordinal(first)+" to the "+ordinal(last)+of)
	} else if d.dom != 0 {
		all = append(all, "the "+spans(uint64(d.dom), ordinal)+of)
	}
	for n := range members(uint64(d.last)) {
		if n == 0 {
			all = append(all, "the last day"+of)
		} else {
			all = append(all, "the "+ordinal(n)+" day before the last"+of)
		}
	}
	for n := range members(uint64(d.near)) {
		all = append(all, "the weekday nearest to the "+ordinal(n)+of)
	}
	if d.lastMF {
		all = append(all, "the last weekday"+of)
	}
	return strings.Join(all, "|")
}

// weekWords is monthWords for weekdays.
func (d *days) weekWords(of, in string) string {
	if d.dow == 0x7f {
		return ""
	}
	// From Monday to Sunday.
	turned := func(set uint8) uint64 { return uint64(set&0x7e) | uint64(set&1)<<7 }
	weekday := func(n int) string { return time.Weekday(n % 7).String() }
	var all []string
	if d.dow != 0 {
		all = append(all, spans(turned(d.dow), weekday)+in)
	}
	for n := range members(turned(d.lastDow)) {
		all = append(all, "the last "+weekday(n)+of)
	}
	for k, set := range d.nth {
		for n := range members(turned(set)) {
			all = append(all, "the "+ordinal(k+1)+" "+weekday(n)+of)
		}
	}
	return strings.Join(all, "|")
}

// members goes through a set from its lowest.
func members(set uint64) func(func(int) bool) {
	return func(yield func(int) bool) {
		for ; set != 0; set &= set - 1 {
			if !yield(bits.TrailingZeros64(set)) {
				return
			}
		}
	}
}

// regularSet tells whether the members of a set, two at least, are equally far apart.
func regularSet(set uint64) (first, last, step int, regular bool) {
	n := 0
	for v := range members(set) {
		switch {
		case n == 0:
			first = v
		case n == 1:
			step = v - first
		case v-last != step:
			return first, last, 0, false
		}
		last = v
		n++
	}
	return first, last, step, n > 1
}

// spans lists the members of a set; three or more in a row are one span.
func spans(set uint64, name func(int) string) string {
	var all []string
	for set != 0 {
		first := bits.TrailingZeros64(set)
		n := bits.TrailingZeros64(^(set >> first))
		if n < 3 {
			n = 1
			all = append(all, name(first))
		} else {
			all = append(all, name(first)+" to "+name(first+n-1))
		}
		set &^= (1<<n - 1) << first
	}
	return list(all)
}

func list(all []string) string {
	if n := len(all); n > 1 {
		return strings.Join(all[:n-1], ", ") + " and " + all[n-1]
	}
	return all[0]
}

// ordinal writes 1st, 2nd, 11th.
func ordinal(n int) string {
	suffix := "th"
	if n/10%10 != 1 {
		switch n % 10 {
		case 1:
			suffix = "st"
		case 2:
			suffix = "nd"
		case 3:
			suffix = "rd"
		}
	}
	return strconv.Itoa(n) + suffix
}
