package api

import (
	"cmp"
	"net/http"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func runRoutes() []route {
	act := func(path, summary string, handle func(*api, *request) error, body any) route {
		return route{
			method: post, path: "/v1/runs/:id/" + path, handle: handle, summary: summary,
			body: body, bodyOptional: true, answer: client.Run{}, statuses: ok,
		}
	}
	return []route{
		{
			method: get, path: "/v1/runs", handle: (*api).listRuns, query: []string{"workflow", "state", "from", "to", "limit", "cursor"},
			summary: "List runs, the one that was created first first; a page may be short, even empty, while next_cursor is set",
			answer:  client.RunList{}, statuses: ok,
		},
		{
			method: get, path: "/v1/runs/:id", handle: (*api).getRun, query: pageParams,
			summary: "Show a run with a page of its steps, each behind all that it needs", answer: client.RunDetail{}, statuses: ok,
		},
		{
			method: get, path: "/v1/runs/:id/steps/:step/items", handle: (*api).listItems, query: pageParams,
			summary: "List the items of a step that fans out, in the order of its list: their tasks, and the runs that these stand for",
			answer:  client.RunItemList{}, statuses: ok,
		},
		act("cancel", "Cancel what has not ended of a run; its finally steps still run", (*api).cancelRun, client.CancelRequest{}),
		act("rerun", "Run the steps that failed again, and what depends on them; with from that step and all below it, however they ended",
			(*api).rerun, client.RerunRequest{}),
		act("steps/:step/rerun", "Run one step again; what depends on it stays as it is", (*api).rerunStep, struct{}{}),
		act("steps/:step/skip", "Let a step count as skipped that waits or has failed", (*api).skipStep, client.StepRequest{}),
		act("steps/:step/force-success", "Let a step count as a success that waits, or has ended otherwise", (*api).forceSuccess, client.StepRequest{}),
	}
}

// runRef reads the run that a path names. What is no id names nothing.
func (r *request) runRef() (fsm.RunRef, *job.Error) {
	ref, err := r.taskRef()
	return fsm.RunRef(ref), err
}

func (a *api) listRuns(r *request) error {
	f := fsm.RunFilter{Namespace: r.namespace, Workflow: r.values.Get("workflow")}
	for _, name := range []string{"workflow", "state", "cursor"} {
		if r.values.Has(name) && r.values.Get(name) == "" {
			return job.Invalid(name, "must not be empty where it is given", "")
		}
	}
	if f.Workflow != "" {
		if err := job.ValidateName("workflow", f.Workflow); err != nil {
			return err
		}
	}
	if s := r.values.Get("state"); s != "" {
		state, err := job.ParseRunState(s)
		if err != nil {
			return err
		}
		f.State = state
	}
	var wrong *job.Error
	if f.From, wrong = r.time("from"); wrong != nil {
		return wrong
	}
	if f.To, wrong = r.time("to"); wrong != nil {
		return wrong
	}
	if f.To != 0 && f.To <= f.From {
		return job.Invalid("to", "must be after from", r.values.Get("to"))
	}
	var out client.RunList
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		page, err := fsm.ListRuns(v, f, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		out = client.RunList{Runs: make([]client.Run, 0, len(page.Runs)), NextCursor: page.Next}
		for i := range page.Runs {
			out.Runs = append(out.Runs, showRun(&page.Runs[i]))
		}
		return nil
	})
}

func (a *api) getRun(r *request) error {
	ref, wrong := r.runRef()
	if wrong != nil {
		return wrong
	}
	var out client.RunDetail
	return a.page(r, &out, func(v fsm.Reader, limit int) error {
		run, ok := fsm.GetRun(v, ref)
		if !ok {
			return job.NotFound("id", ref.ID.String())
		}
		out = client.RunDetail{Run: showRun(&run), Steps: []client.RunStep{}}
		out.Params = fsm.RunParams(v, &run)
		graph, ok := fsm.GetRunGraph(v, &run)
		if !ok {
			return job.Errorf(job.CodeInternal, "the run's version of its workflow is gone")
		}
		steps, next, err := fsm.ListRunSteps(v, ref, r.values.Get("cursor"), limit)
		if err != nil {
			return err
		}
		out.NextCursor = next
		for i := range steps {
			out.Steps = append(out.Steps, showRunStep(graph, &steps[i], a.backend.Now()))
		}
		return nil
	})
}

func (a *api) cancelRun(r *request) error {
	var in client.CancelRequest
	return a.actOnRun(r, &in, func(ref fsm.RunRef, _ string) (fsm.Command, *job.Error) {
		return fsm.CancelRun{Ref: ref, Reason: in.Reason}, validReason(in.Reason)
	})
}

func (a *api) rerun(r *request) error {
	var in client.RerunRequest
	return a.actOnRun(r, &in, func(ref fsm.RunRef, _ string) (fsm.Command, *job.Error) {
		if in.From != "" {
			return fsm.RerunRun{Ref: ref, Mode: fsm.RerunFrom, Step: in.From}, nil
		}
		return fsm.RerunRun{Ref: ref, Mode: fsm.RerunFailed}, nil
	})
}

func (a *api) rerunStep(r *request) error {
	var in struct{}
	return a.actOnRun(r, &in, func(ref fsm.RunRef, step string) (fsm.Command, *job.Error) {
		return fsm.RerunRun{Ref: ref, Mode: fsm.RerunOne, Step: step}, nil
	})
}

func (a *api) skipStep(r *request) error {
	var in client.StepRequest
	return a.actOnRun(r, &in, func(ref fsm.RunRef, step string) (fsm.Command, *job.Error) {
		return fsm.SkipStep{Ref: ref, Step: step, Reason: in.Reason}, validReason(in.Reason)
	})
}

func (a *api) forceSuccess(r *request) error {
	var in client.StepRequest
	return a.actOnRun(r, &in, func(ref fsm.RunRef, step string) (fsm.Command, *job.Error) {
		return fsm.ForceSuccess{Ref: ref, Step: step, Reason: in.Reason}, validReason(in.Reason)
	})
}

// actOnRun reads a request about a run into in, commits what build makes of it, and
// answers with the run.
func (a *api) actOnRun(r *request, in any, build func(ref fsm.RunRef, step string) (fsm.Command, *job.Error)) error {
	ref, wrong := r.runRef()
	if wrong != nil {
		return wrong
	}
	if wrong := decode(r.body, in); wrong != nil {
		return wrong
	}
	c, wrong := build(ref, r.name("step"))
	if wrong != nil {
		return wrong
	}
	result, wrong := a.propose(r.ctx, c)
	if wrong != nil {
		return wrong
	}
	return write(r, http.StatusOK, showRun(result.Run))
}

func showRun(run *fsm.Run) client.Run {
	out := client.Run{
		ID: run.ID.String(), Namespace: run.Namespace, Workflow: run.Workflow, WorkflowVersion: run.WorkflowVersion,
		State: run.State.String(), Priority: run.Priority.String(), Trigger: showTrigger(&run.Trigger),
		StepCount: run.Steps, ItemCount: int64(run.Items), Tasks: map[string]int64{},
		CreatedAt: at(run.Created), FinishedAt: instant(run.Ended), TimeoutAt: instant(run.EndBy),
		Error: run.Error, DeadLetters: int64(run.Dead), Touched: run.Touched,
	}
	for _, s := range job.States {
		if n := run.Counts[s]; n > 0 {
			out.Tasks[s.String()] = int64(n)
		}
	}
	if run.Ended != 0 {
		out.Duration = new(job.Duration(time.Duration(run.Ended-run.Created) * time.Millisecond))
	}
	if run.Stop != 0 && !run.State.Terminal() {
		out.Stopping = run.Stop.String()
	}
	return out
}

func showTrigger(t *fsm.RunTrigger) client.RunTrigger {
	out := client.RunTrigger{
		Kind: cmp.Or(t.Kind, "manual"), Actor: t.Actor, Schedule: t.Schedule, NominalTime: instant(t.Nominal), Event: t.Event, Step: t.Step, Item: t.Item,
	}
	if !t.Run.IsZero() {
		out.Run = t.Run.String()
	}
	return out
}

// showRunStep shows a step by its definition and by its task.
func showRunStep(g fsm.RunGraph, s *fsm.RunStep, now int64) client.RunStep {
	def, section := g.Step(s.Number)
	t := showTask(s.Record, now)
	out := client.RunStep{
		Name: def.Name, Section: section, Task: s.Task.String(), Job: def.Job, Workflow: def.Workflow, Needs: def.Needs,
		AllowFailure: def.AllowFailure, State: t.State, Attempt: t.Attempt, RetryCount: t.RetryCount, StartedAt: t.StartedAt,
		FinishedAt: t.FinishedAt, Duration: t.Duration, Worker: t.Worker, ExitCode: t.ExitCode, LastError: t.LastError,
	}
	if rule := def.RuleOrDefault(); rule != job.AllSuccess {
		out.Rule = string(rule)
	}
	if s.AtWork() {
		out.State = job.Running.String()
	}
	if !s.Child.IsZero() {
		out.Run = s.Child.String()
	}
	if s.Fan != nil && s.Phase == fsm.StepBegun {
		out.ItemCount, out.Items = new(int64(s.Fan.Total)), map[string]int64{}
		for _, state := range job.States {
			if n := s.Fan.Counts[state]; n > 0 {
				out.Items[state.String()] = int64(n)
			}
		}
		if n := int64(s.Fan.Running); n > 0 { // their tasks are blocked meanwhile
			out.Items[job.Running.String()] = n
			if out.Items[job.Blocked.String()] -= n; out.Items[job.Blocked.String()] == 0 {
				delete(out.Items, job.Blocked.String())
			}
		}
	}
	return out
}
