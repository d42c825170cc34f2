package worker

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// AttemptError is an error of a handler that says more than a text: of which class it
// is, for the job's retry filter (retry.non_retryable.errors), and when to try
// again. It may be wrapped.
type AttemptError struct {
	Err   error
	Class string // 1 to 63 of A-Z a-z 0-9 . _ - ; another one is left out
	// RetryIn is the time to the next attempt, in the place of the job's back-off,
	// at most the cap of the job's retry rule; 0: by the job's rule.
	RetryIn time.Duration
	// Permanent: no further attempt is made, whatever retries are left.
	Permanent bool
}

// Error implements error.
func (f *AttemptError) Error() string {
	if f.Err == nil {
		return "failed"
	}
	return f.Err.Error()
}

// Unwrap gives the error inside.
func (f *AttemptError) Unwrap() error { return f.Err }

// retryNever is a result's RetryMS where no attempt is to follow.
const retryNever = -1

// advise takes what an error says to the retry rule.
func (e *ended) advise(err error) {
	var f *AttemptError
	if !errors.As(err, &f) {
		return
	}
	if job.ValidErrorClass(f.Class) {
		e.class = f.Class
	}
	switch {
	case f.Permanent:
		e.retryMS = retryNever
	case f.RetryIn > 0:
		e.retryMS = max(job.Duration(f.RetryIn).Milliseconds(), 1)
	}
}

// retryAfter reads when a server that has too much to do wants to be asked again;
// 0: it does not say.
func retryAfter(r *http.Response) int64 {
	if r.StatusCode != http.StatusTooManyRequests && r.StatusCode != http.StatusServiceUnavailable {
		return 0
	}
	const most = 1 << 31 // seconds; the rule's cap is far below
	text := r.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 63); err == nil {
		return int64(min(n, most)) * 1000
	}
	at, err := http.ParseTime(text)
	now, wrong := http.ParseTime(r.Header.Get("Date")) // the server's own clock: it named the time
	if err != nil || wrong != nil {
		return 0
	}
	return max(at.Sub(now).Milliseconds(), 0)
}
