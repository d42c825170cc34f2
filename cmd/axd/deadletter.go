package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newDeadLetter() *cobra.Command {
	cmd := &cobra.Command{
		Use: "deadletter", Short: "See, replay or discard tasks that failed for good", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd deadletter list --job report
  axd deadletter replay --job report --dry-run`,
	}
	cmd.AddCommand(newDeadLetterList(), newDeadLetterShow(), newDeadLetterActs(),
		newDeadLetterAct("replay", "Make dead letters run again", `Make dead letters run again: those named, or those that match.

Each task becomes pending again with all its retries. Its attempts stay, and the
next ones go on counting. It claims its idempotency key anew; where another task
has claimed that since, it is refused and stays.`, (*client.Client).ReplayDeadLetters),
		newDeadLetterAct("discard", "Give dead letters up", `Give dead letters up: those named, or those that match.

Each task stays failed, and goes after the servers' --retention as every ended
task.`, (*client.Client).DiscardDeadLetters))
	return cmd
}

func deadFilterFlags(cmd *cobra.Command, f *client.DeadLetterFilter) {
	cmd.Flags().StringVar(&f.Job, "job", "", "those of this `job`")
	cmd.Flags().StringVar(&f.Error, "error", "", "those whose last error holds this `text`")
	cmd.Flags().StringVar(&f.From, "from", "", "those that ended at or after this `time`, RFC 3339")
	cmd.Flags().StringVar(&f.To, "to", "", "those that ended before this `time`, RFC 3339")
}

func newDeadLetterList() *cobra.Command {
	var c conn
	var f client.DeadLetterFilter
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks that failed for good", Args: noArgs,
		Long: `List tasks that failed for good, the one that ended first first. They are kept
for 30 days.`,
		Example: `  axd deadletter list --job report --error "connection refused"`,
	}
	deadFilterFlags(cmd, &f)
	pageFlags(cmd, &limit, 50, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.DeadLetters(ctx, f, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ID", "STATE", "ENDED", "TRY", "JOB", "ERROR")
			for _, task := range list.DeadLetters {
				t.row(task.ID, task.State, clock(task.FinishedAt, now), tries(task), cut(task.Job, 20), cut(task.LastError, 50))
			}
		})
	})
}

func newDeadLetterShow() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a dead letter and its attempts", Args: exactlyOne("ID"),
		Example: `  axd deadletter show 01KBN0Y2M80000000000000007`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if _, err := cl.DeadLetter(ctx, args[0]); err != nil {
			return about("dead letter", args[0], err)
		}
		return showTask(ctx, cl, cmd.OutOrStdout(), c.output, args[0])
	})
}

type deadAct = func(*client.Client, context.Context, client.DeadLetterRequest) (client.DeadLetterResult, error)

func newDeadLetterAct(verb, short, long string, act deadAct) *cobra.Command {
	var c conn
	var f client.DeadLetterFilter
	var all, dry, wait bool
	cmd := &cobra.Command{
		Use: verb + " (ID... | --job JOB | --error TEXT | --from TIME | --to TIME | --all)", Short: short, Long: long,
		Example: "  axd deadletter " + verb + " 01KBN0Y2M80000000000000007\n  axd deadletter " + verb + " --job report --dry-run",
		Args:    cobra.ArbitraryArgs,
	}
	deadFilterFlags(cmd, &f)
	cmd.Flags().BoolVar(&all, "all", false, "all of the namespace")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "only count them")
	cmd.Flags().BoolVar(&wait, "wait", false, "where they are too many for one step, wait until the last is done (default on a terminal)")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		r := client.DeadLetterRequest{IDs: args, DryRun: dry}
		filtered := f != client.DeadLetterFilter{}
		switch {
		case len(args) > 0 && (filtered || all):
			return job.Invalid("ID and --job, --error, --from, --to, --all", "exclude each other", args[0])
		case len(args) == 0 && !filtered && !all:
			return job.Invalid("ID", "is missing, or --job, --error, --from, --to or --all", "")
		case len(args) == 0:
			r.Filter = &f
		}
		out, err := act(cl, ctx, r)
		if err != nil {
			if len(args) == 1 {
				return about("dead letter", args[0], err)
			}
			return err
		}
		if !cmd.Flags().Changed("wait") {
			wait = isTerminal(cmd.ErrOrStderr())
		}
		if wait && out.Act != "" {
			return waitDeadAct(ctx, cl, cmd, c.output, out.Act)
		}
		return c.output.print(cmd.OutOrStdout(), out, func(t *table) { deadResult(t, out, dry) })
	})
}

func deadResult(t *table, out client.DeadLetterResult, dry bool) {
	matched := fmt.Sprint(out.Matched)
	if out.AtLeast {
		matched = "more than " + matched
	}
	t.pair("Matched", matched)
	if dry {
		return
	}
	t.pair("Done", fmt.Sprint(out.Done))
	t.pair("Refused", fmt.Sprint(out.Refused))
	if out.GoesOn {
		t.pair("Left", "the cluster goes on with the others; see 'axd deadletter acts'")
		t.pair("Act", out.Act)
	}
	for _, e := range out.Errors {
		t.pair(e.ID, e.Error.Detail)
	}
}
