package main

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newJob() *cobra.Command {
	cmd := &cobra.Command{
		Use: "job", Short: "Define jobs: what runs, and how", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd job put -f jobs.yaml
  axd job show report`,
	}
	cmd.AddCommand(newJobInit(), newJobPut(), newJobList(), newJobShow(), newJobPause(), newJobResume(),
		newDelete("job", "report", "Delete a job that no unfinished task needs and nothing names", (*client.Client).DeleteJob))
	return cmd
}

func newJobPut() *cobra.Command {
	var c conn
	var x executor
	var p policy
	var file, text string
	cmd := &cobra.Command{
		Use: "put (-f FILE | NAME [flags] [-- COMMAND [ARG...]])", Short: "Create a job or its next version",
		Long: `Create a job, or its next version where it differs from what is there.

A file holds one or more definitions as YAML or JSON:

  kind: job
  name: report
  description: the daily report
  exec:
    command: [/usr/local/bin/report, --all]
  timeout: 10m
  retry: {max_retries: 3, initial: 5s, factor: 2, cap: 5m}

Unknown fields are refused. A file is checked whole before its first job is
sent; then each job stands alone.`,
		Example: `  axd job put -f jobs.yaml
  axd job put report --timeout 10m --retries 3 -- /usr/local/bin/report --all
  axd job put notify --http https://example.org/hook --priority high`,
		Args: func(cmd *cobra.Command, args []string) error {
			if file == "" {
				return oneName("NAME", true)(cmd, args)
			}
			if len(args) > 0 {
				return job.Invalid("-f FILE and NAME", "exclude each other", args[0])
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&file, "file", "f", "", "read definitions from this `file`; - is standard input")
	f.StringVar(&text, "description", "", "`what` the job is for")
	x.flags(cmd)
	p.flags(cmd)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		defs := []defined[job.Spec]{{spec: job.Spec{Description: text}}}
		var err error
		if file != "" {
			if err = onlyFile(cmd); err == nil {
				defs, err = readDefinitions[job.Spec]("job", file, cmd.InOrStdin(), cl.Namespace())
			}
		} else {
			before, command := splitDash(cmd, args)
			defs[0].name = before[0]
			if defs[0].spec.Executor, err = x.executor(command); err == nil {
				defs[0].spec.Policy, err = p.policy(cmd)
			}
			if err == nil && defs[0].spec.Kind() == "" {
				err = job.Invalid("job", "needs -- COMMAND, --http or --handler", "")
			}
		}
		if err != nil {
			return err
		}
		return putter[job.Spec, client.Job]{
			kind: "job", put: cl.PutJob, list: func(done []client.Job) any { return client.JobList{Jobs: done} },
			row: func(t *table, j client.Job) { t.row(j.Name, "version "+strconv.FormatUint(j.Version, 10)) },
		}.all(ctx, cmd, c.output, defs)
	})
}

// onlyFile refuses flags that would be ignored beside a file.
func onlyFile(cmd *cobra.Command) error {
	for _, name := range append([]string{
		"description", "http", "method", "header", "body", "handler", "env", "dir", "user", "priority", "timeout",
		"idempotent", "queue-timeout", "total-timeout", "heartbeat-timeout",
		"grace", "retries", "selector", "require", "route", "sticky", "app", "owner", "cpu", "memory",
	}, append(retryFlagNames, failureFlagNames...)...) {
		if cmd.Flags().Changed(name) {
			return job.Invalid("--"+name, "can't be combined with -f; set it in the file", "")
		}
	}
	return nil
}

func newJobList() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "list", Short: "List jobs", Args: noArgs, Example: `  axd job list -o yaml`,
	}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Jobs(ctx, limit, cursor)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("NAME", "VERSION", "UPDATED", "RUNS", "DESCRIPTION")
			for _, j := range list.Jobs {
				t.row(cut(j.Name, 30), strconv.FormatUint(j.Version, 10), clock(j.UpdatedAt, now),
					cut(describe(j.Executor), 32), cut(j.Description, 24))
			}
		})
	})
}

func newJobShow() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show a job", Args: exactlyOne("NAME"), Example: `  axd job show report`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		j, err := cl.Job(ctx, args[0])
		if err != nil {
			return about("job", args[0], err)
		}
		return c.output.print(cmd.OutOrStdout(), j, func(t *table) { jobTable(t, j) })
	})
}

func jobTable(t *table, j client.Job) {
	t.pair("Name", j.Name)
	t.pair("Namespace", j.Namespace)
	t.pair("Version", strconv.FormatUint(j.Version, 10))
	t.pair("Description", j.Description)
	t.pair("Runs", describe(j.Executor))
	t.pair("App", j.App)
	t.pair("Owner", j.Owner)
	t.pair("Priority", j.Priority.String())
	if j.Timeout != nil {
		t.pair("Time-out", j.Timeout.String())
	}
	if j.Retry != nil {
		t.pair("Retries", retries(j.RetryOrDefault()))
	}
	t.pair("On exhausted", string(j.OnExhausted))
	t.pair("Compensation", j.Compensation)
	t.pair("Fairness key", j.FairnessKey)
	t.pair("Concurrency", concurrencyOf(j.Concurrency))
	t.pair("Rate", rateOf(j.Rate))
	t.pair("Selector", labels(j.Selector))
	if r := j.Route; r != nil {
		t.pair("Requires", strings.Join(r.Require, ", "))
		t.pair("Strategy", string(r.Strategy))
		t.pair("Sticky", r.Sticky)
	}
	t.pair("Callback", callbackOf(client.Task{CallbackURL: j.CallbackURL, CallbackJob: j.CallbackJob}))
	t.pair("Callback secret", j.CallbackSecret)
	t.pair("Callback on", strings.Join(j.CallbackOn, ", "))
	if p := j.Paused; p != nil {
		t.pair("Paused", exact(&p.At)+" by "+cmp.Or(p.Actor, "somebody"))
		t.pair("Because", p.Reason)
	}
	t.pair("Created", exact(j.CreatedAt))
	t.pair("Updated", exact(j.UpdatedAt))
	t.pair("File set", j.FileSet)
	for _, state := range sorted(j.Tasks) {
		t.pair("Tasks "+state, strconv.FormatInt(j.Tasks[state], 10))
	}
	if j.DeadLetters != nil {
		t.pair("Dead letters", strconv.FormatInt(*j.DeadLetters, 10))
	}
}
