package cron

import (
	"strconv"
	"strings"
	"time"
)

// MaxLength is the longest expression in bytes.
const MaxLength = 1024

// Options say what an expression alone doesn't.
type Options struct {
	// Location is the zone of the wall times; nil is UTC. It is known by its
	// name. An expression may name a zone itself ("CRON_TZ=Europe/Berlin 0 5 * * *")
	// unless Location is another one than UTC.
	Location *time.Location
	// DST says what to do with wall times that don't exist or come twice.
	DST DST
	// HashSeed is what H is drawn from: the schedule's name, with its namespace.
	HashSeed string
	// Anchor is an instant at which "@every" fires, and so its phase; zero is
	// the Unix epoch.
	Anchor time.Time
}

// Expr is a parsed expression. It never changes and may be shared.
type Expr struct {
	text     string
	zone     *zone
	interval *interval // of @every; the fields are then unused

	seconds, minutes uint64
	hours            uint32
	months           uint16 // bit 1 is January
	days             days
	firstSecond      int64 // of a day that matches

	gap    Gap // resolved: never empty
	repeat Repeat
}

var macros = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// Parse reads an expression. Its error is an *Error. What no date can ever
// satisfy is refused.
func Parse(expr string, opt Options) (*Expr, error) {
	if len(expr) > MaxLength {
		return nil, &Error{"expression", "must have at most " + strconv.Itoa(MaxLength) + " bytes", expr}
	}
	for _, c := range []byte(expr) {
		if c != '\t' && (c < ' ' || c > '~') {
			return nil, &Error{"expression", "must be one line of ASCII", expr}
		}
	}
	if err := opt.DST.Validate(); err != nil {
		return nil, err
	}
	words := strings.Fields(expr)
	words, loc, err := zoneOf(words, opt.Location)
	if err != nil {
		return nil, err
	}
	if len(words) == 0 {
		return nil, &Error{"expression", "must have 5 or 6 fields, or be a macro such as @daily", expr}
	}
	e := &Expr{text: strings.Join(words, " "), zone: zoneFor(loc)}
	if words[0] == "@every" {
		e.interval, err = parseEvery(words[1:], opt.Anchor)
		return e, err
	}
	if strings.HasPrefix(words[0], "@") {
		meaning, ok := macros[words[0]]
		if !ok || len(words) > 1 {
			return nil, &Error{"expression", "must be @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly or @every DURATION", e.text}
		}
		words = strings.Fields(meaning)
	}
	if len(words) != 5 && len(words) != 6 {
		return nil, &Error{"expression", "must have 5 fields, or 6 with seconds first: it has " + strconv.Itoa(len(words)), expr}
	}
	if err := e.parseFields(words, opt.HashSeed); err != nil {
		return nil, err
	}
	e.resolve(opt.DST, words[len(words)-5:])
	return e, nil
}

// String returns the expression without its zone, blanks made single.
func (e *Expr) String() string { return e.text }

// Location returns the zone of the expression's wall times.
func (e *Expr) Location() *time.Location { return e.zone.loc }

// zoneOf takes a leading CRON_TZ= or TZ= off the words.
func zoneOf(words []string, loc *time.Location) ([]string, *time.Location, error) {
	if loc == nil {
		loc = time.UTC
	}
	if loc.String() == "Local" {
		return nil, nil, &Error{"timezone", "must be an IANA name: Local differs between hosts", "Local"}
	}
	if len(words) == 0 {
		return words, loc, nil
	}
	name, ok := strings.CutPrefix(words[0], "CRON_TZ=")
	if !ok {
		if name, ok = strings.CutPrefix(words[0], "TZ="); !ok {
			return words, loc, nil
		}
	}
	if name == "" {
		return nil, nil, &Error{"timezone", "must name a zone after the =", words[0]}
	}
	named, err := Zone(name)
	if err != nil {
		return nil, nil, err
	}
	if loc.String() != "UTC" && loc.String() != named.String() {
		return nil, nil, &Error{"timezone", "must be given once: the schedule says " + loc.String(), words[0]}
	}
	return words[1:], named, nil
}

func (e *Expr) parseFields(words []string, seed string) error {
	if len(words) == 5 {
		words = append([]string{"0"}, words...)
	}
	var err error
	p := fieldParser{seed: seed}
	if e.seconds, err = p.bits(secondField, words[0]); err != nil {
		return err
	}
	if e.minutes, err = p.bits(minuteField, words[1]); err != nil {
		return err
	}
	hours, err := p.bits(hourField, words[2])
	if err != nil {
		return err
	}
	if err := p.daysOfMonth(words[3], &e.days); err != nil {
		return err
	}
	months, err := p.bits(monthField, words[4])
	if err != nil {
		return err
	}
	if err := p.daysOfWeek(words[5], &e.days); err != nil {
		return err
	}
	e.hours, e.months = uint32(hours), uint16(months) //nolint:gosec // bits 0 to 23, 1 to 12
	e.firstSecond, _ = e.nextInDay(0)
	if _, ok := e.nextWall(minWall); !ok {
		return &Error{"day-of-month", "must be a date that exists: none of the months has such a day", words[3] + " in month " + words[4]}
	}
	return nil
}

// resolve fixes what the clock changes do, by the rule of Vixie cron where
// nothing is set.
func (e *Expr) resolve(dst DST, words []string) {
	e.gap, e.repeat = dst.Gap, dst.Repeat
	follows := strings.ContainsAny(words[0]+words[1], "*/") // minute and hour
	if e.gap == "" {
		e.gap = GapAfter
		if follows {
			e.gap = GapSkip
		}
	}
	if e.repeat == "" {
		e.repeat = RepeatFirst
		if follows {
			e.repeat = RepeatBoth
		}
	}
}
