package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/server"
)

func newCheck() *cobra.Command {
	var c conn
	var dir string
	cmd := &cobra.Command{
		Use: "check", Short: "Verify a stopped server's disk, or compare the servers", GroupID: "use", Args: noArgs,
		Long: `With --data-dir, verify the data of a stopped server without changing it: each
entry of the log and each block of the state and of the snapshots by its
checksum, and that the state holds together.

Without it, ask all servers of a running cluster for a checksum of everything
they wrote, and compare them. The exit code is 1 where something is wrong.`,
		Example: `  axd check --data-dir /var/lib/axd
  axd check --addr 10.0.0.1:7480`,
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "data `directory` of a stopped server")
	c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		got, err := cl.CheckCluster(ctx)
		if err != nil {
			return err
		}
		if err := c.output.print(cmd.OutOrStdout(), got, func(t *table) { checkTable(t, got) }); err != nil {
			return err
		}
		if !got.OK {
			return &runError{code: exitFailed, err: errors.New("not all servers answer and agree; " +
				"one that differs: stop it, empty its data directory and start it, and it gets the state from the leader")}
		}
		said := fmt.Sprintf("all %d servers agree", len(got.Servers))
		if len(got.Servers) == 1 {
			said = "one server has nothing to be compared with; its disk is verified by --data-dir, once it is stopped"
		}
		_, err = fmt.Fprintln(cmd.ErrOrStderr(), "axd: "+said)
		return err
	})
	online := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if dir == "" {
			return online(cmd, args)
		}
		return offline(func(cmd *cobra.Command, _ []string) error { return checkDisk(cmd, dir, c.output) })(cmd, args)
	}
	return cmd
}

func checkTable(t *table, c client.ClusterCheck) {
	t.row("SERVER", "APPLIED", "CHECKSUM AT", "CHECKSUM", "AGREES", "ERROR")
	for _, s := range c.Servers {
		agrees := "no"
		if s.Agrees {
			agrees = "yes"
		}
		t.row(s.Name, strconv.FormatUint(s.Applied, 10), strconv.FormatUint(s.ChecksumIndex, 10), s.Checksum, agrees, s.Error)
	}
}

func checkDisk(cmd *cobra.Command, dir string, out outputFlag) error {
	rep, err := server.CheckDataDir(dir)
	if err != nil {
		return err
	}
	err = out.print(cmd.OutOrStdout(), rep, func(t *table) {
		t.row("Server", rep.Name)
		t.row("Servers", strings.Join(rep.Servers, ", "))
		t.row("Log ends at", strconv.FormatUint(rep.LogLast, 10))
		t.row("Not yet applied", strconv.Itoa(rep.Replay)+" entries")
		t.row("Term", strconv.FormatUint(rep.Term, 10))
		t.row("Snapshots", strconv.Itoa(rep.Snapshots))
		contentsTable(t, rep.Contents)
	})
	if err != nil {
		return err
	}
	return verdict(cmd.ErrOrStderr(), rep.Problems, "nothing is wrong with the log, the state and the snapshots",
		"move "+dir+" away and start the server: it joins anew and gets everything from the others")
}
