package job

import (
	"strings"
	"testing"
)

func TestSecretKey(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"0123456789abcdef": "0123456789abcdef", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==": "0123456789abcdef",
		"": "", "short": "", "whsec_c2hvcnQ=": "", "whsec_0123456789abcdef!!": "", strings.Repeat("x", MaxSecret+1): "",
	} {
		key, err := SecretKey(value)
		if string(key) != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", value, key, err)
		}
		if err != nil && (err.Field != "value" || value != "" && strings.Contains(err.Error(), value)) {
			t.Errorf("%q: %v", value, err)
		}
	}
}

func TestACallbackSecretIsForRequests(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{{CallbackSecret: "k", CallbackJob: "j"}, {CallbackSecret: "a/b", CallbackURL: "http://x"}} {
		if e := p.validateCallback(); e == nil || e.Field != "callback_secret" {
			t.Errorf("%+v: %v", p, e)
		}
	}
	if e := (&Policy{CallbackSecret: "k", CallbackURL: "http://x"}).validateCallback(); e != nil {
		t.Error(e)
	}
	job := Policy{CallbackSecret: "k", CallbackURL: "http://x"}
	if p := job.Merge(Policy{CallbackURL: "http://y"}); p.CallbackSecret != "k" || p.CallbackURL != "http://y" {
		t.Errorf("a task's own URL is signed with its job's secret: %+v", p)
	}
	if p := job.Merge(Policy{CallbackJob: "other"}); p.CallbackSecret != "" {
		t.Errorf("a job that is run needs none: %+v", p)
	}
}
