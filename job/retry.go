package job

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Retry tells when a failed attempt is followed by another.
//
// The delay before retry k (k = 1 for the first) is at first d = min(Cap, b), where
// b is Initial × Factor^(k-1) for exponential, Initial × k for linear, and Initial
// for fixed. Then comes the jitter: a share adds a uniform draw from [0, share×d],
// and where that window passes Cap it slides down until it ends at Cap, but never
// starts below d/2; full draws from (0, d].
type Retry struct {
	MaxRetries   *int          `msgpack:"m,omitempty" json:"max_retries,omitempty"` // default 5; 0: one attempt in all; at most 1000
	Strategy     Strategy      `msgpack:"s,omitempty" json:"strategy,omitempty"`    // default exponential
	Initial      Duration      `msgpack:"i" json:"initial,omitzero"`                // 0 or absent: 2s, or Cap if that is shorter
	Factor       float64       `msgpack:"f" json:"factor,omitzero"`                 // of exponential alone: 1 to 100; 0 or absent: 2
	Cap          Duration      `msgpack:"c" json:"cap,omitzero"`                    // 0 or absent: 5m, or Initial if that is longer
	Jitter       *Jitter       `msgpack:"j,omitempty" json:"jitter,omitempty"`      // default additive for exponential, none for the others
	NonRetryable *NonRetryable `msgpack:"n,omitempty" json:"non_retryable,omitempty"`
}

// Strategy tells how the delay grows from retry to retry.
type Strategy string

// The strategies. The empty string means StrategyExponential.
const (
	StrategyExponential Strategy = "exponential"
	StrategyLinear      Strategy = "linear"
	StrategyFixed       Strategy = "fixed"
)

// Jitter is how much of a delay is drawn at random: a share from 0 (none) to 1
// (additive), or JitterFull. JSON and YAML write none, additive, full or a
// percentage such as "25%", and read a number from 0 to 1 too.
type Jitter float64

// The named kinds of jitter.
const (
	JitterNone     Jitter = 0
	JitterAdditive Jitter = 1
	JitterFull     Jitter = 2
)

const percent = 100

const jitterRule = `must be additive, full, none, a percentage from 0% to 100%, or a number from 0 to 1`

// String gives the form that UnmarshalText reads.
func (j Jitter) String() string {
	switch j {
	case JitterNone:
		return "none"
	case JitterAdditive:
		return "additive"
	case JitterFull:
		return "full"
	}
	return strconv.FormatFloat(float64(j)*percent, 'g', 12, 64) + "%"
}

// MarshalText implements encoding.TextMarshaler.
func (j Jitter) MarshalText() ([]byte, error) { return []byte(j.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (j *Jitter) UnmarshalText(b []byte) error {
	s := string(b)
	switch s {
	case "none":
		*j = JitterNone
		return nil
	case "additive":
		*j = JitterAdditive
		return nil
	case "full":
		*j = JitterFull
		return nil
	}
	digits, isPercent := strings.CutSuffix(s, "%")
	f, err := strconv.ParseFloat(digits, 64)
	if isPercent {
		f /= percent
	}
	if err != nil || !(f >= 0 && f <= 1) { // NaN fails as well
		return Invalid("", jitterRule, s)
	}
	*j = Jitter(f)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a string, or a number.
func (j *Jitter) UnmarshalJSON(b []byte) error { return unmarshalWord(b, j.UnmarshalText) }

// EncodeMsgpack implements msgpack.CustomEncoder: a number.
func (j Jitter) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeFloat64(float64(j)) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (j *Jitter) DecodeMsgpack(dec *msgpack.Decoder) error {
	f, err := dec.DecodeFloat64()
	*j = Jitter(f)
	return err
}

// unmarshalWord reads a JSON string or number by its text.
func unmarshalWord(b []byte, read func([]byte) error) error {
	if len(b) == 0 || b[0] != '"' {
		return read(b)
	}
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	return read([]byte(s))
}

// What a retry rule means where it says nothing.
const (
	DefaultMaxRetries   = 5
	DefaultRetryInitial = Duration(2 * time.Second) // or the cap, if that is shorter
	DefaultRetryFactor  = 2.0
	DefaultRetryCap     = Duration(5 * time.Minute) // or the initial delay, if that is longer
	maxRetryFactor      = 100.0
)

// resolved returns the rule with every default filled in.
func (r Retry) resolved() Retry {
	if r.MaxRetries == nil {
		r.MaxRetries = new(DefaultMaxRetries)
	}
	if r.Strategy == "" {
		r.Strategy = StrategyExponential
	}
	if r.Initial == 0 {
		r.Initial = DefaultRetryInitial
		if r.Cap > 0 {
			r.Initial = min(r.Initial, r.Cap)
		}
	}
	if r.Cap == 0 {
		r.Cap = max(DefaultRetryCap, r.Initial)
	}
	if r.Factor == 0 {
		r.Factor = DefaultRetryFactor
	}
	if r.Jitter == nil {
		r.Jitter = new(JitterNone)
		if r.Strategy == StrategyExponential {
			*r.Jitter = JitterAdditive
		}
	}
	return r
}

// Max returns how often a failed attempt is followed by another, the default
// where the rule says nothing.
func (r Retry) Max() int {
	if r.MaxRetries == nil {
		return DefaultMaxRetries
	}
	return *r.MaxRetries
}

// Delay returns the time from a failed attempt to retry k, 1 for the first, by
// the formula of Retry. draw is uniform in [0, 1); the same draw gives the same
// delay on every server, whatever its processor. Of a valid rule the result is
// above zero and never above Cap.
//
// The default draws from all of [d, 2d] below the cap and from [d/2, d] at it,
// the "equal jitter" of https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/.
// "Full jitter" spreads wider, yet may retry at once, which a user who asked
// for a delay of 2s does not expect.
func (r Retry) Delay(k int, draw float64) Duration {
	r = r.resolved()
	d := r.step(k)
	if *r.Jitter == JitterFull {
		return min(max(scale(d, 1-draw), 1), d)
	}
	width := scale(d, float64(*r.Jitter))
	low := d
	if d > r.Cap-width {
		low = max(r.Cap-width, d/2)
	}
	width = min(width, r.Cap-low)
	return low + min(scale(width, draw), width)
}

// Wanted is the delay that a worker asked for, within the rule's bounds.
func (r Retry) Wanted(ms int64) Duration {
	limit := r.resolved().Cap
	if ms <= 0 {
		return 0
	}
	if ms > int64(limit)/int64(time.Millisecond) {
		return limit
	}
	return Duration(ms) * Duration(time.Millisecond)
}

// step is the delay before jitter.
func (r Retry) step(k int) Duration {
	d := float64(r.Initial)
	switch r.Strategy {
	case StrategyFixed:
	case StrategyLinear:
		d *= float64(k)
	default:
		d *= power(r.Factor, k-1)
	}
	if d >= float64(r.Cap) {
		return r.Cap
	}
	return min(Duration(d), r.Cap)
}

// power raises f >= 1 by squaring. It only multiplies: math.Pow has assembly on
// some processors, and a sum may be fused into the product on others, so that
// two servers could differ in the last bit.
func power(f float64, n int) float64 {
	p := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p *= f
		}
		f *= f
	}
	return p
}

// scale returns share × d, where a share outside [0, 1] or NaN is cut to it.
func scale(d Duration, share float64) Duration {
	switch {
	case !(share > 0): // NaN too
		return 0
	case share >= 1:
		return d
	}
	return Duration(float64(d) * share)
}

// Validate checks the rule's bounds. Fields are named below "retry".
func (r Retry) Validate() *Error {
	if n := r.Max(); n < 0 || n > MaxRetriesLimit {
		return invalidNumber("retry.max_retries", "must be 0 to 1000", n)
	}
	if !slices.Contains([]Strategy{"", StrategyExponential, StrategyLinear, StrategyFixed}, r.Strategy) {
		return Invalid("retry.strategy", "must be exponential, linear or fixed", string(r.Strategy))
	}
	if r.Initial < 0 {
		return Invalid("retry.initial", "must not be negative", r.Initial.String())
	}
	if r.Factor != 0 && !(r.Factor >= 1 && r.Factor <= maxRetryFactor) { // NaN fails as well
		return invalidFloat("retry.factor", "must be 1 to 100", r.Factor)
	}
	if r.Factor != 0 && (r.Strategy == StrategyLinear || r.Strategy == StrategyFixed) {
		return invalidFloat("retry.factor", "must be absent: it belongs to the strategy exponential", r.Factor)
	}
	if r.Cap < 0 {
		return Invalid("retry.cap", "must not be negative", r.Cap.String())
	}
	if r.Cap != 0 && r.Cap < r.Initial {
		return Invalid("retry.cap", "must be at least retry.initial, "+r.Initial.String(), r.Cap.String())
	}
	if j := r.Jitter; j != nil && *j != JitterFull && !(*j >= 0 && *j <= 1) {
		return Invalid("retry.jitter", jitterRule, strconv.FormatFloat(float64(*j), 'g', -1, 64))
	}
	if r.NonRetryable != nil {
		return r.NonRetryable.validate()
	}
	return nil
}
