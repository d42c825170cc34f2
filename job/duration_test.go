package job

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	const refused = Duration(math.MinInt64)
	h := Duration(time.Hour)
	cases := []struct {
		in   string
		want Duration
	}{
		{"90s", Duration(90 * time.Second)}, {"1h30m", h + h/2}, {"250ms", 250 * ms}, {"1.5h", h + h/2},
		{"0", 0}, {"0s", 0}, {"-1h", -h}, {"7d", 7 * 24 * h}, {"2d12h", 60 * h}, {"0d", 0}, {"1d.5h", refused},
		{"106751d", 106751 * 24 * h}, {"106751d23h47m16.854775807s", math.MaxInt64},
		{"106751d23h47m16.854775808s", refused}, {"106752d", refused}, {"99999999999999999999d", refused},
		{"9223372036854775807ns", math.MaxInt64}, {"9223372036854775808ns", refused},
		{"", refused}, {"90", refused}, {"s", refused}, {"d", refused}, {"-1d", refused}, {"+1d", refused},
		{"2d-3h", refused}, {"2d+3h", refused}, {"1h2d", refused}, {"1d2d", refused}, {"1.5d", refused},
		{" 1s", refused}, {"1s ", refused}, {"1_0s", refused}, {"1w", refused}, {"１s", refused}, {"1s\x00", refused},
	}
	for _, c := range cases {
		got, err := ParseDuration(c.in)
		switch {
		case c.want == refused && err == nil:
			t.Errorf("%q: accepted as %v", c.in, got)
		case c.want == refused && !errors.Is(err, ErrInvalid):
			t.Errorf("%q: %v is not an invalid-input error", c.in, err)
		case c.want != refused && (err != nil || got != c.want):
			t.Errorf("%q: %v, %v; want %v", c.in, got, err, c.want)
		}
	}
}

func TestDurationString(t *testing.T) {
	for in, want := range map[Duration]string{
		0: "0s", 1: "1ns", Duration(time.Minute): "1m", Duration(10 * time.Minute): "10m",
		Duration(time.Hour): "1h", Duration(time.Hour + time.Second): "1h0m1s", Duration(-36 * time.Hour): "-36h",
		Duration(90 * time.Minute): "1h30m", Duration(100 * time.Minute): "1h40m", 1500 * ms: "1.5s",
	} {
		if got := in.String(); got != want {
			t.Errorf("%d ns: %q, want %q", in, got, want)
		}
	}
}

func TestDurationRoundTrips(t *testing.T) {
	check := func(d Duration) {
		if got, err := ParseDuration(d.String()); err != nil || got != d {
			t.Errorf("%d ns is written %q and read as %d, %v", d, d, got, err)
		}
		b, err := json.Marshal(d)
		var back Duration
		if err != nil || json.Unmarshal(b, &back) != nil || back != d {
			t.Errorf("%d ns as JSON: %s, %v, back %d", d, b, err, back)
		}
	}
	for _, d := range []Duration{0, math.MaxInt64, math.MinInt64, math.MinInt64 + 1, -1} {
		check(d)
	}
	rapid.Check(t, func(t *rapid.T) {
		unit := rapid.SampledFrom([]Duration{1, ms, Duration(time.Second), Duration(time.Minute), Duration(time.Hour)}).Draw(t, "unit")
		check(unit * Duration(rapid.Int64Range(math.MinInt64/int64(unit), math.MaxInt64/int64(unit)).Draw(t, "n")))
	})
}

func TestDurationRefusesJSONNumbers(t *testing.T) {
	for _, in := range []string{`5`, `5.5`, `true`, `{}`, `["5s"]`, `""`} {
		var d Duration
		if err := json.Unmarshal([]byte(in), &d); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, %v", in, d, err)
		}
	}
}

func TestMillisecondsRoundUp(t *testing.T) {
	for in, want := range map[Duration]int64{
		0: 0, 1: 1, ms: 1, ms + 1: 2, math.MaxInt64: 9223372036855, -1: 0, -ms: -1,
	} {
		if got := in.Milliseconds(); got != want {
			t.Errorf("%d ns: %d ms, want %d", in, got, want)
		}
	}
}

func TestParseTime(t *testing.T) {
	const refused = -1
	cases := []struct {
		in   string
		want int64
	}{
		{"1970-01-01T00:00:00Z", 0},
		{"2026-11-30T00:00:00.001Z", 1_796_000_000_000 - 3_200_000 + 1},
		{"2026-11-30T01:00:00+01:00", 1_796_000_000_000 - 3_200_000},
		{"2026-11-30T00:00:00.000000001Z", 1_796_000_000_000 - 3_200_000 + 1}, // never before its time
		{"9999-12-31T23:59:59.999Z", MaxTime},
		{"9999-12-31T23:59:59.9999Z", refused},
		{"9999-12-31T23:59:59-01:00", refused},
		{"1969-12-31T23:59:59Z", refused},
		{"1970-01-01T00:00:00+01:00", refused},
		{"0000-01-01T00:00:00Z", refused},
		{"10000-01-01T00:00:00Z", refused},
		{"2026-02-29T00:00:00Z", refused},
		{"2026-11-30T24:00:00Z", refused},
		{"2026-11-30T2:00:00Z", refused},
		{"2026-11-30T00:00:00,5Z", refused},
		{"2026-11-30T00:00:00", refused},
		{"2026-11-30 00:00:00Z", refused},
		{"2026-11-30T00:00:00+99:99", refused},
		{"2026-11-30", refused},
		{"1796000000000", refused},
		{"", refused},
	}
	for _, c := range cases {
		got, err := ParseTime(c.in)
		if c.want == refused {
			if !errors.Is(err, ErrInvalid) {
				t.Errorf("%q: accepted as %d (%v)", c.in, got, err)
			}
			continue
		}
		if err != nil || got != c.want {
			t.Errorf("%q: %d, %v; want %d", c.in, got, err, c.want)
		}
	}
	for in, rule := range map[string]string{
		"10000-01-01T00:00:00Z": "between the years 1970 and 9999", "9999-12-31T23:59:59-01:00": "between the years 1970 and 9999",
		"1796000000000": "RFC 3339", "20261-1": "between the years", "2026-1-1": "RFC 3339",
	} {
		if _, err := ParseTime(in); err == nil || !strings.Contains(err.Error(), rule) {
			t.Errorf("%q: %v, want …%s…", in, err, rule)
		}
	}
	if FormatTime(0) != "" || FormatTime(MaxTime) != "9999-12-31T23:59:59.999Z" {
		t.Errorf("%q, %q", FormatTime(0), FormatTime(MaxTime))
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"90s", "2d12h", "-1h", "106751d23h47m16.854775807s", "0", "1d2d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDuration(s)
		if err != nil {
			return
		}
		if back, err := ParseDuration(d.String()); err != nil || back != d {
			t.Errorf("%q is %d ns, written %q, read as %d, %v", s, d, d, back, err)
		}
	})
}

func FuzzParseTime(f *testing.F) {
	for _, s := range []string{"2026-11-30T00:00:00.001Z", "9999-12-31T23:59:59-01:00", "1970-01-01T00:00:00Z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, err := ParseTime(s)
		if err != nil || at == 0 {
			return
		}
		if at < 0 || at > MaxTime {
			t.Fatalf("%q is %d, out of bounds", s, at)
		}
		if back, err := ParseTime(FormatTime(at)); err != nil || back != at {
			t.Errorf("%q is %d, written %q, read as %d, %v", s, at, FormatTime(at), back, err)
		}
	})
}
