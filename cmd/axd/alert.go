package main

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newAlert() *cobra.Command {
	cmd := &cobra.Command{
		Use: "alert", Short: "See what needs attention", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd alert list --state open
  axd alert ack clock_step/s1`,
	}
	cmd.AddCommand(newAlertList(), newAlertAck())
	return cmd
}

func newAlertList() *cobra.Command {
	var c conn
	var state string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List alerts, the latest changes first", Args: noArgs,
		Long: `List alerts, the latest changes first. One that is raised again counts up. What
passes by itself, such as a disk with little room, is resolved when it has
passed; what happened, such as a clock's step, stays open until it is
acknowledged. Alerts are kept for 30 days after their last change.`,
		Example: `  axd alert list --state open`,
	}
	cmd.Flags().StringVar(&state, "state", "", "only those that are open, acknowledged or resolved")
	_ = cmd.RegisterFlagCompletionFunc("state", fixed("open", "acknowledged", "resolved"))
	limitFlag(cmd, &limit, 100)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Alerts(ctx, state, limit)
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ALERT", "STATE", "COUNT", "FIRST", "LAST", "TEXT")
			for _, a := range list.Alerts {
				t.wrapped(50, alertName(a), a.State, strconv.FormatUint(a.Count, 10), clock(&a.First, now), clock(&a.Last, now), a.Text)
			}
		})
	})
}

func alertName(a client.Alert) string { return a.Kind + "/" + a.Subject }

func newAlertAck() *cobra.Command {
	var c conn
	var actor string
	cmd := &cobra.Command{
		Use: "ack KIND/SUBJECT", Short: "Acknowledge an alert", Args: exactlyOne("KIND/SUBJECT"),
		Example: `  axd alert ack clock_step/s1`,
	}
	cmd.Flags().StringVar(&actor, "actor", os.Getenv("USER"), "who has seen it")
	cmd.Flags().Lookup("actor").DefValue = ""
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		kind, subject, ok := strings.Cut(args[0], "/")
		if !ok {
			return job.Invalid("KIND/SUBJECT", "must be as in the first column of 'axd alert list'", args[0])
		}
		a, err := cl.AckAlert(ctx, kind, subject, actor)
		if err != nil {
			return about("alert", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), a, func(t *table) { t.row(alertName(a), a.State) })
	})
}
