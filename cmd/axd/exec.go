package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newExec() *cobra.Command {
	var c conn
	var x executor
	var p policy
	var stdin bool
	cmd := &cobra.Command{
		Use: "exec [flags] -- COMMAND [ARG...]", Short: "Run a command on a worker, see its output, end with its code", GroupID: "use",
		Long: `Run a command on a worker as a one-off task. Its output comes as it is written;
axd ends with the command's exit code, or with 125 when axd itself failed. A
command that can't be run gives 127 where it is not found and 126 otherwise.

The command runs once: a failed attempt is repeated only with --retries.
Ctrl-C cancels the task and waits for its end; a second one leaves it alone.`,
		Example: `  axd exec -- echo hi
  axd exec --selector disk=ssd --timeout 5m -- sh -c 'make -C /srv/site'
  echo '1+1' | axd exec --stdin -- bc`,
		Args: func(cmd *cobra.Command, args []string) error {
			if before, after := splitDash(cmd, args); len(before) > 0 || len(after) == 0 {
				return job.Invalid("command", "must be given after --, as in: axd exec -- echo hi", "")
			}
			return nil
		},
	}
	x.commandFlags(cmd)
	p.flags(cmd)
	cmd.Flags().Lookup("retries").Usage = "how `often` a failed attempt is followed by another"
	cmd.Flags().BoolVar(&stdin, "stdin", false, "give the command this program's standard input: text, whole, up to 64 KiB")
	c.flags(cmd)
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		r, err := execRequest(cmd, &x, &p, args, stdin)
		if err != nil {
			return &runError{code: exitOwn, err: err}
		}
		cl, err := c.open(cmd)
		if err != nil {
			return &runError{code: exitOwn, err: err}
		}
		defer cl.Close()
		return execute(cmd, cl, r)
	}
	return cmd
}

// maxStdin is what is sent as a command's standard input: half of what a
// task's whole executor may take.
const maxStdin = job.MaxSpecBytes / 2

func execRequest(cmd *cobra.Command, x *executor, p *policy, args []string, stdin bool) (client.SubmitRequest, error) {
	var r client.SubmitRequest
	var err error
	if r.Executor, err = x.executor(args); err != nil {
		return r, err
	}
	if r.Policy, err = p.policy(cmd); err != nil {
		return r, err
	}
	if r.Broadcasts() {
		return r, job.Invalid("--route", "must not be broadcast, since axd exec shows one command: take axd task submit", p.strategy)
	}
	if r.Retry == nil {
		r.Retry = &job.Retry{MaxRetries: new(0)}
	}
	if stdin {
		data, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxStdin+1))
		if err != nil {
			return r, job.Invalid("--stdin", err.Error(), "")
		}
		if len(data) > maxStdin {
			return r, job.Invalid("--stdin", "must be at most 64 KiB", "")
		}
		if !utf8.Valid(data) {
			return r, job.Invalid("--stdin", "must be text in UTF-8, since it is sent as JSON; encode other bytes, as with base64", "")
		}
		r.Exec.Stdin = string(data)
	}
	return r, nil
}

// execute submits the task, shows its output and returns its end as exit code.
func execute(cmd *cobra.Command, cl *client.Client, r client.SubmitRequest) error {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	ctx, detach := context.WithCancel(context.Background())
	defer detach()

	stderr := cmd.ErrOrStderr()
	submitted := make(chan string, 1)
	interrupted := make(chan struct{})
	go func() {
		select {
		case <-signals:
		case <-ctx.Done():
			return
		}
		close(interrupted)
		select {
		case id := <-submitted:
			_, _ = fmt.Fprintf(stderr, "axd: cancelling task %s; Ctrl-C again to leave it alone\n", id)
			if _, err := cl.Cancel(ctx, id, "interrupted at the command line"); err != nil && ctx.Err() == nil {
				_, _ = fmt.Fprintf(stderr, "axd: could not cancel: %v\n", err)
			}
		default: // not acknowledged yet: nothing to cancel by name
			detach()
			return
		}
		select {
		case <-signals:
			detach()
		case <-ctx.Done():
		}
	}()

	task, err := cl.Submit(ctx, r)
	if err != nil {
		return &runError{code: exitOwn, err: err}
	}
	submitted <- task.ID
	w := watcher{client: cl, stdout: cmd.OutOrStdout(), stderr: stderr}
	end, err := w.watch(ctx, task.ID)
	if err != nil {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintf(stderr, "axd: task %s goes on; see 'axd task show %s'\n", task.ID, task.ID)
			err = nil
		}
		return &runError{code: exitOwn, err: err}
	}
	return execEnd(end, closed(interrupted))
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// execEnd turns the task's end into an exit code. A command that ran has one;
// otherwise axd says why there is none.
func execEnd(t client.Task, interrupted bool) error {
	if t.State == job.Success.String() || t.State == job.Failed.String() {
		if t.ExitCode != nil && *t.ExitCode >= 0 && *t.ExitCode <= 255 {
			if *t.ExitCode == 0 && t.State == job.Success.String() {
				return nil
			}
			failed := &runError{code: *t.ExitCode}
			if t.StartedAt == nil && t.LastError != "" {
				failed.err = errors.New(t.LastError) // it never ran, so nothing else says why
			}
			return failed
		}
	}
	if interrupted && t.State == job.Cancelled.String() {
		return &runError{code: exitInterrupted}
	}
	text := t.State
	if t.LastError != "" {
		text += ": " + t.LastError
	}
	return &runError{code: exitOwn, err: fmt.Errorf("task %s: %s", t.ID, text)}
}
