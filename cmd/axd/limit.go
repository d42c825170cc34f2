package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newLimit() *cobra.Command {
	cmd := &cobra.Command{
		Use: "limit", Short: "See who holds concurrency limits", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd limit list`,
	}
	cmd.AddCommand(newLimitList())
	return cmd
}

func newLimitList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List the concurrency limits that attempts hold", Args: noArgs,
		Long: `List the concurrency limits that attempts hold, with their holders: up to three
in the table, up to a hundred with -o json. One that nobody holds isn't listed.`,
		Example: `  axd limit list
  axd limit list -o json`,
	}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Limits(ctx, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) { limitTable(t, list.Limits, time.Now()) })
	})
}

// limitTable shows a row for each limit and its first holders.
func limitTable(t *table, limits []client.Limit, now time.Time) {
	const shown = 3
	t.row("LIMIT", "KEY", "HELD", "TASK", "SINCE")
	for _, l := range limits {
		name := "job " + l.Job
		if l.Name != "" {
			name = "name " + l.Name
		}
		left := []string{cut(name, 40), cut(l.Key, 30), fmt.Sprintf("%d of %d", l.Held, l.Max)}
		for i, h := range l.Holders {
			if i == shown {
				t.row("", "", "", "and "+strconv.Itoa(l.Held-shown)+" more", "")
				break
			}
			t.row(append(left, h.Task, clock(&h.Since, now))...)
			left = []string{"", "", ""}
		}
	}
}

// limits holds the flags that bound a job's or a task's attempts.
type limits struct {
	most              int
	mostKey, mostName string
	rate              string
	burst             int
	rateKey, rateName string
}

func (l *limits) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.IntVar(&l.most, "concurrency", 0, "at most this `many` attempts at once (default: no limit)")
	f.StringVar(&l.mostKey, "concurrency-key", "", "... for each value that the payload holds at this `path`, such as /customer/id")
	f.StringVar(&l.mostName, "concurrency-name", "", "... of all jobs that share the limit by this `name` (default: the job's own)")
	f.StringVar(&l.rate, "rate", "", "begin at most so many attempts in a time: `N/TIME`, such as 100/1m (default: no limit)")
	f.IntVar(&l.burst, "rate-burst", 0, "how `many` of them may begin at once (default 1: evenly spaced)")
	f.StringVar(&l.rateKey, "rate-key", "", "... for each value that the payload holds at this `path`")
	f.StringVar(&l.rateName, "rate-name", "", "... of all jobs that share the rate by this `name`")
}

// fill sets what the flags say.
func (l *limits) fill(cmd *cobra.Command, p *job.Policy) error {
	f := cmd.Flags()
	if f.Changed("concurrency") {
		p.Concurrency = &job.Concurrency{Max: l.most, Key: l.mostKey, Name: l.mostName}
	} else if l.mostKey != "" || l.mostName != "" {
		return job.Invalid("--concurrency-key and --concurrency-name", "need --concurrency", "")
	}
	if !f.Changed("rate") {
		if l.burst != 0 || l.rateKey != "" || l.rateName != "" {
			return job.Invalid("--rate-burst, --rate-key and --rate-name", "need --rate", "")
		}
		return nil
	}
	const rule = "must be a number and a time, such as 100/1m"
	number, per, ok := strings.Cut(l.rate, "/")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return job.Invalid("--rate", rule, l.rate)
	}
	p.Rate = &job.Rate{Max: n, Burst: l.burst, Key: l.rateKey, Name: l.rateName}
	if err := p.Rate.Per.UnmarshalText([]byte(per)); err != nil {
		return job.Invalid("--rate", rule, l.rate)
	}
	return nil
}

// concurrencyOf says in words what a concurrency limit allows.
func concurrencyOf(c *job.Concurrency) string {
	if c == nil {
		return ""
	}
	return strconv.Itoa(c.Max) + " at once" + limitFor(c.Key, c.Name)
}

func rateOf(r *job.Rate) string {
	if r == nil {
		return ""
	}
	s := strconv.Itoa(r.Max) + " per " + r.Per.String()
	if r.Burst > 1 {
		s += ", " + strconv.Itoa(r.Burst) + " at once"
	}
	return s + limitFor(r.Key, r.Name)
}

func limitFor(path, name string) (s string) {
	if path != "" {
		s += ", for each " + path
	}
	if name != "" {
		s += ", shared as " + name
	}
	return s
}
