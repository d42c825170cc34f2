package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newScheduleBackfill() *cobra.Command {
	var c conn
	var r client.BackfillRequest
	var from, to, priority string
	cmd := &cobra.Command{
		Use: "backfill NAME --from TIME --to TIME", Short: "Fire past times of a schedule", Args: exactlyOne("NAME"),
		Long: `Fire past times of a schedule, up to 10,000: those planned at or after --from and
before --to. It goes on by itself, so many at a time, whoever leads;
'axd schedule backfills NAME' shows how far it has come.`,
		Example: `  axd schedule backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --dry-run
  axd schedule backfill nightly --from 2026-03-01T00:00:00Z --to 2026-03-08T00:00:00Z --parallel 4`,
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "planned at or after this `time`, RFC 3339")
	f.StringVar(&to, "to", "", "planned before this `time`, RFC 3339, not in the future")
	f.StringVar(&r.Which, "which", "", "missing: not fired (default); failed: these, and those that did not succeed; all")
	f.StringVar(&r.Order, "order", "", "which is first: oldest (default), newest")
	r.Parallel = 1
	f.Var(whole{&r.Parallel, 50}, "parallel", "tasks at a time, 1 to 50")
	f.StringVar(&r.Overlap, "overlap", "", "allow (default) it beside what the schedule runs, or wait until nothing of that runs")
	f.StringVar(&priority, "priority", "", "of its tasks: high, normal, low (default)")
	f.BoolVar(&r.DryRun, "dry-run", false, "only show which times it would fire")
	for name, values := range map[string][]string{
		"which": {"missing", "failed", "all"}, "order": {"oldest", "newest"}, "overlap": {"allow", "wait"}, "priority": {"high", "normal", "low"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, fixed(values...))
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		for _, t := range []struct {
			flag, text string
			to         *time.Time
		}{{"--from", from, &r.From}, {"--to", to, &r.To}} {
			ms, err := job.ParseTime(t.text)
			if err != nil {
				return job.Invalid(t.flag, "must be given, a time as in RFC 3339 such as 2026-03-08T12:00:00Z", t.text)
			}
			*t.to = time.UnixMilli(ms).UTC()
		}
		if priority != "" {
			if err := r.Priority.UnmarshalText([]byte(priority)); err != nil {
				return job.Invalid("--priority", "must be high, normal or low", priority)
			}
		}
		b, err := cl.Backfill(ctx, args[0], r)
		if err != nil {
			return about("schedule", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), b, func(t *table) {
			if !r.DryRun {
				t.row(b.ID, fmt.Sprintf("%d times", b.Total))
				return
			}
			for _, n := range b.Times {
				t.row(spaced(n.Wall), localTime(n.At), n.Note)
			}
			t.gap()
			t.row(fmt.Sprintf("%d of %d times would be fired", b.Fired, b.Total))
		})
	})
}

func newScheduleBackfills() *cobra.Command {
	var c conn
	var limit int
	var cursor, cancel string
	cmd := &cobra.Command{
		Use: "backfills NAME", Short: "List a schedule's backfills and how far they have come, or cancel one", Args: exactlyOne("NAME"),
		Example: `  axd schedule backfills nightly
  axd schedule backfills nightly --cancel 01KBN0Y2M80000000000000007`,
	}
	pageFlags(cmd, &limit, 50, &cursor)
	cmd.Flags().StringVar(&cancel, "cancel", "", "cancel the one with this `id`; what it has fired goes on")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if cancel != "" {
			b, err := cl.CancelBackfill(ctx, args[0], cancel)
			if err != nil {
				return err
			}
			return c.output.print(cmd.OutOrStdout(), b, func(t *table) { t.row(b.ID, b.State) })
		}
		list, err := cl.Backfills(ctx, args[0], limit, cursor)
		if err != nil {
			return about("schedule", args[0], err)
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ID", "STATE", "FROM", "TO", "TIMES", "LEFT", "ACTIVE", "PRESENT", "SUCCEEDED", "FAILED")
			for _, b := range list.Backfills {
				t.row(b.ID, b.State, clock(&b.From, now), clock(&b.To, now), strconv.Itoa(b.Total), strconv.Itoa(b.Left), strconv.Itoa(b.Active),
					strconv.Itoa(b.Present), strconv.Itoa(b.Succeeded), strconv.Itoa(b.Failed+b.Refused))
			}
		})
	})
}
