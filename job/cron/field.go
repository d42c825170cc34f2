package cron

import (
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// field is one of the six.
type field struct {
	name     string
	min, max int
	hashMax  int      // H is drawn from min to this
	names    []string // of the values from min on
}

var (
	monthNames = []string{"JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"}
	dayNames   = []string{"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"}

	secondField = field{name: "second", max: 59, hashMax: 59}
	minuteField = field{name: "minute", max: 59, hashMax: 59}
	hourField   = field{name: "hour", max: 23, hashMax: 23}
	domField    = field{name: "day-of-month", min: 1, max: 31, hashMax: 28} // a day that every month has
	monthField  = field{name: "month", min: 1, max: 12, hashMax: 12, names: monthNames}
	dowField    = field{name: "day-of-week", max: 7, hashMax: 6, names: dayNames} // 0 and 7 are Sunday
)

func (f field) fault(rule, value string) error { return &Error{f.name, rule, value} }

func (f field) span() string { return strconv.Itoa(f.min) + " to " + strconv.Itoa(f.max) }

type fieldParser struct{ seed string }

// items takes a list apart.
func (f field) items(text string) ([]string, error) {
	items := strings.Split(text, ",")
	if slices.Contains(items, "") {
		return nil, f.fault("must have no empty item in its list", text)
	}
	return items, nil
}

// bits reads a list whose items are values, ranges and steps.
func (p fieldParser) bits(f field, text string) (uint64, error) {
	items, err := f.items(text)
	if err != nil {
		return 0, err
	}
	var set uint64
	for _, item := range items {
		b, err := p.item(f, item)
		if err != nil {
			return 0, err
		}
		set |= b
	}
	return set, nil
}

// item reads *, a, a-b, H or H(a-b), each but a single H's value with an
// optional /step.
func (p fieldParser) item(f field, item string) (uint64, error) {
	span, stepText, stepped := strings.Cut(item, "/")
	step := 1
	if stepped {
		n, ok := number(stepText)
		if !ok || n < 1 || n > f.max {
			return 0, f.fault("must have a step from 1 to "+strconv.Itoa(f.max), item)
		}
		step = n
	}
	if strings.HasPrefix(span, "H") && (span == "H" || span[1] == '(') {
		return p.hashed(f, item, span[1:], step, stepped)
	}
	if span == "*" {
		return steps(f.min, f.max, step), nil
	}
	if strings.Contains(span, "-") {
		a, b, err := p.span(f, span, item)
		return steps(a, b, step), err
	}
	a, err := p.value(f, span, item)
	if err != nil {
		return 0, err
	}
	if stepped {
		return steps(a, f.max, step), nil
	}
	return 1 << a, nil
}

// span reads a-b, where SUN at the right is 7.
func (p fieldParser) span(f field, text, item string) (a, b int, err error) {
	first, last, _ := strings.Cut(text, "-")
	if a, err = p.value(f, first, item); err != nil {
		return 0, -1, err
	}
	if b, err = p.value(f, last, item); err != nil {
		return 0, -1, err
	}
	if f.name == dowField.name && strings.EqualFold(last, "SUN") {
		b = 7
	}
	if b < a {
		return 0, -1, f.fault("must have ranges that go upwards", item)
	}
	return a, b, nil
}

// hashed reads what follows an H: nothing, or a range in brackets.
func (p fieldParser) hashed(f field, item, within string, step int, stepped bool) (uint64, error) {
	a, b := f.min, f.hashMax
	if stepped {
		b = f.max
		if f.name == dowField.name {
			b = f.hashMax // 7 is 0 once more
		}
	}
	if within != "" {
		inner, closed := strings.CutSuffix(within[1:], ")")
		if !closed || !strings.Contains(inner, "-") {
			return 0, f.fault("must write a range of H as H(a-b)", item)
		}
		var err error
		if a, b, err = p.span(f, inner, item); err != nil {
			return 0, err
		}
	}
	h := hash(p.seed, f.name)
	if !stepped {
		return 1 << (a + int(h%uint64(b-a+1))), nil //nolint:gosec // below 64
	}
	return steps(a+int(h%uint64(min(step, b-a+1))), b, step), nil //nolint:gosec // below 64
}

// value reads a number or a name.
func (p fieldParser) value(f field, text, item string) (int, error) {
	for i, name := range f.names {
		if strings.EqualFold(name, text) {
			return f.min + i, nil
		}
	}
	n, ok := number(text)
	switch {
	case !ok && f.names != nil:
		return 0, f.fault("must be a number from "+f.span()+" or a name from "+f.names[0]+" to "+f.names[len(f.names)-1], item)
	case !ok:
		return 0, f.fault("must be a number from "+f.span(), item)
	case n < f.min || n > f.max:
		return 0, f.fault("must be from "+f.span(), item)
	}
	return n, nil
}

// number reads up to four digits and nothing else; more are no value of any
// field.
func number(s string) (int, bool) {
	if s == "" || len(s) > 4 {
		return 0, false
	}
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

func steps(from, to, step int) uint64 {
	var set uint64
	for v := from; v <= to; v += step {
		set |= 1 << v
	}
	return set
}

// hash draws a field's H. It is FNV-1a with a last mix, and must never change:
// stored schedules would move.
func hash(seed, field string) uint64 {
	h := uint64(14695981039346656037)
	for _, s := range []string{seed, "\x00", field} {
		for _, c := range []byte(s) {
			h = (h ^ uint64(c)) * 1099511628211
		}
	}
	h ^= h >> 32
	h *= 0x9e3779b97f4a7c15
	return h ^ h>>29
}

// lowest returns the lowest member of a set that isn't below from.
func lowest(set uint64, from int) (int, bool) {
	if from > 63 {
		return 0, false
	}
	set >>= uint(from)
	if set == 0 {
		return 0, false
	}
	return from + bits.TrailingZeros64(set), true
}

// highest returns the highest member of a set that isn't above upTo.
func highest(set uint64, upTo int) (int, bool) {
	if upTo < 0 {
		return 0, false
	}
	if upTo < 63 {
		set &= 1<<(uint(upTo)+1) - 1
	}
	if set == 0 {
		return 0, false
	}
	return 63 - bits.LeadingZeros64(set), true
}
