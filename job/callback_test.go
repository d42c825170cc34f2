package job

import (
	"strings"
	"testing"
	"time"
)

func TestCallbackRules(t *testing.T) {
	for _, c := range []struct {
		name  string
		p     Policy
		field string
	}{
		{"url", Policy{CallbackURL: "https://hook.example/a?b=c", CallbackOn: []string{"failed", "timeout"}}, ""},
		{"job", Policy{CallbackJob: "tell"}, ""},
		{"states alone, for a job's url", Policy{CallbackOn: []string{"success", "cancelled"}}, ""},
		{"both", Policy{CallbackURL: "http://a", CallbackJob: "tell"}, "callback_job"},
		{"no url", Policy{CallbackURL: "hook"}, "callback_url"},
		{"url of a file", Policy{CallbackURL: "file:///etc/passwd"}, "callback_url"},
		{"password", Policy{CallbackURL: "http://u:secret@a/"}, "callback_url"},
		{"long", Policy{CallbackURL: "http://a/" + strings.Repeat("x", MaxCallbackURL)}, "callback_url"},
		{"bad job", Policy{CallbackJob: "a b"}, "callback_job"},
		{"unknown state", Policy{CallbackOn: []string{"failed", "running"}}, "callback_on[1]"},
		{"a state twice", Policy{CallbackOn: []string{"failed", "failed"}}, "callback_on[1]"},
	} {
		e := c.p.Validate()
		if got := fieldOf(e); got != c.field {
			t.Errorf("%s: at fault is %q, want %q: %v", c.name, got, c.field, e)
		}
		if e != nil && strings.Contains(e.Error(), "secret") {
			t.Errorf("%s: the error repeats a password: %v", c.name, e)
		}
	}
}

func fieldOf(e *Error) string {
	if e == nil {
		return ""
	}
	return e.Field
}

// TestCallbackOfATaskReplacesItsJobs: a URL in the place of a job, and back.
func TestCallbackOfATaskReplacesItsJobs(t *testing.T) {
	under := Policy{CallbackURL: "http://a", CallbackOn: []string{"failed"}}
	got := under.Merge(Policy{CallbackJob: "tell"})
	if got.CallbackURL != "" || got.CallbackJob != "tell" || len(got.CallbackOn) != 1 {
		t.Errorf("%+v", got)
	}
	if e := got.Validate(); e != nil {
		t.Error(e)
	}
	if !got.WantsCallback(Failed) || got.WantsCallback(Success) {
		t.Error("a task keeps the states of its job")
	}
}

func TestCallbackTarget(t *testing.T) {
	for url, want := range map[string]string{
		"http://Hook.example/a": "hook.example:80", "https://hook.example": "hook.example:443",
		"https://h:8443/": "h:8443", "http://[::1]/": "[::1]:80", "http://[FE80::1]:7/x": "[fe80::1]:7",
	} {
		if got := CallbackTarget(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

// TestCallbackRetrySpan: the documentation says that a callback is dead after
// four to nine hours or so.
func TestCallbackRetrySpan(t *testing.T) {
	for _, draw := range []float64{0, 0.999} {
		var span time.Duration
		for k := 1; k <= CallbackRetry.Max(); k++ {
			span += CallbackRetry.Delay(k, draw).Std()
		}
		t.Logf("draw %v: %v", draw, span)
		if span < 4*time.Hour || span > 10*time.Hour {
			t.Errorf("draw %v: dead after %v", draw, span)
		}
	}
}
