package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newBreaker() *cobra.Command {
	cmd := &cobra.Command{
		Use: "breaker", Short: "See what has failed in a row and is kept from tasks", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd breaker list`,
	}
	cmd.AddCommand(newBreakerList())
	return cmd
}

func newBreakerList() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "list", Short: "List breakers: workers, jobs at a worker and HTTP targets with failures in a row", Args: noArgs,
		Long: `List what has failed in a row. After five failures a breaker opens for 30s and
keeps tasks away, then lets one through: if that succeeds it closes, else it
opens for twice as long, up to 5m. The first success takes it off the list.`,
		Example: `  axd breaker list`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Breakers(ctx)
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("BREAKER", "STATE", "FAILURES", "OPEN UNTIL", "CHANGED", "LAST ERROR")
			for i := range list.Breakers {
				b := &list.Breakers[i]
				t.wrapped(50, breakerName(b), b.State, strconv.Itoa(b.Failures), clock(b.OpenUntil, now), clock(b.ChangedAt, now), b.LastError)
			}
		})
	})
}

func breakerName(b *client.Breaker) string {
	switch {
	case b.Target != "":
		return b.Target
	case b.Job != "":
		return b.Worker + " " + b.Namespace + "/" + b.Job
	}
	return b.Worker
}
