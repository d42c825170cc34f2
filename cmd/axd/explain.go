package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newTaskExplain() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "explain ID", Short: "Tell why a task isn't running, or why it ended so", Args: exactlyOne("ID"),
		Long: `Tell why a task isn't running, or why it ended as it did: what has to go away
first comes first, each reason with a code and what to do.

Any server answers, also one that knows no leader: it then tells what it has.`,
		Example: `  axd task explain 01KBN0Y2M80000000000000007
  axd task explain 01KBN0Y2M80000000000000007 -o json | jq -r '.reasons[].code'`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		e, err := cl.Explain(ctx, args[0])
		if err != nil {
			return about("task", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), e, func(t *table) { explanationTable(t, e) })
	})
}

const explainWidth = 90 // of a reason's text

func explanationTable(t *table, e client.Explanation) {
	t.pair("ID", e.ID)
	t.pair("Job", e.Job)
	t.pair("State", e.State)
	t.pair("Schedule", e.Schedule)
	t.pair("Nominal time", exact(e.NominalTime))
	t.pair("App", e.App)
	t.pair("Owner", e.Owner)
	if e.Stale {
		t.pair("As of", exact(&e.At)+", as the asked server knows it: no leader confirmed it")
	}
	for _, r := range e.Reasons {
		t.gap()
		text := r.Text
		if r.Until != nil && r.Until.After(e.At) {
			text += " (" + short(r.Until.Sub(e.At)) + " to go)"
		}
		t.wrapped(explainWidth, r.Code, text)
		if r.Next != "" {
			t.wrapped(explainWidth, " ", "→ "+r.Next)
		}
	}
}
