package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newDeadLetterActs() *cobra.Command {
	var c conn
	var cancel string
	cmd := &cobra.Command{
		Use: "acts", Short: "List replays and discards of many and how far they have come, or cancel one", Args: noArgs,
		Long: `List replays and discards of more dead letters than one step takes, those that
go on and those that ended lately, the newest first. The cluster goes on with
them by itself.`,
		Example: `  axd deadletter acts
  axd deadletter acts --cancel 01KBN0Y2M80000000000000007`,
	}
	cmd.Flags().StringVar(&cancel, "cancel", "", "end the one with this `id`; what it has done stays done")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		if cancel != "" {
			act, err := cl.CancelDeadLetterAct(ctx, cancel)
			if err != nil {
				return about("act", cancel, err)
			}
			return c.output.print(cmd.OutOrStdout(), act, func(t *table) { t.row(act.ID, act.State) })
		}
		list, err := cl.DeadLetterActs(ctx)
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ID", "ACT", "STATE", "BEGAN", "ENDED", "MATCHED", "DONE", "REFUSED", "LEFT", "BY")
			for _, act := range list.Acts {
				matched, left := matchedBy(&act)
				t.row(act.ID, act.Verb, act.State, clock(act.BeganAt, now), clock(act.EndedAt, now), matched, strconv.FormatInt(act.Done, 10),
					strconv.FormatInt(act.Refused, 10), left, cut(act.Actor, 20))
			}
		})
	})
}

// matchedBy tells how many an act matched and has left.
func matchedBy(act *client.DeadLetterAct) (matched, left string) {
	matched, left = strconv.FormatInt(act.Matched, 10), strconv.FormatInt(act.Left, 10)
	if act.AtLeast {
		matched += "+"
		if act.State != "done" {
			left += "+"
		}
	}
	return matched, left
}

// waitDeadAct stays until an act has ended, with a line of progress on a terminal.
func waitDeadAct(ctx context.Context, cl *client.Client, cmd *cobra.Command, out outputFlag, id string) error {
	stderr := cmd.ErrOrStderr()
	line := progressLine{w: stderr, on: isTerminal(stderr)}
	act, err := cl.WaitDeadLetterAct(ctx, id, func(act client.DeadLetterAct) {
		_, left := matchedBy(&act)
		line.say(fmt.Sprintf("%s: %d done, %d refused, %s left", act.Verb, act.Done, act.Refused, left))
	})
	line.clear()
	if err != nil {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintf(stderr, "axd: the cluster goes on with it; 'axd deadletter acts --cancel %s' ends it\n", id)
		}
		return err
	}
	return out.print(cmd.OutOrStdout(), act, func(t *table) {
		matched, left := matchedBy(&act)
		t.pair("Act", act.ID)
		t.pair("State", act.State)
		t.pair("Matched", matched)
		t.pair("Done", strconv.FormatInt(act.Done, 10))
		t.pair("Refused", strconv.FormatInt(act.Refused, 10))
		if act.State != "done" {
			t.pair("Left", left)
		}
	})
}
