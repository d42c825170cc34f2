package job

import (
	"testing"
	"time"
)

func TestBreakerPause(t *testing.T) {
	for n, want := range map[int]time.Duration{1: 30 * time.Second, 2: time.Minute, 4: 4 * time.Minute, 5: 5 * time.Minute, 1000: 5 * time.Minute} {
		if got := BreakerPause(n); got.Std() != want {
			t.Errorf("opened %d times: %v, want %v", n, got, want)
		}
	}
}

func TestTarget(t *testing.T) {
	for raw, want := range map[string]string{
		"HTTPS://Example.org:8443/a?b=c": "https://example.org:8443", "http://user:secret@h/x": "http://h", "": "", ":": "",
	} {
		if got := (&HTTP{URL: raw}).Target(); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	for status, want := range map[int]bool{500: true, 503: true, 429: true, 408: true, 404: false, 301: false} {
		if TargetFailed(status) != want {
			t.Errorf("status %d: %v", status, !want)
		}
	}
}
