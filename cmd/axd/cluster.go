package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newCluster() *cobra.Command {
	cmd := &cobra.Command{
		Use: "cluster", Short: "See and change the servers and who leads", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd cluster status
  axd cluster transfer s2`,
	}
	cmd.AddCommand(newClusterStatus(), newClusterJoin(), newClusterRemove(), newClusterTransfer(), newClusterRecover(), newClusterSet())
	return cmd
}

func newClusterStatus() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "status", Short: "Show servers, leader and workers", Args: noArgs,
		Long: `Show servers, leader and workers as the asked server knows them; it works
without a leader too. The exit code is 6 when there is no leader.`,
		Example: `  axd cluster status
  AXD_ADDR=10.0.0.1:7480,10.0.0.2:7480 axd cluster status -o json`,
	}
	c.stale = true
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		got, err := cl.Cluster(ctx)
		if err != nil {
			return err
		}
		if err = c.output.print(cmd.OutOrStdout(), got, func(t *table) { clusterTable(t, got) }); err != nil {
			return err
		}
		if got.Leader == "" {
			return &runError{code: exitUnavailable, err: errors.New("no leader: a majority of the servers must be up and reach each other; 'axd cluster recover' is for those that never come back")}
		}
		return nil
	})
}

func clusterTable(t *table, c client.Cluster) {
	t.pair("Cluster", c.ID)
	t.row("Leader", c.Leader)
	t.pair("Term", strconv.FormatUint(c.Term, 10))
	t.pair("Applied index", strconv.FormatUint(c.Applied, 10))
	t.pair("Clock", exact(&c.Now))
	settingsTable(t, c.Settings)
	if a := c.Alerts.Newest; a != nil {
		t.row("Alerts", fmt.Sprintf("%d open, the newest is %s:", c.Alerts.Open, alertName(*a)))
		t.wrapped(80, "", a.Text)
	}
	t.gap()
	t.row("SERVER", "STATE", "ROLE", "HTTP", "RPC", "GOSSIP", "VERSION")
	for _, s := range c.Servers {
		role := "voter"
		switch {
		case s.Leader:
			role = "leader"
		case !s.Voter:
			role = "learner"
		}
		t.row(cut(s.Name, 24), s.State, role, s.HTTP, s.RPC, s.Gossip, cut(s.Version, 12))
	}
	if len(c.Workers) > 0 {
		t.gap()
		workerTable(t, c.Workers)
	}
}

func newStats() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "stats", Short: "Count tasks by state, workers and slots", GroupID: "use", Args: noArgs,
		Example: `  axd stats -o json`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		s, err := cl.Stats(ctx)
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), s, func(t *table) {
			for _, state := range sorted(s.Tasks) {
				t.row("Tasks "+state, strconv.FormatInt(s.Tasks[state], 10))
			}
			t.row("Dead letters", strconv.FormatInt(s.DeadLetters, 10))
			if s.Ready >= 0 {
				t.row("Due, not assigned", strconv.FormatInt(s.Ready, 10))
			}
			for _, state := range sorted(s.Workers) {
				t.row("Workers "+state, strconv.Itoa(s.Workers[state]))
			}
			t.row("Slots busy", fmt.Sprintf("%d of %d", s.Busy, s.Slots))
		})
	})
}
