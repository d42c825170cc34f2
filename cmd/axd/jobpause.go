package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newJobPause() *cobra.Command {
	var c conn
	var reason string
	cmd := &cobra.Command{
		Use: "pause NAME", Short: "Give none of a job's tasks to workers", Args: exactlyOne("NAME"),
		Long: `Give none of a job's tasks to workers, until 'axd job resume'. They are created
and wait; what runs is left alone. Their time-outs go on.`,
		Example: `  axd job pause report --reason "the warehouse moves"`,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for whoever looks at it")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		j, err := cl.PauseJob(ctx, args[0], reason)
		if err != nil {
			return about("job", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), j, func(t *table) { t.row(j.Name, "paused") })
	})
}

func newJobResume() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "resume NAME", Short: "End a job's pause", Args: exactlyOne("NAME"),
		Example: `  axd job resume report`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		j, err := cl.ResumeJob(ctx, args[0])
		if err != nil {
			return about("job", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), j, func(t *table) { t.row(j.Name, "resumed") })
	})
}
