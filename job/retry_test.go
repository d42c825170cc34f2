package job

import (
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const ms = Duration(time.Millisecond)

// noJitter is a rule whose delays don't depend on the draw.
func noJitter(initial Duration, factor float64, limit Duration) Retry {
	return Retry{MaxRetries: new(5), Initial: initial, Factor: factor, Cap: limit, Jitter: new(JitterNone)}
}

// However often the delay doubles, it must neither overflow nor pass the cap.
func TestK5_01_BackoffOverflow(t *testing.T) {
	r := noJitter(30*ms, 2, 1000*ms)
	var got []Duration
	before := Duration(0)
	for k := 1; k <= 1000; k++ {
		d := r.Delay(k, 0.999)
		if d < before || d > 1000*ms {
			t.Fatalf("retry %d: %v after %v", k, d, before)
		}
		before = d
		got = append(got, d)
	}
	if want := []Duration{30 * ms, 60 * ms, 120 * ms, 240 * ms, 480 * ms, 960 * ms, 1000 * ms, 1000 * ms}; !slices.Equal(got[:8], want) {
		t.Errorf("got %v, want %v", got[:8], want)
	}
	for _, k := range []int{63, 64, 65, 1024, math.MaxInt32} {
		if d := r.Delay(k, 0); d != 1000*ms {
			t.Errorf("retry %d: %v", k, d)
		}
	}
}

func TestK5_02_JitterBreaksTheCap(t *testing.T) {
	r := Retry{MaxRetries: new(20), Initial: 100 * ms, Factor: 2, Cap: 500 * ms, Jitter: new(Jitter(0.5))}
	for i := range 10_000 {
		if d := r.Delay(10, float64(i)/10_000); d < 250*ms || d > 500*ms {
			t.Fatalf("draw %d: %v", i, d)
		}
	}
	if low, high := r.Delay(10, 0), r.Delay(10, 0.9999); low != 250*ms || high < 499*ms {
		t.Errorf("draws lie between %v and %v, want all of 250ms to 500ms", low, high)
	}
	if d := noJitter(100*ms, 2, 500*ms).Delay(10, 0.7); d != 500*ms {
		t.Errorf("jitter 0: %v", d)
	}
	for _, j := range []Jitter{1.01, -0.01, Jitter(math.NaN()), Jitter(math.Inf(1))} {
		wantError(t, "jitter", Retry{Jitter: &j}.Validate(), "retry.jitter")
	}
}

func TestK5_03_FirstRetryDelay(t *testing.T) {
	r := noJitter(100*ms, 2, 0)
	for i, want := range []Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms} {
		if d := r.Delay(i+1, 0.5); d != want {
			t.Errorf("retry %d waits %v, want %v", i+1, d, want)
		}
	}
	if n := (Policy{Retry: &Retry{MaxRetries: new(0)}}).RetryOrDefault().Max(); n != 0 {
		t.Errorf("an explicit 0 became %d retries", n)
	}
	for _, p := range []Policy{{}, {Retry: &Retry{Initial: 100 * ms}}} {
		if n := p.RetryOrDefault().Max(); n != DefaultMaxRetries {
			t.Errorf("absent became %d retries", n)
		}
	}
}

// Absent and 0 both mean no limit; a very large time-out must not wrap to a short
// one.
func TestK5_04_TimeoutZeroAndVeryLarge(t *testing.T) {
	cases := []struct {
		in   string
		want Duration
		ok   bool
	}{
		{`{}`, 0, true},
		{`{"timeout":"0s"}`, 0, true},
		{`{"timeout":"1ns"}`, 1, true},
		{`{"timeout":"9223372036s"}`, Duration(9223372036 * time.Second), true},
		{`{"timeout":"9223372037s"}`, 0, false},
		{`{"timeout":"-1s"}`, 0, false},
	}
	for _, c := range cases {
		var p Policy
		err := json.Unmarshal([]byte(c.in), &p)
		ok := err == nil && p.Validate() == nil
		if ok != c.ok || ok && p.TimeoutOrDefault() != c.want {
			t.Errorf("%s: %v, accepted %v (%v)", c.in, p.TimeoutOrDefault(), ok, err)
		}
	}
	// An explicit 0 of a task wins over its job's limit.
	if d := (Policy{Timeout: ptr(Duration(1))}).Merge(Policy{Timeout: ptr(Duration(0))}).TimeoutOrDefault(); d != 0 {
		t.Errorf("explicit 0 became %v", d)
	}
	if n := Duration(1).Milliseconds(); n != 1 {
		t.Errorf("1ns became %d ms: no limit", n)
	}
}

// A delay of more milliseconds than an int32 holds, 24.8 days, must not fire at once.
func TestK5_05_LongDelays(t *testing.T) {
	const now = 1_796_000_000_000
	cases := []struct {
		delay string
		want  int64 // ms after now
	}{
		{"2147483647ms", 2147483647},
		{"2147483648ms", 2147483648},
		{"30d", 30 * 86_400_000},
		{"400d", 400 * 86_400_000},
	}
	for _, c := range cases {
		d, err := ParseDuration(c.delay)
		if err != nil {
			t.Fatal(err)
		}
		s := TaskSpec{Job: "a", Delay: d}
		if due, e := s.DueAt(now); due != now+c.want || e != nil || s.Validate() != nil {
			t.Errorf("%s: due at now%+d, %v", c.delay, due-now, e)
		}
	}
	if _, err := ParseDuration("109500d"); err == nil {
		t.Error("a delay of 300 years doesn't fit and must be refused")
	}
	wantError(t, "past delay", TaskSpec{Job: "a", Delay: Duration(-time.Hour)}.Validate(), "delay")
	// 300 years as a time: accepted and exact. A past time: at once.
	due, err := ParseTime("2326-12-01T00:00:00.001Z")
	if got, e := (TaskSpec{Due: due}).DueAt(now); err != nil || e != nil || got != 11_263_104_000_001 {
		t.Errorf("300 years: %d, %v, %v", got, err, e)
	}
	if got, e := (TaskSpec{Due: now - 3_600_000}).DueAt(now); got != now || e != nil {
		t.Errorf("past: %d, %v", got, e)
	}
}

func TestRetryDefaults(t *testing.T) {
	cases := []struct {
		name         string
		in           Retry
		initial, cap Duration
	}{
		{"nothing said", Retry{}, DefaultRetryInitial, DefaultRetryCap},
		{"initial above the default cap", Retry{Initial: Duration(time.Hour)}, Duration(time.Hour), Duration(time.Hour)},
		{"cap below the default initial", Retry{Cap: Duration(time.Second)}, Duration(time.Second), Duration(time.Second)},
	}
	for _, c := range cases {
		got := Policy{Retry: &c.in}.RetryOrDefault()
		if got.Initial != c.initial || got.Cap != c.cap || got.Factor != 2 || *got.Jitter != 1 {
			t.Errorf("%s: %+v", c.name, got)
		}
		if e := c.in.Validate(); e != nil {
			t.Errorf("%s: %v", c.name, e)
		}
	}
}

func TestRetryBounds(t *testing.T) {
	cases := []struct {
		name  string
		in    Retry
		field string
	}{
		{"most", Retry{MaxRetries: new(1000), Initial: 1, Factor: 100, Cap: 1, Jitter: new(JitterAdditive)}, ""},
		{"retries", Retry{MaxRetries: new(1001)}, "retry.max_retries"},
		{"retries below 0", Retry{MaxRetries: new(-1)}, "retry.max_retries"},
		{"initial", Retry{Initial: -1}, "retry.initial"},
		{"factor below 1", Retry{Factor: 0.99}, "retry.factor"},
		{"factor above 100", Retry{Factor: 100.1}, "retry.factor"},
		{"factor NaN", Retry{Factor: math.NaN()}, "retry.factor"},
		{"factor infinite", Retry{Factor: math.Inf(1)}, "retry.factor"},
		{"cap below 0", Retry{Cap: -1}, "retry.cap"},
		{"cap below initial", Retry{Initial: 2, Cap: 1}, "retry.cap"},
	}
	for _, c := range cases {
		wantError(t, c.name, c.in.Validate(), c.field)
	}
}

// The formula of Retry, in numbers that can be checked by hand.
func TestJitterWindow(t *testing.T) {
	const last = 1 - 1e-12
	cases := []struct {
		k         int
		jitter    Jitter
		low, high Duration
	}{
		{1, 1, 100 * ms, 200 * ms},
		{3, 1, 400 * ms, 800 * ms},
		{3, 0.25, 400 * ms, 500 * ms},
		{4, 0.25, 800 * ms, 1000 * ms},
		{4, 0.5, 600 * ms, 1000 * ms}, // slid down to end at the cap
		{4, 1, 400 * ms, 1000 * ms},   // slid, but not below d/2
		{9, 1, 500 * ms, 1000 * ms},
		{9, 0.1, 900 * ms, 1000 * ms},
	}
	for _, c := range cases {
		r := Retry{Initial: 100 * ms, Factor: 2, Cap: 1000 * ms, Jitter: &c.jitter}
		low, high := r.Delay(c.k, 0), r.Delay(c.k, last)
		if low != c.low || high < c.high-1 || high > c.high {
			t.Errorf("retry %d, jitter %v: [%v, %v], want [%v, %v]", c.k, c.jitter, low, high, c.low, c.high)
		}
	}
}

func TestDelayIsBoundedForEveryRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Retry{
			Initial:  Duration(rapid.Int64Range(0, math.MaxInt64).Draw(t, "initial")),
			Factor:   rapid.Float64Range(1, maxRetryFactor).Draw(t, "factor"),
			Strategy: rapid.SampledFrom([]Strategy{"", StrategyExponential, StrategyLinear, StrategyFixed}).Draw(t, "strategy"),
			Jitter:   new(Jitter(rapid.Float64Range(0, 1).Draw(t, "jitter"))),
		}
		if rapid.Bool().Draw(t, "full") {
			*r.Jitter = JitterFull
		}
		if r.Strategy == StrategyLinear || r.Strategy == StrategyFixed {
			r.Factor = 0
		}
		r.Cap = Duration(rapid.Int64Range(int64(r.Initial), math.MaxInt64).Draw(t, "cap"))
		if e := r.Validate(); e != nil {
			t.Fatal(e)
		}
		k := rapid.IntRange(1, math.MaxInt32).Draw(t, "k")
		draw := rapid.Float64Range(0, 1).Draw(t, "draw")
		d, limit := r.Delay(k, draw), r.resolved().Cap
		if d <= 0 && r.resolved().Initial > 1 || d < 0 || d > limit {
			t.Fatalf("retry %d of %+v with draw %v waits %d ns, cap %d", k, r, draw, d, limit)
		}
		if step := r.resolved().step(k); d < step/2 && *r.Jitter != JitterFull {
			t.Fatalf("retry %d of %+v waits %v, below half of %v", k, r, d, step)
		}
		// A draw out of range must not break the bounds either.
		for _, bad := range []float64{-1, 2, math.NaN(), math.Inf(1)} {
			if d := r.Delay(k, bad); d < 0 || d > limit {
				t.Fatalf("draw %v: %d ns, cap %d", bad, d, limit)
			}
		}
	})
}

func TestStrategies(t *testing.T) {
	cases := []struct {
		name string
		in   Retry
		want []Duration // of retries 1, 2, 3, 4, 2^31-1
	}{
		{"fixed", Retry{Strategy: StrategyFixed, Initial: 100 * ms, Cap: 250 * ms}, []Duration{100 * ms, 100 * ms, 100 * ms, 100 * ms, 100 * ms}},
		{"linear", Retry{Strategy: StrategyLinear, Initial: 100 * ms, Cap: 350 * ms}, []Duration{100 * ms, 200 * ms, 300 * ms, 350 * ms, 350 * ms}},
		{"exponential", noJitter(100*ms, 3, 1000*ms), []Duration{100 * ms, 300 * ms, 900 * ms, 1000 * ms, 1000 * ms}},
		{"linear to the largest", Retry{Strategy: StrategyLinear, Initial: 1, Cap: math.MaxInt64}, []Duration{1, 2, 3, 4, math.MaxInt32}},
	}
	for _, c := range cases {
		if e := c.in.Validate(); e != nil {
			t.Errorf("%s: %v", c.name, e)
		}
		for i, k := range []int{1, 2, 3, 4, math.MaxInt32} {
			if got := c.in.Delay(k, 0.7); got != c.want[i] {
				t.Errorf("%s: retry %d waits %v, want %v", c.name, k, got, c.want[i])
			}
		}
	}
	wantError(t, "factor of fixed", Retry{Strategy: StrategyFixed, Factor: 2}.Validate(), "retry.factor")
	wantError(t, "strategy", Retry{Strategy: "random"}.Validate(), "retry.strategy")
}

func TestFullJitter(t *testing.T) {
	r := Retry{Initial: 100 * ms, Cap: 150 * ms, Jitter: new(JitterFull)}
	for k, d := range map[int]Duration{1: 100 * ms, 2: 150 * ms, 9: 150 * ms} {
		if low, high := r.Delay(k, 1-1e-12), r.Delay(k, 0); low < 1 || low > 2 || high != d {
			t.Errorf("retry %d draws from [%v, %v], want all of (0, %v]", k, low, high, d)
		}
	}
}

func TestJitterText(t *testing.T) {
	for in, want := range map[string]Jitter{
		`"none"`: 0, `"additive"`: 1, `"full"`: JitterFull, `"25%"`: 0.25, `"0%"`: 0, `"100%"`: 1, `0.5`: 0.5, `0`: 0, `1`: 1,
	} {
		var r Retry
		if err := json.Unmarshal([]byte(`{"jitter":`+in+`}`), &r); err != nil || *r.Jitter != want {
			t.Errorf("%s: %v, %v", in, r.Jitter, err)
			continue
		}
		out, err := json.Marshal(r.Jitter)
		var back Jitter
		if err != nil || json.Unmarshal(out, &back) != nil || back != want {
			t.Errorf("%s is written as %s, which is read as %v; %v", in, out, back, err)
		}
	}
	for _, in := range []string{`"101%"`, `"-1%"`, `2`, `-0.1`, `"NaN"`, `"some"`, `""`, `true`} {
		if err := json.Unmarshal([]byte(`{"jitter":`+in+`}`), &Retry{}); err == nil {
			t.Errorf("%s is accepted", in)
		}
	}
}

func TestNonRetryable(t *testing.T) {
	n := &NonRetryable{ExitCodes: []int{0, 64, 143}, HTTPStatuses: []HTTPStatus{4, 501}, Errors: []string{"bad_input", ClassTimeout}}
	cases := []struct {
		kind  string
		code  *int
		class string
		want  bool
	}{
		{KindExec, new(64), "", true},
		{KindExec, new(65), "", false},
		{KindExec, new(404), "", false}, // a status is none of a command's
		{KindHTTP, new(143), "", false},
		{KindHTTP, new(404), "", true},
		{KindHTTP, new(501), "", true},
		{KindHTTP, new(500), "", false},
		{KindHTTP, nil, ClassNetwork, false},
		{KindHandler, nil, "bad_input", true},
		{KindHandler, nil, "", false},
		{KindExec, new(1), ErrorClass(OutcomeTimeout, ""), true},
		{KindExec, nil, ErrorClass(OutcomeLost, ""), false},
	}
	for _, c := range cases {
		if got := n.Matches(c.kind, c.code, c.class); got != c.want {
			t.Errorf("%s, class %q: %v", c.kind, c.class, got)
		}
	}
	if (*NonRetryable)(nil).Matches(KindExec, new(1), "x") {
		t.Error("without a filter a failure matched")
	}
	for field, bad := range map[string]*NonRetryable{
		"retry.non_retryable.exit_codes[1]":    {ExitCodes: []int{1, 256}},
		"retry.non_retryable.http_statuses[0]": {HTTPStatuses: []HTTPStatus{6}},
		"retry.non_retryable.errors[0]":        {Errors: []string{"a b"}},
	} {
		wantError(t, field, Retry{NonRetryable: bad}.Validate(), field)
	}
	var read NonRetryable
	if err := json.Unmarshal([]byte(`{"http_statuses":["4xx",404,"503"]}`), &read); err != nil || !slices.Equal(read.HTTPStatuses, []HTTPStatus{4, 404, 503}) {
		t.Errorf("read %v, %v", read.HTTPStatuses, err)
	}
	for kind, field := range map[string]string{KindExec: "retry.non_retryable.http_statuses", KindHTTP: "retry.non_retryable.exit_codes", KindHandler: "retry.non_retryable.exit_codes"} {
		wantError(t, kind, Policy{Retry: &Retry{NonRetryable: n}}.ValidateFor(kind), field)
	}
}

// What a worker asks for stays within the rule, whatever it asks for.
func TestWantedDelay(t *testing.T) {
	r := Retry{Cap: Duration(10 * time.Second)}
	for ms, want := range map[int64]Duration{1: Duration(time.Millisecond), 9999: Duration(9999 * time.Millisecond), 10_001: r.Cap, math.MaxInt64: r.Cap, math.MinInt64: 0} {
		if got := r.Wanted(ms); got != want {
			t.Errorf("%d ms wanted: %v, want %v", ms, got, want)
		}
	}
}
