package main

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
)

func newClusterJoin() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "join NAME RPC_ADDRESS", Short: "Add a new server that gossip doesn't reach", Args: exactly("NAME", "RPC_ADDRESS"),
		Long: `Add a new server. A server that is started with --join and an empty data
directory is added by itself, so this is needed only where gossip does not
reach: start the new server with --join all the same, and it waits.

It is added without a vote, gets the state, and votes once it has been caught
up for some seconds; 'axd cluster status' shows it as a learner until then.`,
		Example: `  axd cluster join s4 10.0.0.4:7481`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := checkAddresses("RPC_ADDRESS", args[1]); err != nil {
			return err
		}
		if err := cl.JoinServer(ctx, args[0], args[1]); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "axd: server %s is added; it votes once it has caught up: see 'axd cluster status'\n", args[0])
		return err
	})
}

func newClusterRemove() *cobra.Command {
	var c conn
	var force bool
	cmd := &cobra.Command{
		Use: "remove NAME", Short: "Remove a server, dead or alive", Args: exactly("NAME"),
		Long: `Remove a server from the cluster, dead or alive. A leader hands its leadership
over first. A removed server that runs ends by itself, with exit code 78; to use
it again, empty its data directory and start it, and it joins anew.

It is refused where too few of the servers that are left answer: they could
accept nothing any more. --force removes it all the same.`,
		Example: `  axd cluster remove s3`,
	}
	cmd.Flags().BoolVar(&force, "force", false, "even where too few of those that are left answer")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := cl.RemoveServer(ctx, args[0], force); err != nil {
			return about("server", args[0], err)
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "axd: server %s is removed\n", args[0])
		return err
	})
}

func newClusterTransfer() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "transfer [NAME]", Short: "Hand leadership to another server", Args: atMostOne("NAME"),
		Long: `Hand leadership to the named server or, without a name, to the one that lacks
least of the log, and wait until it leads. It is refused where that server has
no vote, does not answer or is behind.`,
		Example: `  axd cluster transfer        # before a leader's maintenance
  axd cluster transfer s2`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		to := strings.Join(args, "")
		got, err := cl.TransferLeadership(ctx, to)
		if err != nil {
			return about("server", to, err)
		}
		return c.output.print(cmd.OutOrStdout(), got, func(t *table) {
			t.row("Leader", got.Leader)
			t.row("Before", got.From)
			t.row("Term", strconv.FormatUint(got.Term, 10))
			t.row("Took", short(got.Duration.Std()))
		})
	})
}

func newClusterRecover() *cobra.Command {
	var dir, name string
	var yes bool
	var out outputFlag = "table"
	cmd := &cobra.Command{
		Use: "recover", Short: "Make one stopped server a cluster of its own, when the others are lost for good", Args: noArgs,
		Long: `Make a stopped server a cluster of one with what its disk holds, for when a
majority of the servers is lost for good. Choose the one with the highest last
index. What only the lost servers held is lost with them; what this one had
not known to be committed is kept; fencing tokens rise past every one given.

Without --yes it only prints what it would do. Afterwards start this server;
delete the data directories of all others before they start again: they join
as new servers. One that starts with its old data can make a second cluster.`,
		Example: `  axd cluster recover --data-dir /var/lib/axd --name s1         # look
  axd cluster recover --data-dir /var/lib/axd --name s1 --yes`,
	}
	f := cmd.Flags()
	f.StringVar(&dir, "data-dir", "", "the stopped server's data `directory`")
	f.StringVar(&name, "name", "", "the server's `name`, as a safeguard")
	f.BoolVar(&yes, "yes", false, "do it")
	f.VarP(&out, "output", "o", "output `format`: table, json or yaml")
	cmd.RunE = offline(func(cmd *cobra.Command, _ []string) error {
		if dir == "" || name == "" {
			return usage("--data-dir", "must name the server's data directory, and --name the server")
		}
		rep, err := server.Recover(dir, name, yes, slog.New(slog.DiscardHandler))
		if err != nil {
			return err
		}
		err = out.print(cmd.OutOrStdout(), rep, func(t *table) {
			t.row("Server", rep.Name)
			t.row("Cluster", rep.ClusterID)
			t.row("Servers until now", strings.Join(rep.Servers, ", "))
			t.row("Last index", strconv.FormatUint(rep.Last, 10))
			t.row("Entries to apply", strconv.Itoa(rep.Commits))
			if rep.Epoch > 0 {
				t.row("Token epoch", strconv.FormatUint(uint64(rep.Epoch), 10))
			}
		})
		if err != nil {
			return err
		}
		said := "nothing is changed yet; with --yes it becomes a cluster of one, and the data of " + others(rep) + " must go before they start again"
		if yes {
			said = "server " + rep.Name + " is a cluster of one now: start it; delete the data of " + others(rep) + " before they start again, and they join"
		}
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "axd: %s\n", said)
		return err
	})
	return cmd
}

// others names the servers that were members beside the recovered one.
func others(rep server.RecoveryReport) string {
	var list []string
	for _, name := range rep.Servers {
		if name != rep.Name {
			list = append(list, name)
		}
	}
	if len(list) == 0 {
		return "other servers"
	}
	return strings.Join(list, " and ")
}

// offline makes a command that works on a disk or a file, without a cluster.
func offline(fn func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := fn(cmd, args); err != nil {
			return &runError{code: exitCode(err), err: err}
		}
		return nil
	}
}

// exactly wants these arguments.
func exactly(what ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == len(what) {
			return nil
		}
		return job.Invalid(strings.Join(what, " "), "must be given, and nothing else", strings.Join(args, " "))
	}
}

// atMostOne takes one argument or none.
func atMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) <= 1 {
			return nil
		}
		return job.Invalid(what, "must be given once at most", strings.Join(args, " "))
	}
}
