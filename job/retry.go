package job

import (
	"time"
)

// What a retry rule means where it says nothing.
const (
	DefaultMaxRetries   = 5
	DefaultRetryInitial = Duration(2 * time.Second) // or the cap, if that is shorter
	DefaultRetryFactor  = 2.0
	DefaultRetryCap     = Duration(5 * time.Minute) // or the initial delay, if that is longer
	DefaultRetryJitter  = 1.0
	maxRetryFactor      = 100.0
)

// resolved returns the rule with every default filled in.
func (r Retry) resolved() Retry {
	if r.MaxRetries == nil {
		r.MaxRetries = new(DefaultMaxRetries)
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
		r.Jitter = new(DefaultRetryJitter)
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
	width := scale(d, *r.Jitter)
	low := d
	if d > r.Cap-width {
		low = max(r.Cap-width, d/2)
	}
	width = min(width, r.Cap-low)
	return low + min(scale(width, draw), width)
}

// step is the delay before jitter, min(Cap, Initial × Factor^(k-1)).
func (r Retry) step(k int) Duration {
	d := float64(r.Initial) * power(r.Factor, k-1)
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
	if r.Initial < 0 {
		return Invalid("retry.initial", "must not be negative", r.Initial.String())
	}
	if r.Factor != 0 && !(r.Factor >= 1 && r.Factor <= maxRetryFactor) { // NaN fails as well
		return invalidFloat("retry.factor", "must be 1 to 100", r.Factor)
	}
	if r.Cap < 0 {
		return Invalid("retry.cap", "must not be negative", r.Cap.String())
	}
	if r.Cap != 0 && r.Cap < r.Initial {
		return Invalid("retry.cap", "must be at least retry.initial, "+r.Initial.String(), r.Cap.String())
	}
	if r.Jitter != nil && !(*r.Jitter >= 0 && *r.Jitter <= 1) {
		return invalidFloat("retry.jitter", "must be 0 to 1", *r.Jitter)
	}
	return nil
}
