package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// submission holds the flags of axd task submit.
type submission struct {
	job, at, payload string
	keys             keys
	delay            durationFlag
	wait             bool
	executor         executor
	policy           policy
}

func newTaskSubmit() *cobra.Command {
	var c conn
	var s submission
	cmd := &cobra.Command{
		Use: "submit [flags] [-- COMMAND [ARG...]]", Short: "Submit a task", Args: oneName("", false),
		Long: `Submit a task: a job's name, a command, an HTTP request or a handler.

The task's ID is printed once the task is safe on a majority of the servers.
With --key a repeated submit gives the first task again instead of a second one.
With --wait the ID comes first, and what became of the task goes to standard
error; with -o json or yaml the ended task is what is printed.`,
		Example: `  axd task submit --delay 10s -- echo hi
  axd task submit --at 2026-12-01T02:00:00Z --priority high -- /usr/local/bin/backup
  axd task submit --job report --payload '{"day":"2026-11-30"}' --key report-2026-11-30
  axd task submit --http https://example.org/hook --payload @body.json --wait`,
	}
	f := cmd.Flags()
	f.StringVar(&s.job, "job", "", "the `job` to run; its settings hold where no flag says otherwise")
	f.Var(&s.delay, "delay", "run this long from now")
	f.StringVar(&s.at, "at", "", "run at this `time`, RFC 3339 with an offset")
	s.keys.flags(cmd)
	f.StringVar(&s.payload, "payload", "", "`JSON` for the task, @FILE to read it, @- from standard input")
	f.BoolVar(&s.wait, "wait", false, "wait until the task has ended; exit code 1 unless it is success")
	s.executor.flags(cmd)
	s.policy.flags(cmd)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := exclude(cmd, "at", "delay"); err != nil {
			return err
		}
		r, err := s.request(cmd, args)
		if err != nil {
			return err
		}
		task, err := cl.Submit(ctx, r)
		if err != nil {
			return err
		}
		if c.output == "table" {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "axd: "+fate(task, time.Now()))
		}
		if c.output == "table" || !s.wait {
			if err = c.output.print(cmd.OutOrStdout(), task, func(t *table) { t.row(task.ID) }); err != nil {
				return err
			}
		}
		if s.wait {
			return waitAndShow(ctx, cl, cmd, c.output, task.ID)
		}
		return nil
	})
}

func (s *submission) request(cmd *cobra.Command, args []string) (client.SubmitRequest, error) {
	r := client.SubmitRequest{Job: s.job, ExecuteTime: s.at}
	s.keys.fill(cmd, &r)
	_, command := splitDash(cmd, args)
	err := checkTime("--at", s.at)
	if err != nil {
		return r, err
	}
	if r.Executor, err = s.executor.executor(command); err != nil {
		return r, err
	}
	if r.Job == "" && r.Kind() == "" {
		return r, job.Invalid("task", "needs -- COMMAND, --job, --http or --handler", "")
	}
	if r.Policy, err = s.policy.policy(cmd); err != nil {
		return r, err
	}
	if cmd.Flags().Changed("delay") {
		d := job.Duration(s.delay)
		r.Delay = &d
	}
	r.Payload, err = readPayload(s.payload, cmd.InOrStdin())
	return r, err
}

// readPayload reads JSON given as such or by @FILE; the bytes stay as they are.
func readPayload(arg string, stdin io.Reader) (json.RawMessage, error) {
	if arg == "" {
		return nil, nil
	}
	data := []byte(arg)
	if name, ok := strings.CutPrefix(arg, "@"); ok {
		in := stdin
		if name != "-" {
			f, err := os.Open(name)
			if err != nil {
				return nil, job.Invalid("--payload", err.Error(), "")
			}
			defer func() { _ = f.Close() }()
			in = f
		}
		var err error
		if data, err = io.ReadAll(io.LimitReader(in, job.MaxPayload+1)); err != nil {
			return nil, job.Invalid("--payload", err.Error(), "")
		}
	}
	if len(data) > job.MaxPayload {
		return nil, job.Invalid("--payload", "must be at most 256 KiB", "")
	}
	if !json.Valid(data) {
		return nil, job.Invalid("--payload", `must be JSON; a text needs its quotes: '"text"'`, string(data))
	}
	return data, nil
}

// fate says in words what happens to a new task.
func fate(t client.Task, now time.Time) string {
	s := "submitted, " + t.State
	if t.Deduplicated {
		s = "already submitted under this key, " + t.State
	}
	if t.State == string(job.ShownScheduled) && t.ExecuteTime != nil {
		s += " for " + clock(t.ExecuteTime, now)
		if d := t.ExecuteTime.Sub(now); d > 0 {
			s += " (in " + short(d.Round(100*time.Millisecond)) + ")"
		}
	}
	return s
}

func waitAndShow(ctx context.Context, cl *client.Client, cmd *cobra.Command, out outputFlag, id string) error {
	task, err := cl.Wait(ctx, id)
	if err != nil {
		if ctx.Err() != nil {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: the task goes on; see 'axd task show %s'\n", id)
		}
		return err
	}
	w := cmd.OutOrStdout()
	if out == "table" {
		w = cmd.ErrOrStderr() // standard output holds the ID alone, for scripts
	}
	if err = showTask(ctx, cl, w, out, id); err != nil {
		return err
	}
	if task.State != job.Success.String() {
		return &runError{code: exitFailed, err: fmt.Errorf("task %s: %s", id, cmp.Or(task.LastError, task.State))}
	}
	return nil
}
