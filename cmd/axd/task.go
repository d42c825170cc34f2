package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newTask() *cobra.Command {
	cmd := &cobra.Command{
		Use: "task", Short: "Submit tasks and see what became of them", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd task submit --delay 10s -- echo hi
  axd task list --state failed
  axd task show 01KBN0Y2M80000000000000007`,
	}
	cmd.AddCommand(newTaskSubmit(), newTaskList(), newTaskShow(), newTaskExplain(), newTaskCancel(), newTaskReschedule(), newTaskLogs(), newTaskDone())
	return cmd
}

// help is what a noun without a verb does.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

// noVerb refuses a verb that doesn't exist, and names those that do.
func noVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			verbs = append(verbs, c.Name())
		}
	}
	return job.Invalid("axd "+cmd.Name(), "knows "+strings.Join(verbs, ", "), args[0])
}

func newTaskList() *cobra.Command {
	var c conn
	var q client.TaskQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List tasks", Args: noArgs,
		Long: `List tasks, the oldest first. For the newest give --after a time close to now.`,
		Example: `  axd task list --state failed
  axd task list --job report --limit 200 -o json`,
	}
	f := cmd.Flags()
	f.StringVar(&q.State, "state", "", "tasks in this `state`")
	f.StringVar(&q.Job, "job", "", "tasks of this `job`")
	f.StringVar(&q.Worker, "worker", "", "tasks whose attempt this `worker` holds now")
	f.StringVar(&q.Run, "run", "", "tasks of this `run`'s steps")
	f.StringVar(&q.Parent, "parent", "", "the parts of this broadcast `task`")
	f.StringVar(&q.After, "after", "", "tasks created after this `time`, RFC 3339")
	pageFlags(cmd, &q.Limit, 50, &q.Cursor)
	_ = cmd.RegisterFlagCompletionFunc("state", fixed("scheduled", "blocked", "waiting", "dispatched", "running",
		"retrying", "success", "failed", "timeout", "cancelled", "skipped", "upstream_failed"))
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := firstTasks(ctx, cl, cmd.ErrOrStderr(), q)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ID", "STATE", "PRIORITY", "EXECUTE TIME", "TRY", "JOB", "WORKER")
			for _, task := range list.Tasks {
				t.row(task.ID, task.State, task.Priority, clock(task.ExecuteTime, now), tries(task),
					cut(task.Job, 20), cut(task.Worker, 16))
			}
		})
	})
}

// The limits of looking for a first task that matches.
const (
	searchTime  = 10 * time.Second
	searchQuiet = time.Second // before the user is told
)

// firstTasks returns the first page that holds a task. A server looks at so many
// tasks for a page, and among many that don't match a page may be empty.
func firstTasks(ctx context.Context, cl *client.Client, stderr io.Writer, q client.TaskQuery) (client.TaskList, error) {
	told, start := false, time.Now()
	for {
		list, err := cl.Tasks(ctx, q)
		if err != nil || len(list.Tasks) > 0 || list.NextCursor == "" || time.Since(start) > searchTime {
			return list, err
		}
		q.Cursor = list.NextCursor
		if !told && time.Since(start) > searchQuiet {
			told = true
			_, _ = fmt.Fprintf(stderr, "axd: no match among the oldest tasks; looking on for up to %s\n", searchTime)
		}
	}
}

func tries(t client.Task) string { return strconv.Itoa(t.Attempt) + "/" + strconv.Itoa(t.MaxRetries+1) }

func newTaskShow() *cobra.Command {
	var c conn
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a task and its attempts", Args: exactlyOne("ID"),
		Example: `  axd task show 01KBN0Y2M80000000000000007
  axd task show 01KBN0Y2M80000000000000007 -o json`,
	}
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		return showTask(ctx, cl, cmd.OutOrStdout(), c.output, args[0])
	})
}

func showTask(ctx context.Context, cl *client.Client, w io.Writer, out outputFlag, id string) error {
	task, err := cl.Task(ctx, id)
	if err != nil {
		return about("task", id, err)
	}
	attempts, err := cl.Attempts(ctx, id)
	if err != nil {
		return err
	}
	whole := struct {
		client.Task
		Attempts []client.Attempt `json:"attempts"`
	}{task, attempts}
	return out.print(w, whole, func(t *table) { taskTable(t, task, attempts) })
}

func taskTable(t *table, task client.Task, attempts []client.Attempt) {
	t.pair("ID", task.ID)
	t.pair("Namespace", task.Namespace)
	t.pair("Job", task.Job)
	t.pair("Run", task.Run)
	t.pair("Step", task.Step)
	t.pair("Schedule", task.Schedule)
	t.pair("Nominal time", exact(task.NominalTime))
	if task.Executor != nil {
		t.pair("Runs", describe(*task.Executor))
	}
	t.pair("State", stateOf(task))
	t.pair("Priority", task.Priority)
	t.pair("App", task.App)
	t.pair("Owner", task.Owner)
	t.pair("Idempotency key", task.IdempotencyKey)
	t.pair("Unique key", task.UniqueKey)
	t.pair("Fairness key", task.FairnessKey)
	t.pair("Concurrency key", task.ConcurrencyKey)
	t.pair("Rate key", task.RateKey)
	t.pair("Execute time", exact(task.ExecuteTime))
	t.pair("Created", exact(&task.CreatedAt))
	t.pair("Started", exact(task.StartedAt))
	t.pair("Finished", exact(task.FinishedAt))
	if task.Duration != nil {
		t.pair("Duration", short(task.Duration.Std()))
	}
	if task.ExitCode != nil {
		t.pair("Exit code", strconv.Itoa(*task.ExitCode))
	}
	t.pair("Retries", fmt.Sprintf("%d of %d", task.RetryCount, task.MaxRetries))
	t.pair("Payload", cut(string(task.Payload), 80))
	t.pair("Last error", cut(task.LastError, 200))
	t.pair("Compensates", task.Compensates)
	t.pair("Compensated by", task.CompensatedBy)
	t.pair("Callback", callbackOf(task))
	t.pair("Callback secret", task.CallbackSecret)
	t.pair("Callback of", task.CallbackOf)
	t.pair("Part of", task.Parent)
	t.pair("Bound to", task.BoundTo)
	if b := task.Broadcast; b != nil {
		t.pair("Broadcast", fmt.Sprintf("%d workers: %d succeeded, %d failed, %d cancelled, %d open", b.Workers, b.Succeeded, b.Failed, b.Cancelled, b.Open))
	}
	for _, d := range task.Done {
		t.pair("Done", strings.TrimSpace(d.Name+" by attempt "+strconv.Itoa(d.Attempt)+" "+cut(d.Value, 80)))
	}
	if len(task.Parts) > 0 {
		t.gap()
		t.row("PART", "WORKER", "STATE", "ERROR")
		for _, part := range task.Parts {
			t.row(part.ID, cut(part.Worker, 16), part.State, cut(part.LastError, 60))
		}
	}
	if len(attempts) == 0 {
		return
	}
	t.pair("Output", cut(text(attempts[len(attempts)-1].Output), 200))
	t.gap()
	attemptTable(t, attempts)
}

// stateOf is a task's state with what was asked of it and has not happened yet.
func stateOf(task client.Task) string {
	state := task.State
	if task.Armed {
		state += ", armed at " + task.Worker
	}
	switch {
	case client.Ended(task.State):
	case task.CancelRequested:
		state += ", cancel requested"
	case task.RescheduleRequested:
		state += ", reschedule requested"
	}
	if task.RescheduleTooLate {
		state += ", reschedule came too late"
	}
	return state
}

// text writes a value that is JSON or was wrapped as a JSON string.
func text(v json.RawMessage) string {
	var s string
	if json.Unmarshal(v, &s) == nil {
		return strings.TrimSpace(s)
	}
	return string(v)
}

func attemptTable(t *table, attempts []client.Attempt) {
	now := time.Now()
	t.row("ATTEMPT", "WORKER", "STARTED", "LATE", "TOOK", "OUTCOME", "EXIT", "ERROR")
	for _, a := range attempts {
		late, took, exit := "", "", ""
		if a.LateMS != nil {
			late = strconv.FormatInt(*a.LateMS, 10) + "ms"
		}
		if a.StartedAt != nil && a.FinishedAt != nil {
			took = short(a.FinishedAt.Sub(*a.StartedAt))
		}
		if a.ExitCode != nil {
			exit = strconv.Itoa(*a.ExitCode)
		}
		t.row(strconv.Itoa(a.Number), cut(a.Worker, 16), clock(a.StartedAt, now), late, took, a.Outcome, exit, cut(a.Error, 40))
	}
}

// describe writes an executor in one line.
func describe(x job.Executor) string {
	switch {
	case x.Exec != nil:
		words := make([]string, len(x.Exec.Command))
		for i, w := range x.Exec.Command {
			words[i] = w
			if w == "" || strings.ContainsAny(w, " \t\n\"'$\\;&|<>*?()") {
				words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
			}
		}
		return cut(strings.Join(words, " "), 80)
	case x.HTTP != nil:
		method := x.HTTP.Method
		if method == "" {
			method = "POST"
		}
		return cut(method+" "+x.HTTP.URL, 80)
	case x.Handler != "":
		return "handler " + x.Handler
	}
	return ""
}

func newTaskCancel() *cobra.Command {
	var c conn
	var why string
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "End a task that has not ended", Args: exactlyOne("ID"),
		Long: `End a task that has not ended.

A task that waits is cancelled at once. One that its worker has been sent ahead
of its time is not started; an attempt that runs is told to stop
(TERM, then KILL when its grace is over); the task shows "cancel requested"
until that is confirmed.`,
		Example: `  axd task cancel 01KBN0Y2M80000000000000007 --reason "wrong file"`,
	}
	cmd.Flags().StringVar(&why, "reason", "", "`why`, for whoever looks later")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		task, err := cl.Cancel(ctx, args[0], why)
		if err != nil {
			return about("task", args[0], err)
		}
		return printState(cmd, c.output, task)
	})
}

// printState answers a command that changed a task.
func printState(cmd *cobra.Command, out outputFlag, task client.Task) error {
	return out.print(cmd.OutOrStdout(), task, func(t *table) {
		t.row(task.ID, stateOf(task), clock(task.ExecuteTime, time.Now()))
	})
}

func newTaskReschedule() *cobra.Command {
	var c conn
	var when, priority string
	var delay durationFlag
	cmd := &cobra.Command{
		Use: "reschedule ID", Short: "Move a waiting task to another time or priority", Args: exactlyOne("ID"),
		Long: `Move a waiting task to another time or priority.

A task that its worker has been sent ahead of its time is asked back first and
shows "reschedule requested" until then. Where it started meanwhile, it stays as
it was and shows "reschedule came too late".`,
		Example: `  axd task reschedule 01KBN0Y2M80000000000000007 --delay 10m
  axd task reschedule 01KBN0Y2M80000000000000007 --at 2026-12-01T02:00:00Z --priority high`,
	}
	f := cmd.Flags()
	f.StringVar(&when, "at", "", "new `time`, RFC 3339 with an offset")
	f.Var(&delay, "delay", "new time, from now")
	f.StringVar(&priority, "priority", "", "new `priority`: high, normal or low")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := cmp.Or(exclude(cmd, "at", "delay"), oneOf(cmd, "at", "delay", "priority"), checkTime("--at", when)); err != nil {
			return err
		}
		r := client.RescheduleRequest{ExecuteTime: when}
		if cmd.Flags().Changed("delay") {
			d := job.Duration(delay)
			r.Delay = &d
		}
		if priority != "" {
			if err := r.Priority.UnmarshalText([]byte(priority)); err != nil {
				return job.Invalid("--priority", "must be high, normal or low", priority)
			}
		}
		task, err := cl.Reschedule(ctx, args[0], r)
		if err != nil {
			return about("task", args[0], err)
		}
		return printState(cmd, c.output, task)
	})
}

func newTaskLogs() *cobra.Command {
	var c conn
	var follow bool
	var number int
	cmd := &cobra.Command{
		Use: "logs ID", Short: "Show the output of a task's attempt", Args: exactlyOne("ID"),
		Long: `Show the output of a task's latest attempt, or of another with --attempt.

Kept are the last 4 KiB of each stream. --follow shows a running attempt's output
as it comes. What the attempt wrote to its standard error comes on standard error.`,
		Example: `  axd task logs 01KBN0Y2M80000000000000007
  axd task logs 01KBN0Y2M80000000000000007 --follow`,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "show output as it comes, until the task ends")
	cmd.Flags().IntVar(&number, "attempt", 0, "the attempt's `number` (default: the latest)")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		if err := exclude(cmd, "follow", "attempt"); err != nil {
			return err
		}
		if follow {
			w := watcher{client: cl, stdout: cmd.OutOrStdout(), stderr: cmd.ErrOrStderr()}
			_, err := w.watch(ctx, args[0])
			return about("task", args[0], err)
		}
		attempts, err := cl.Attempts(ctx, args[0])
		if err != nil {
			return about("task", args[0], err)
		}
		for i := len(attempts) - 1; i >= 0; i-- {
			if a := attempts[i]; number == 0 || a.Number == number {
				return c.output.print(cmd.OutOrStdout(), a, func(*table) {
					_, _ = fmt.Fprint(cmd.OutOrStdout(), a.StdoutTail)
					_, _ = fmt.Fprint(cmd.ErrOrStderr(), a.StderrTail)
				})
			}
		}
		if number == 0 {
			_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "axd: no attempt has been made yet")
			return nil
		}
		return job.NotFound("attempt", strconv.Itoa(number))
	})
}
