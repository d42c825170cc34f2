package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/server"
)

// votesTime is how long a restore waits for the other servers' votes.
const votesTime = 2 * time.Minute

func newSnapshot() *cobra.Command {
	cmd := &cobra.Command{
		Use: "snapshot", Short: "Save, inspect and restore a backup of everything", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd snapshot save /backup/axd-$(date +%F).tar
  axd snapshot inspect /backup/axd-2026-11-30.tar`,
	}
	cmd.AddCommand(newSnapshotSave(), newSnapshotInspect(), newSnapshotRestore())
	return cmd
}

func newSnapshotSave() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "save FILE", Short: "Save everything to a file", Args: exactly("FILE"),
		Long: `Save a snapshot of the whole cluster to a file, from any server: everything that
was acknowledged before the call is in it. The file appears under its name once
it is whole and every checksum in it was verified.`,
		Example: `  axd snapshot save /backup/axd-$(date +%F).tar`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		rep, err := saveSnapshot(ctx, cl, args[0])
		if err != nil {
			return err
		}
		return c.output.print(cmd.OutOrStdout(), rep, func(t *table) { snapshotTable(t, rep) })
	})
}

// saveSnapshot writes beside the file and gives it its name last.
func saveSnapshot(ctx context.Context, cl *client.Client, file string) (rep server.SnapshotReport, err error) {
	f, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*.partial")
	var at *fs.PathError
	if errors.As(err, &at) {
		return rep, job.Invalid("FILE", "must be in a directory that exists and can be written: "+at.Err.Error(), file)
	}
	if err != nil {
		return rep, fmt.Errorf("create the file: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	_, err = cl.SaveSnapshot(ctx, f)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return rep, err
	}
	if rep, err = inspectFile(f.Name()); err != nil {
		return rep, err
	}
	if len(rep.Problems) > 0 {
		return rep, fmt.Errorf("the servers' state is broken, and so is this snapshot: %s", strings.Join(rep.Problems, "; "))
	}
	return rep, os.Rename(f.Name(), file)
}

// inspectFile unpacks beside the file, where there is room for what it holds.
func inspectFile(path string) (server.SnapshotReport, error) {
	if _, err := checkFile("FILE", path); err != nil {
		return server.SnapshotReport{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return server.SnapshotReport{}, err
	}
	rep, err := server.InspectSnapshot(f, filepath.Dir(path))
	return rep, errors.Join(err, f.Close())
}

func snapshotTable(t *table, rep server.SnapshotReport) {
	t.row("Created", exact(&rep.Created))
	t.row("Index", strconv.FormatUint(rep.Index, 10))
	t.row("Term", strconv.FormatUint(rep.Term, 10))
	t.row("Size", strconv.FormatInt(rep.Bytes, 10)+" bytes in "+strconv.Itoa(rep.Files)+" files")
	contentsTable(t, rep.Contents)
}

func contentsTable(t *table, c server.Contents) {
	t.row("Cluster", c.ClusterID)
	t.row("Applied index", strconv.FormatUint(c.Applied, 10))
	if clock := c.Clock; clock.UnixMilli() > 0 { // else nothing was ever applied
		t.row("Clock", exact(&clock))
	}
	t.row("Feature level", strconv.FormatUint(uint64(c.FeatureLevel), 10))
	t.row("Token epoch", strconv.FormatUint(uint64(c.RestoreEpoch), 10))
	if c.Restored != "" {
		t.row("Restored", "by "+c.Restored+", "+exact(c.RestoredAt))
	}
	t.row("Jobs", strconv.Itoa(c.Jobs))
	t.row("Workers", strconv.Itoa(c.Workers))
	for _, state := range sorted(c.Tasks) {
		t.row("Tasks "+state, strconv.FormatInt(c.Tasks[state], 10))
	}
}

func newSnapshotInspect() *cobra.Command {
	var out outputFlag = "table"
	cmd := &cobra.Command{
		Use: "inspect FILE", Short: "Verify a snapshot and show what it holds", Args: exactly("FILE"),
		Long: `Verify every checksum of a snapshot and the state in it, and show what it holds.
It needs no cluster, and room beside the file for what it unpacks. The exit code
is 1 where the state is broken, 2 where the file is no whole snapshot.`,
		Example: `  axd snapshot inspect /backup/axd-2026-11-30.tar`,
	}
	cmd.Flags().VarP(&out, "output", "o", "output `format`: table, json or yaml")
	cmd.RunE = offline(func(cmd *cobra.Command, args []string) error {
		rep, err := inspectFile(args[0])
		if err != nil {
			return err
		}
		if err := out.print(cmd.OutOrStdout(), rep, func(t *table) { snapshotTable(t, rep) }); err != nil {
			return err
		}
		return verdict(cmd.ErrOrStderr(), rep.Problems, "the snapshot is whole", "take another one")
	})
	return cmd
}

// verdict says that all is well, or what isn't and what to do; it ends with
// exitFailed then.
func verdict(w io.Writer, problems []string, well, next string) error {
	if len(problems) == 0 {
		_, err := fmt.Fprintln(w, "axd: "+well)
		return err
	}
	for _, p := range problems {
		if _, err := fmt.Fprintln(w, "axd: "+printable(p)); err != nil {
			return err
		}
	}
	count := "1 problem"
	if n := len(problems); n > 1 {
		count = strconv.Itoa(n) + " problems"
	}
	return &runError{code: exitFailed, err: errors.New(count + " found: " + next)}
}

func newSnapshotRestore() *cobra.Command {
	var c conn
	var force bool
	cmd := &cobra.Command{
		Use: "restore FILE", Short: "Replace everything by a snapshot", Args: exactly("FILE"),
		Long: `Replace the whole state of the cluster by a snapshot. The file is verified here
and again by the leader before anything is touched; then it replaces the state of
all servers. It is meant for a new, empty cluster.

Fencing tokens rise past every one that was ever given. Attempts that ran when
the snapshot was made count as lost once their leases have ended, and are
retried by their policy. The cluster keeps its own id; workers of the one that
the snapshot is of need an empty data directory to join it.

A cluster that isn't empty refuses it, unless --force is given: everything it
holds that isn't in the snapshot is lost, tasks acknowledged a moment ago too.`,
		Example: `  axd snapshot restore /backup/axd-2026-11-30.tar`,
	}
	cmd.Flags().BoolVar(&force, "force", false, "even where the cluster isn't empty: what it holds is lost")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		rep, err := inspectFile(args[0])
		if err != nil {
			return err
		}
		if len(rep.Problems) > 0 {
			return verdict(cmd.ErrOrStderr(), rep.Problems, "", "nothing was restored; take another snapshot")
		}
		f, err := os.Open(args[0])
		if err != nil {
			return err
		}
		got, err := cl.RestoreSnapshot(ctx, f, rep.Bytes, force)
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		err = c.output.print(cmd.OutOrStdout(), got, func(t *table) {
			t.row("Applied index", strconv.FormatUint(got.Applied, 10))
			t.row("Token epoch", strconv.FormatUint(uint64(got.Epoch), 10))
		})
		if err != nil {
			return err
		}
		return awaitVotes(ctx, cl, cmd.ErrOrStderr())
	})
}

// awaitVotes waits until the other servers have the restored state, which they
// have once they vote again.
func awaitVotes(ctx context.Context, cl *client.Client, w io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, votesTime)
	defer cancel()
	var without []string
	for {
		got, err := cl.Cluster(ctx)
		if err == nil {
			without = nil
			for _, s := range got.Servers {
				if !s.Voter {
					without = append(without, s.Name)
				}
			}
			if len(without) == 0 {
				_, err := fmt.Fprintf(w, "axd: restored; all %d servers have it\n", len(got.Servers))
				return err
			}
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("restored, but until %s have it too, the leader's death would cost the cluster its quorum; see 'axd cluster status'",
				strings.Join(without, " and "))
		}
	}
}
