package worker

import (
	"math"
	"testing"
	"time"
)

// The longest time-outs must not wrap to one that has passed already; the shortest
// is one.
func TestK5_04_TimeoutZeroAndVeryLarge(t *testing.T) {
	const started = 1000 * time.Hour
	far := leaseView{until: math.MaxInt64, ttl: time.Hour}
	for _, c := range []struct {
		timeout time.Duration
		after   time.Duration
		want    stopReason
	}{
		{0, 290 * 365 * 24 * time.Hour, stopNone},
		{1, 1, stopTimeout},
		{9223372036 * time.Second, time.Hour, stopNone},
		{math.MaxInt64, time.Hour, stopNone},
	} {
		cmd := command{order: startOrder{Timeout: int64(c.timeout), Continue: true}, startedAt: started}
		if _, got := cmd.decide(started+c.after, far); got != c.want {
			t.Errorf("time-out %d after %s: %q, want %q", c.timeout, c.after, got, c.want)
		}
		if at := cmd.next(far); at < started {
			t.Errorf("time-out %d: looked at again at %s", c.timeout, at)
		}
	}
}
