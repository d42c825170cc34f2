package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
)

func newCallback() *cobra.Command {
	cmd := &cobra.Command{
		Use: "callback", Short: "See what is owed to callbacks", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd callback list --state dead
  axd callback redeliver 01KBN0Y2M80000000000000007-9`,
	}
	cmd.AddCommand(newCallbackList(), newCallbackShow(), newCallbackRedeliver())
	return cmd
}

func newCallbackList() *cobra.Command {
	var c conn
	var state, cursor string
	var limit int
	cmd := &cobra.Command{
		Use: "list", Short: "List callbacks by task", Args: noArgs,
		Long: `List callbacks by task. One that is owed is tried until its target takes it;
after 18 retries, some hours, it is dead and stays so until somebody asks for it
with 'axd callback redeliver'. Those that are delivered or dead are kept as long
as ended tasks.`,
		Example: `  axd callback list --state owed`,
	}
	cmd.Flags().StringVar(&state, "state", "", "only those that are owed, delivered or dead")
	_ = cmd.RegisterFlagCompletionFunc("state", fixed("owed", "delivered", "dead"))
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Callbacks(ctx, state, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("CALLBACK", "STATE", "TO", "TASK", "TRIES", "NEXT", "ERROR")
			for _, b := range list.Callbacks {
				t.row(b.ID, b.State, cut(callbackTo(b), 40), b.TaskState, strconv.Itoa(b.Tries), clock(b.NextTry, now), cut(b.LastError, 40))
			}
		})
	})
}

func callbackTo(b client.Callback) string {
	if b.Job != "" {
		return "job " + b.Job
	}
	return b.URL
}

func newCallbackShow() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a callback", Args: exactlyOne("ID"),
		Example: `  axd callback show 01KBN0Y2M80000000000000007-9`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		b, err := cl.Callback(ctx, args[0])
		if err != nil {
			return about("callback", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), b, func(t *table) {
			t.pair("ID", b.ID)
			t.pair("Namespace", b.Namespace)
			t.pair("Task", b.Task+", "+b.TaskState)
			t.pair("To", callbackTo(b))
			t.pair("Signed with", b.Secret)
			t.pair("Run as", b.RunAs)
			t.pair("State", b.State)
			t.pair("Tries", strconv.Itoa(b.Tries))
			t.pair("Created", exact(&b.CreatedAt))
			t.pair("Last try", exact(b.LastTry))
			t.pair("Next try", exact(b.NextTry))
			t.pair("Settled", exact(b.SettledAt))
			if b.LastStatus != 0 {
				t.pair("Last status", strconv.Itoa(b.LastStatus))
			}
			t.pair("Last error", cut(b.LastError, 300))
		})
	})
}

func newCallbackRedeliver() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "redeliver ID", Short: "Send a callback once more, under its old id", Args: exactlyOne("ID"),
		Long: `Send a callback once more, under its old id, or run its job again, whether it is
dead or was delivered. It has all its tries before it again. One that is still
owed is tried at once.`,
		Example: `  axd callback redeliver 01KBN0Y2M80000000000000007-9`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		b, err := cl.Redeliver(ctx, args[0])
		if err != nil {
			return about("callback", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), b, func(t *table) { t.row(b.ID, b.State) })
	})
}

// callbackOf is what a task says of its callback, in one line.
func callbackOf(task client.Task) string {
	to := task.CallbackURL
	if task.CallbackJob != "" {
		to = "job " + task.CallbackJob
	}
	b := task.Callback
	if b == nil {
		return to
	}
	s := callbackTo(*b) + ": " + b.State
	if b.RunAs != "" {
		s += " as task " + b.RunAs
	}
	if b.LastError != "" {
		s += ", " + timesTried(b.Tries) + ", last: " + cut(b.LastError, 100)
	}
	return s
}

func timesTried(n int) string {
	if n == 1 {
		return "1 try"
	}
	return strconv.Itoa(n) + " tries"
}
