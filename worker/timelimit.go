package worker

import (
	"math"
	"time"
)

// timeLimit is how long an attempt may take: the job's time-out, or what is left
// of the task's total time-out where that is less.
type timeLimit struct {
	timeout time.Duration // from the start; 0: none
	total   bool          // the total time-out decides
}

// timeLimit takes the attempt's limits as of its beginning.
func (w *Worker) timeLimit(a *attempt) timeLimit {
	l := timeLimit{timeout: time.Duration(min(a.item.TimeoutMS, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond}
	if a.item.EndByMS == 0 {
		return l
	}
	left := time.Duration(a.item.EndByMS)*time.Millisecond - w.clock.at(a.began)
	if l.timeout == 0 || left < l.timeout {
		l = timeLimit{timeout: left, total: true}
	}
	return l
}

// later is at plus d, the last instant there is where that would pass it.
func later(at, d time.Duration) time.Duration {
	if d > math.MaxInt64-at {
		return math.MaxInt64
	}
	return at + d
}

// passed tells that the attempt must not start.
func (l timeLimit) passed() bool { return l.total && l.timeout <= 0 }

func (l timeLimit) reason() stopReason {
	if l.total {
		return stopTotal
	}
	return stopTimeout
}
