package worker

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

// What a handler's error says reaches the result, wrapped or not.
func TestFailureAdvises(t *testing.T) {
	t.Parallel()
	plain := errors.New("no luck")
	for _, c := range []struct {
		err   error
		class string
		retry int64
		text  string
	}{
		{plain, "", 0, "no luck"},
		{&AttemptError{Err: plain, Class: "bad_input"}, "bad_input", 0, "no luck"},
		{fmt.Errorf("while reading: %w", &AttemptError{Err: plain, RetryIn: 1500 * time.Millisecond}), "", 1500, "while reading: no luck"},
		{&AttemptError{Err: plain, RetryIn: 1}, "", 1, "no luck"},
		{&AttemptError{RetryIn: math.MaxInt64, Class: "not a class"}, "", math.MaxInt64/1_000_000 + 1, "failed"},
		{&AttemptError{Err: plain, RetryIn: time.Second, Permanent: true}, "", -1, "no luck"},
	} {
		l := newLeader(t)
		w := newWorker(t, l)
		w.Handle("advise", func(context.Context, Task) ([]byte, error) { return nil, c.err })
		runWorker(t, w)
		receive(t, l.hellos, patience)
		l.dispatch(l.item(handler("advise"), none))
		f := receive(t, l.finished, patience)
		if job.Outcome(f.Outcome) != job.OutcomeFailed || f.Class != c.class || f.RetryMS != c.retry || f.Error != c.text {
			t.Errorf("%v: got %+v", c.err, f)
		}
		if c.class+c.text != "no luck" && !errors.Is(c.err, plain) && c.text != "failed" {
			t.Errorf("%v hides its cause", c.err)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	const date = "Mon, 30 Nov 2026 10:00:00 GMT"
	for _, c := range []struct {
		status int
		header string
		date   string
		want   int64
	}{
		{429, "7", "", 7000},
		{503, "0", "", 0},
		{503, "18446744073709551615", "", 0}, // beyond 63 bits
		{503, "9223372036854775807", "", 1 << 31 * 1000},
		{500, "7", "", 0},
		{429, "-7", "", 0},
		{429, "soon", "", 0},
		{429, "", "", 0},
		{503, "Mon, 30 Nov 2026 10:01:30 GMT", date, 90_000},
		{503, "Mon, 30 Nov 2026 09:01:30 GMT", date, 0},
		{503, "Mon, 30 Nov 2026 10:01:30 GMT", "", 0},
	} {
		r := &http.Response{StatusCode: c.status, Header: http.Header{"Retry-After": {c.header}, "Date": {c.date}}}
		if got := retryAfter(r); got != c.want {
			t.Errorf("%d, Retry-After %q: %d ms, want %d", c.status, c.header, got, c.want)
		}
	}
}
