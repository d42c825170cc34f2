package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func newRun() *cobra.Command {
	cmd := &cobra.Command{
		Use: "run", Short: "Start runs of workflows and see how far they are", GroupID: "use", Args: noVerb, RunE: help,
		Example: `  axd run start etl --param day=2026-11-30 --wait
  axd run show 01KBN0Y2M80000000000000007 --watch
  axd run rerun 01KBN0Y2M80000000000000007`,
	}
	cmd.AddCommand(newRunStart(), newRunList(), newRunShow(), newRunItems(), newRunCancel(), newRunRerun(),
		newRunStep("skip", "Let a step count as skipped", `Let a step count as skipped that waits or has failed. What needs it goes on as its
rule says.`, (*client.Client).SkipStep),
		newRunStep("force-success", "Let a step count as a success", `Let a step count as a success that waits, or has ended otherwise. What needs it
goes on as its rule says.`, (*client.Client).ForceSuccess))
	return cmd
}

func newRunStart() *cobra.Command {
	var c conn
	var s startRun
	cmd := &cobra.Command{
		Use: "start WORKFLOW", Short: "Start a run of a workflow", Args: exactlyOne("WORKFLOW"),
		Long: `Start a run of a workflow's newest version.

A parameter is given as --param NAME=VALUE: of a text the text, of other types
JSON. With --wait or --follow the exit code is 1 unless the run is a success;
Ctrl-C leaves the run alone. The run's ID alone goes to standard output.`,
		Example: `  axd run start etl --param day=2026-11-30 --param full=true --wait
  axd run start etl --params '{"day": "2026-11-30"}' --follow`,
	}
	f := cmd.Flags()
	f.StringArrayVar(&s.params, "param", nil, "a parameter as `NAME=VALUE`; may be repeated")
	f.StringVar(&s.whole, "params", "", "all parameters as a JSON `object`")
	f.Var(&s.key, "key", "idempotency `key`: a second start with it answers with the first run, for 24 hours")
	f.StringVar(&s.priority, "priority", "", "of the run's tasks: high, normal or low; default: that of steps and jobs")
	s.wait.flags(cmd)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		r, err := s.request(ctx, cl, args[0])
		if err != nil {
			return err
		}
		run, err := cl.StartRun(ctx, args[0], r)
		if err != nil {
			return about("workflow", args[0], err)
		}
		if c.output == "table" || !s.wait.any() {
			if err := c.output.print(cmd.OutOrStdout(), run, func(t *table) { t.row(run.ID) }); err != nil {
				return err
			}
		}
		if run.Deduplicated != nil && *run.Deduplicated {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "axd: run %s was started under this key before; it is %s\n", run.ID, run.State)
		}
		return s.wait.until(ctx, cl, cmd, c.output, run)
	})
}

// startRun are the flags of a start.
type startRun struct {
	params          []string
	whole, priority string
	key             keyFlag
	wait            runWait
}

func (s *startRun) request(ctx context.Context, cl *client.Client, workflow string) (client.StartRunRequest, error) {
	r := client.StartRunRequest{IdempotencyKey: string(s.key)}
	if s.priority != "" {
		if err := r.Priority.UnmarshalText([]byte(s.priority)); err != nil {
			return r, job.Invalid("--priority", "must be high, normal or low", s.priority)
		}
	}
	switch {
	case s.whole != "" && len(s.params) > 0:
		return r, job.Invalid("--param and --params", "exclude each other", "")
	case s.whole != "":
		if !json.Valid([]byte(s.whole)) {
			return r, job.Invalid("--params", "must be a JSON object", s.whole)
		}
		r.Params = json.RawMessage(s.whole)
	case len(s.params) > 0:
		w, err := cl.Workflow(ctx, workflow, 0)
		if err != nil {
			return r, about("workflow", workflow, err)
		}
		values, err := paramValues(&w.WorkflowSpec, s.params)
		if err != nil {
			return r, err
		}
		r.Params, err = json.Marshal(values)
		return r, err
	}
	return r, nil
}

// paramValues reads NAME=VALUE pairs by the types of the workflow's parameters.
func paramValues(w *job.WorkflowSpec, pairs []string) (map[string]json.RawMessage, error) {
	types := map[string]job.ParamType{}
	for i := range w.Params {
		types[w.Params[i].Name] = w.Params[i].TypeOrDefault()
	}
	values := map[string]json.RawMessage{}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		kind, known := types[name]
		switch {
		case !ok:
			return nil, job.Invalid("--param", "must be NAME=VALUE", pair)
		case values[name] != nil:
			return nil, job.Invalid("--param", "must be given once for each parameter", name)
		case !known:
			return nil, job.Invalid("--param", "must be a parameter of the workflow: "+
				cmp.Or(strings.Join(slices.Sorted(maps.Keys(types)), ", "), "it has none"), name)
		case kind == job.ParamString:
			value, err := json.Marshal(text)
			if err != nil {
				return nil, err
			}
			values[name] = value
		case !json.Valid([]byte(text)):
			return nil, job.Invalid("--param "+name, "must be JSON of type "+string(kind), text)
		default:
			values[name] = json.RawMessage(text)
		}
	}
	return values, nil
}

func newRunList() *cobra.Command {
	var c conn
	var q client.RunQuery
	cmd := &cobra.Command{
		Use: "list", Short: "List runs", Args: noArgs,
		Long: `List runs, the oldest first. For the newest give --from a time close to now.`,
		Example: `  axd run list --workflow etl --state failed
  axd run list --state running -o json`,
	}
	f := cmd.Flags()
	f.StringVar(&q.Workflow, "workflow", "", "runs of this `workflow`")
	f.StringVar(&q.State, "state", "", "runs in this `state`: running, success, failed, timeout, cancelled")
	f.StringVar(&q.From, "from", "", "runs created at or after this `time`, RFC 3339")
	f.StringVar(&q.To, "to", "", "runs created before this `time`, RFC 3339")
	pageFlags(cmd, &q.Limit, 50, &q.Cursor)
	_ = cmd.RegisterFlagCompletionFunc("state", fixed("running", "success", "failed", "timeout", "cancelled"))
	return c.client(cmd, func(ctx context.Context, cl *client.Client, _ []string) error {
		list, err := cl.Runs(ctx, q)
		if err != nil {
			return err
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ID", "WORKFLOW", "STATE", "CREATED", "DURATION", "TASKS", "TRIGGER")
			for i := range list.Runs {
				r := &list.Runs[i]
				t.row(r.ID, cut(r.Workflow, 20), runState(r), clock(&r.CreatedAt, now), runDuration(r, now), progress(r), cut(triggerOf(&r.Trigger), 20))
			}
		})
	})
}

func newRunItems() *cobra.Command {
	var c conn
	var limit int
	var cursor string
	cmd := &cobra.Command{
		Use: "items ID STEP", Short: "List the items of a step that fans out", Args: idAndStep,
		Long: `List the items of a step that fans out, in the order of its list, with their tasks.
Where the step names a workflow, RUN is the run that an item is.`,
		Example: `  axd run items 01KBN0Y2M80000000000000007 load`,
	}
	pageFlags(cmd, &limit, 100, &cursor)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		list, err := cl.RunItems(ctx, args[0], args[1], limit, cursor)
		if err != nil {
			return aboutStep(args[0], args[1], err)
		}
		c.tellMore(cmd, list.NextCursor)
		return c.output.print(cmd.OutOrStdout(), list, func(t *table) {
			now := time.Now()
			t.row("ITEM", "STATE", "STARTED", "TASK", "RUN", "ERROR")
			for i := range list.Items {
				it := &list.Items[i]
				t.row(strconv.FormatUint(uint64(it.Item), 10), it.State, clock(it.StartedAt, now), it.Task, it.Run, cut(it.LastError, 30))
			}
		})
	})
}

// idAndStep wants a run and one of its steps.
func idAndStep(_ *cobra.Command, args []string) error {
	if len(args) != 2 {
		return job.Invalid("ID and STEP", "must both be given", strings.Join(args, " "))
	}
	return nil
}

func newRunCancel() *cobra.Command {
	var c conn
	var why string
	cmd := &cobra.Command{
		Use: "cancel ID", Short: "End a run that has not ended", Args: exactlyOne("ID"),
		Long: `End a run that has not ended: what waits is cancelled at once, what runs is told
to stop. The steps of finally still run.`,
		Example: `  axd run cancel 01KBN0Y2M80000000000000007 --reason "wrong day"`,
	}
	cmd.Flags().StringVar(&why, "reason", "", "`why`, for whoever looks later")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		run, err := cl.CancelRun(ctx, args[0], why)
		if err != nil {
			return about("run", args[0], err)
		}
		return printRun(cmd, c.output, &run)
	})
}

func newRunRerun() *cobra.Command {
	var c conn
	var from, only string
	var wait runWait
	cmd := &cobra.Command{
		Use: "rerun ID", Short: "Run steps of a run again", Args: exactlyOne("ID"),
		Long: `Run steps of a run again: those that failed, and what depends on them. With --from
run that step and all that depends on it again, however they ended; with --only
that step alone. The steps of on_failure and finally follow as before.`,
		Example: `  axd run rerun 01KBN0Y2M80000000000000007
  axd run rerun 01KBN0Y2M80000000000000007 --from clean --wait`,
	}
	cmd.Flags().StringVar(&from, "from", "", "from this `step` down")
	cmd.Flags().StringVar(&only, "only", "", "this `step` alone")
	wait.flags(cmd)
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		var run client.Run
		var err error
		switch {
		case from != "" && only != "":
			return job.Invalid("--from and --only", "exclude each other", only)
		case only != "":
			run, err = cl.RerunStep(ctx, args[0], only)
		default:
			run, err = cl.Rerun(ctx, args[0], client.RerunRequest{From: from})
		}
		if err != nil {
			return aboutStep(args[0], cmp.Or(from, only), err)
		}
		if !wait.any() {
			return printRun(cmd, c.output, &run)
		}
		return wait.until(ctx, cl, cmd, c.output, run)
	})
}

type stepAct = func(c *client.Client, ctx context.Context, run, step, reason string) (client.Run, error)

func newRunStep(verb, short, long string, act stepAct) *cobra.Command {
	var c conn
	var why string
	cmd := &cobra.Command{
		Use: verb + " ID STEP", Short: short, Long: long,
		Example: "  axd run " + verb + " 01KBN0Y2M80000000000000007 clean --reason \"done by hand\"",
		Args:    idAndStep,
	}
	cmd.Flags().StringVar(&why, "reason", "", "`why`, for whoever looks later")
	return c.client(cmd, func(ctx context.Context, cl *client.Client, args []string) error {
		run, err := act(cl, ctx, args[0], args[1], why)
		if err != nil {
			return aboutStep(args[0], args[1], err)
		}
		return printRun(cmd, c.output, &run)
	})
}

// aboutStep names what doesn't exist: the run, or its step.
func aboutStep(run, step string, err error) error {
	if fieldOf(err) == "step" {
		return about("step", step, err)
	}
	return about("run", run, err)
}

// printRun answers a command that changed a run.
func printRun(cmd *cobra.Command, out outputFlag, run *client.Run) error {
	return out.print(cmd.OutOrStdout(), run, func(t *table) { t.row(run.ID, runState(run), progress(run)) })
}

func runState(r *client.Run) string {
	if r.Stopping != "" {
		return r.State + " (" + r.Stopping + ")"
	}
	return r.State
}

func runDuration(r *client.Run, now time.Time) string {
	if r.Duration != nil {
		return short(r.Duration.Std())
	}
	return short(max(0, now.Sub(r.CreatedAt)))
}

// progress tells how many of a run's steps have ended.
func progress(r *client.Run) string {
	open := r.Tasks[job.Blocked.String()] + r.Tasks[job.Pending.String()]
	made := int64(0)
	for _, n := range r.Tasks {
		made += n
	}
	return strconv.FormatInt(made-open, 10) + "/" + strconv.FormatInt(int64(r.StepCount)+r.ItemCount, 10)
}

func triggerOf(t *client.RunTrigger) string {
	switch {
	case t.Schedule != "" && t.Kind == "manual" && t.Actor != "":
		return "schedule " + t.Schedule + ", by " + t.Actor
	case t.Schedule != "":
		return "schedule " + t.Schedule
	case t.Event != "":
		return "event " + t.Event
	case t.Run != "":
		return "run " + t.Run
	case t.Actor != "":
		return t.Kind + " " + t.Actor
	}
	return t.Kind
}
