package job

import (
	"net/url"
	"strings"
	"time"
)

// The rule of breakers: they open after BreakerFailures failures in a row, first
// for BreakerOpen, each time in a row twice as long, up to BreakerOpenMax.
const (
	BreakerFailures = 5
	BreakerOpen     = Duration(30 * time.Second)
	BreakerOpenMax  = Duration(5 * time.Minute)
)

// BreakerPause is how long a breaker stays open that opens for the nth time in a
// row, 1 for the first.
func BreakerPause(n int) Duration {
	d := BreakerOpen
	for ; n > 1 && d < BreakerOpenMax; n-- {
		d *= 2
	}
	return min(d, BreakerOpenMax)
}

// Target names what a request goes to, scheme and host, for which one breaker
// stands; empty: it can't be told.
func (h *HTTP) Target() string {
	if h == nil {
		return ""
	}
	u, err := url.Parse(h.URL)
	if err != nil || u.Host == "" || len(u.Host) > MaxName {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// TargetFailed reports whether an HTTP status speaks against the target itself:
// what else it refuses, it does so since it works.
func TargetFailed(status int) bool {
	return status >= 500 || status == 408 || status == 429
}
