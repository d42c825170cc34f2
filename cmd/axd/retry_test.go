package main

import (
	"encoding/json"
	"testing"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/job"
)

func TestRetryFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // as JSON; "" for an error
	}{
		{nil, `null`},
		{[]string{"--retries", "0"}, `{"max_retries":0}`},
		{[]string{"--retry-strategy", "fixed", "--retry-delay", "10s", "--retry-cap", "1m", "--retry-jitter", "25%"},
			`{"strategy":"fixed","initial":"10s","cap":"1m","jitter":"25%"}`},
		{[]string{"--no-retry-exit", "2,64", "--no-retry-status", "4xx", "--no-retry-status", "501", "--no-retry-error", "timeout"},
			`{"non_retryable":{"exit_codes":[2,64],"http_statuses":["4xx","501"],"errors":["timeout"]}}`},
		{[]string{"--retries", "1001"}, ""},
		{[]string{"--retry-jitter", "101%"}, ""},
		{[]string{"--no-retry-status", "6xx"}, ""},
	} {
		var p policy
		cmd := &cobra.Command{Use: "x"}
		p.flags(cmd)
		if err := cmd.ParseFlags(c.args); err != nil {
			t.Fatal(err)
		}
		out, err := p.policy(cmd)
		if err != nil {
			if c.want != "" {
				t.Errorf("%v: %v", c.args, err)
			}
			continue
		}
		if got, _ := json.Marshal(out.Retry); string(got) != c.want {
			t.Errorf("%v: %s, want %s", c.args, got, c.want)
		}
	}
	n := job.NonRetryable{ExitCodes: []int{64}, HTTPStatuses: []job.HTTPStatus{4}, Errors: []string{"bad"}}
	for want, r := range map[string]job.Retry{
		"5, exponential from 2s to 5m, jitter additive":                   {},
		"5, 2s after each, jitter none; not after exit 64, HTTP 4xx, bad": {Strategy: job.StrategyFixed, NonRetryable: &n},
		"0": {MaxRetries: new(0)},
	} {
		if got := retries((job.Policy{Retry: &r}).RetryOrDefault()); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
