package job

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a span that JSON and YAML write as "90s". Whole days ("2d") are
// understood beside Go's units; a bare number other than 0 is refused, since its
// unit would be a guess.
type Duration time.Duration

// Std returns the duration as the standard library's type.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// Milliseconds returns whole milliseconds, rounded up, so that a positive
// duration never becomes zero.
func (d Duration) Milliseconds() int64 {
	ms := int64(d) / int64(time.Millisecond)
	if d > 0 && int64(d)%int64(time.Millisecond) != 0 {
		ms++
	}
	return ms
}

// String writes the form that ParseDuration reads: "1h30m", "90s" stays short.
func (d Duration) String() string {
	s := time.Duration(d).String()
	s = strings.TrimSuffix(s, "m0s")
	if s != time.Duration(d).String() {
		s += "m"
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

const day = 24 * time.Hour

// ParseDuration reads "1h30m", "250ms", "7d" or "2d12h". The largest span is
// that of int64 nanoseconds, about 292 years; beyond it the input is refused,
// never wrapped. A sign is understood where no days are given.
func ParseDuration(s string) (Duration, error) {
	head, rest, found := strings.Cut(s, "d")
	if !found {
		d, err := time.ParseDuration(s)
		if err != nil {
			return 0, invalidDuration(s)
		}
		return Duration(d), nil
	}
	days, err := strconv.ParseUint(head, 10, 31)
	if err != nil || days > math.MaxInt64/uint64(day) {
		return 0, invalidDuration(s)
	}
	var part time.Duration
	if rest != "" {
		if part, err = time.ParseDuration(rest); err != nil || !startsWithDigit(rest) {
			return 0, invalidDuration(s)
		}
	}
	whole := time.Duration(days) * day
	if whole > math.MaxInt64-part {
		return 0, invalidDuration(s)
	}
	return Duration(whole + part), nil
}

func startsWithDigit(s string) bool { return s[0] >= '0' && s[0] <= '9' }

func invalidDuration(s string) error {
	return Invalid("", `must be a duration with a unit, such as "90s", "1h30m" or "7d", of at most 292 years`, s)
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; YAML uses it.
func (d *Duration) UnmarshalText(b []byte) (err error) {
	*d, err = ParseDuration(string(b))
	return err
}

// UnmarshalJSON accepts the string form alone.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return invalidDuration(string(b))
	}
	return d.UnmarshalText([]byte(s))
}

// MaxTime is the latest time axd accepts, the end of the year 9999 in Unix
// milliseconds: RFC 3339 has four digits for a year.
const MaxTime int64 = 253402300799999

// FormatTime writes Unix milliseconds as RFC 3339 in UTC with milliseconds;
// zero (unset) gives an empty string.
func FormatTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z07:00")
}

// ParseTime reads RFC 3339 with an offset into Unix milliseconds, rounded up so
// that nothing runs before its time. The result lies between 1970 and MaxTime.
func ParseTime(s string) (int64, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	// time.Parse lets an hour of one digit and a comma before the fraction pass.
	if err != nil || s[len("2026-12-01T02")] != ':' || strings.Contains(s, ",") {
		if year, _, dated := strings.Cut(s, "-"); dated && len(year) > 4 && strings.Trim(year, "0123456789") == "" {
			return 0, invalidYear(s)
		}
		return 0, Invalid("", `must be an RFC 3339 time with an offset, such as "2026-12-01T02:00:00Z"`, s)
	}
	ms := t.UnixMilli()
	if t.Nanosecond()%int(time.Millisecond) != 0 {
		ms++
	}
	if ms < 0 || ms > MaxTime {
		return 0, invalidYear(s)
	}
	return ms, nil
}

func invalidYear(s string) error {
	return Invalid("", "must be a time between the years 1970 and 9999 in UTC", s)
}
