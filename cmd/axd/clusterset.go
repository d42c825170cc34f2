package main

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newClusterSet() *cobra.Command {
	var c conn
	var suspend bool
	var high, pending int
	var quotas, weights map[string]int
	cmd := &cobra.Command{
		Use: "set", Short: "Change the cluster's settings", Args: noArgs,
		Long: `Change the settings that hold for the whole cluster; 'axd cluster status' shows
those that were set.`,
		Example: `  axd cluster set --suspend-low
  axd cluster set --suspend-low=false --high-slots 10
  axd cluster set --max-pending 1000000 --quota team-a=50000
  axd cluster set --weight team-a=3`,
	}
	f := cmd.Flags()
	f.BoolVar(&suspend, "suspend-low", false, "low-priority tasks wait while more than 90% of the slots have been taken for 10s")
	f.IntVar(&high, "high-slots", job.DefaultHighSlots, "`percent` of all slots kept for high-priority tasks, 0 to 90")
	f.IntVar(&pending, "max-pending", job.DefaultMaxPending, "how `many` tasks of one namespace may wait")
	f.StringToIntVar(&quotas, "quota", nil, "... of one namespace: `NAME=MANY`; repeatable; 0 takes it back")
	f.StringToIntVar(&weights, "weight", nil, "turns of one namespace per turn of others: `NAME=WEIGHT`; repeatable; 0: 1 again")
	f.Lookup("quota").DefValue, f.Lookup("weight").DefValue = "", "" // the words say what holds
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		if err := oneOf(cmd, "suspend-low", "high-slots", "max-pending", "quota", "weight"); err != nil {
			return err
		}
		var change job.Settings
		if cmd.Flags().Changed("suspend-low") {
			change.SuspendLow = &suspend
		}
		if cmd.Flags().Changed("high-slots") {
			change.HighSlots = &high
		}
		if cmd.Flags().Changed("max-pending") {
			change.MaxPending = &pending
		}
		change.Quotas, change.Weights = quotas, weights
		got, err := cl.SetSettings(ctx, change)
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), got, func(t *table) { settingsTable(t, got) })
	})
}

func settingsTable(t *table, s job.Settings) {
	if s.SuspendLow != nil {
		t.row("Suspend low", strconv.FormatBool(*s.SuspendLow))
	}
	if s.HighSlots != nil {
		t.row("High slots", strconv.Itoa(*s.HighSlots)+"%")
	}
	if s.MaxPending != nil {
		t.row("Max pending", strconv.Itoa(*s.MaxPending))
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.Quotas)) {
		t.row("Quota of "+namespace, strconv.Itoa(s.Quotas[namespace]))
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.Weights)) {
		t.row("Weight of "+namespace, strconv.Itoa(s.Weights[namespace]))
	}
}

// prioritiesFlag is a list of priorities: high,normal.
type prioritiesFlag []job.Priority

func (p *prioritiesFlag) Type() string { return "priorities" }

func (p *prioritiesFlag) String() string {
	names := make([]string, 0, len(*p))
	for _, one := range *p {
		names = append(names, one.String())
	}
	return strings.Join(names, ",")
}

// Set implements pflag.Value.
func (p *prioritiesFlag) Set(text string) error {
	*p = nil
	for name := range strings.SplitSeq(text, ",") {
		var one job.Priority
		if err := one.UnmarshalText([]byte(name)); err != nil {
			return job.Invalid("", "must be some of high, normal and low, separated by commas", text)
		}
		*p = append(*p, one)
	}
	return nil
}
