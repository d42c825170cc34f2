package main

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func TestLimitFlags(t *testing.T) {
	for _, tt := range []struct{ args, concurrency, rate, wrong string }{
		{"", "", "", ""},
		{"--concurrency 3", "3 at once", "", ""},
		{"--concurrency 3 --concurrency-key /a --concurrency-name n", "3 at once, for each /a, shared as n", "", ""},
		{"--rate 100/1m", "", "100 per 1m", ""},
		{"--rate 100/1m --rate-burst 5 --rate-key a --rate-name n", "", "100 per 1m, 5 at once, for each a, shared as n", ""},
		{"--rate 100", "", "", "--rate"}, {"--rate x/1m", "", "", "--rate"}, {"--rate 1/x", "", "", "--rate"},
		{"--rate-key a", "", "", "--rate-burst, --rate-key and --rate-name"},
		{"--concurrency-name a", "", "", "--concurrency-key and --concurrency-name"},
	} {
		var p policy
		cmd := &cobra.Command{}
		p.flags(cmd)
		if err := cmd.ParseFlags(strings.Fields(tt.args)); err != nil {
			t.Fatal(err)
		}
		got, err := p.policy(cmd)
		if wrong := job.AsError(err); (tt.wrong == "") != (err == nil) || wrong != nil && wrong.Field != tt.wrong {
			t.Errorf("%q: %v", tt.args, err)
		} else if err == nil && (concurrencyOf(got.Concurrency) != tt.concurrency || rateOf(got.Rate) != tt.rate) {
			t.Errorf("%q: %q, %q", tt.args, concurrencyOf(got.Concurrency), rateOf(got.Rate))
		}
	}
}

func TestLimitTable(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	holders := make([]client.Holder, 5)
	for i := range holders {
		holders[i] = client.Holder{Task: string(rune('A' + i)), Since: now}
	}
	var b strings.Builder
	err := outputFlag("table").print(&b, nil, func(tab *table) {
		limitTable(tab, []client.Limit{{Job: "sync", Key: "7", Held: 5, Max: 5, Holders: holders}, {Name: "api", Held: 1, Max: 2, Holders: holders[:1]}}, now)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"job sync", "5 of 5", "and 2 more", "name api", "1 of 2"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	if strings.Count(b.String(), "\n") != 6 {
		t.Errorf("too many holders:\n%s", b.String())
	}
}
