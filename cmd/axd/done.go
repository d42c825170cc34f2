package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newTaskDone() *cobra.Command {
	var c conn
	var d doneFlags
	cmd := &cobra.Command{
		Use: "done NAME [flags] [-- COMMAND [ARG...]]", Short: "Do something once for a task, whatever its attempts",
		Long: `For use by a task's own command: do something once for the task, in however many
attempts.

With a COMMAND: run it, unless an attempt of the task has recorded under NAME
that it is done; when it ends with 0, record that. Otherwise end with its code.
Without one: record under NAME that something is done. With --check: only ask,
and end with 0 where it is recorded, with 1 where it is not.

An attempt that is no longer valid is refused (exit code 4), before COMMAND and
after it. Between the end of COMMAND and the record the machine may die, and
COMMAND runs again: see docs/guides/idempotency.md.

The task, its fencing token and the servers' addresses come from the environment
that a worker gives its commands.`,
		Example: `  axd task done invoice-sent -- /usr/local/bin/send-invoice
  axd task done charged --value "$charge_id"
  axd task done charged --check || charge`,
		Args: func(cmd *cobra.Command, args []string) error {
			before, after := splitDash(cmd, args)
			if cmd.ArgsLenAtDash() >= 0 && len(after) == 0 {
				return job.Invalid("command", "is missing after --", "")
			}
			return exactlyOne("NAME")(cmd, before)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&d.check, "check", false, "only ask")
	f.StringVar(&d.value, "value", "", "`text` to keep with the record, at most 1 KiB")
	f.StringVar(&d.task, "task", "", "the task's `id` (default: AXD_TASK_ID)")
	f.StringVar(&d.token, "fencing-token", "", "the attempt's `token` (default: AXD_FENCING_TOKEN)")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		before, command := splitDash(cmd, args)
		if err := d.complete(command); err != nil {
			return err
		}
		return d.run(ctx, cmd, cl, c.output, before[0], command)
	})
}

type doneFlags struct {
	check              bool
	value, task, token string
}

func (d *doneFlags) complete(command []string) error {
	d.task, d.token = cmp.Or(d.task, os.Getenv("AXD_TASK_ID")), cmp.Or(d.token, os.Getenv("AXD_FENCING_TOKEN"))
	switch {
	case d.task == "":
		return job.Invalid("--task", "must be given outside a task's command", "")
	case d.token == "":
		return job.Invalid("--fencing-token", "must be given outside a task's command", "")
	case d.check && len(command) > 0:
		return job.Invalid("--check", "must not be given beside a command", "")
	}
	return nil
}

func (d *doneFlags) run(ctx context.Context, cmd *cobra.Command, cl *client.Client, out outputFlag, name string, command []string) error {
	is, done, err := cl.Done(ctx, d.task, name, d.token)
	switch {
	case err != nil:
		return aboutTask(d.task, err)
	case done:
		return d.print(cmd, out, is, len(command) > 0)
	case d.check:
		return &runError{code: exitFailed}
	case len(command) > 0:
		if err := runHere(ctx, cmd, command); err != nil {
			return err
		}
	}
	is, err = cl.RecordDone(ctx, d.task, name, client.DoneRequest{Token: d.token, Value: d.value})
	if err != nil {
		return aboutTask(d.task, err)
	}
	return d.print(cmd, out, is, len(command) > 0)
}

// print shows a record; beside a command's output it stays out of the way.
func (d *doneFlags) print(cmd *cobra.Command, out outputFlag, is client.Done, aside bool) error {
	w := cmd.OutOrStdout()
	if aside {
		w = cmd.ErrOrStderr()
	}
	return out.print(w, is, func(t *table) {
		t.row(is.Name, "done at "+is.At.Format(time.RFC3339), "attempt "+strconv.Itoa(is.Attempt), is.Value)
	})
}

func aboutTask(id string, err error) error {
	if f := fieldOf(err); f == "id" || f == "task" {
		return about("task", id, err)
	}
	return err
}

// runHere runs a command in this process's place.
func runHere(ctx context.Context, cmd *cobra.Command, argv []string) error {
	run := exec.CommandContext(ctx, argv[0], argv[1:]...)
	run.Stdin, run.Stdout, run.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	err := run.Run()
	if e := new(exec.ExitError); errors.As(err, &e) && e.ExitCode() > 0 {
		return &runError{code: e.ExitCode()}
	}
	return err
}
