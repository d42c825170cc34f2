package bench

import (
	"math"
	"slices"
	"time"
)

// samples are measured spans. All are kept, so quantiles are exact.
type samples []time.Duration

// quantile is the smallest sample that at least the share q of all don't
// exceed; 0 without samples. The samples must be sorted.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(s)))) - 1
	return s[min(max(i, 0), len(s)-1)]
}

func (s samples) sort() samples {
	slices.Sort(s)
	return s
}

func ms(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e6 }

// spread puts p50, p99 and max of the samples into a result, and sorts them.
func (s samples) spread(r *Result, prefix string) {
	s.sort()
	r.set(prefix+"p50_ms", ms(s.quantile(0.5)))
	r.set(prefix+"p99_ms", ms(s.quantile(0.99)))
	r.set(prefix+"max_ms", ms(s.quantile(1)))
}
