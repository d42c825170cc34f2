package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/axd-project/axd/job"
)

// Run is one execution of a workflow, by the version that it started with.
type Run struct {
	ID              string           `json:"id"`
	Namespace       string           `json:"namespace"`
	Workflow        string           `json:"workflow"`
	WorkflowVersion uint64           `json:"workflow_version"`
	State           string           `json:"state"` // running, success, failed, timeout, cancelled
	Priority        string           `json:"priority,omitempty"`
	Trigger         RunTrigger       `json:"trigger"`
	Params          json.RawMessage  `json:"params,omitempty"` // with their defaults; shown for one run, not in lists
	StepCount       int              `json:"step_count"`
	ItemCount       int64            `json:"item_count,omitempty"` // tasks of items of its steps, beside the one of each step
	Tasks           map[string]int64 `json:"tasks"`                // its tasks by stored state; pending stands for dispatched and running too
	CreatedAt       time.Time        `json:"created_at"`
	FinishedAt      *time.Time       `json:"finished_at,omitempty"`
	Duration        *job.Duration    `json:"duration,omitempty"`   // created to finished
	TimeoutAt       *time.Time       `json:"timeout_at,omitempty"` // while it runs
	// Stopping is how a run that still runs is to end: cancelled or timeout.
	Stopping    string `json:"stopping,omitempty"`
	Error       string `json:"error,omitempty"` // who or what stopped it
	DeadLetters int64  `json:"dead_letters,omitempty"`
	// Touched: somebody has changed by hand what became of a step.
	Touched      bool  `json:"touched,omitempty"`
	Deduplicated *bool `json:"deduplicated,omitempty"` // in the answer of a start
}

// RunTrigger is what started a run.
type RunTrigger struct {
	Kind        string     `json:"kind"` // manual, schedule, event, run
	Actor       string     `json:"actor,omitempty"`
	Schedule    string     `json:"schedule,omitempty"`
	NominalTime *time.Time `json:"nominal_time,omitempty"`
	Event       string     `json:"event,omitempty"`
	Run         string     `json:"run,omitempty"`  // whose step this run is
	Step        string     `json:"step,omitempty"` // which
	Item        uint32     `json:"item,omitempty"` // of a step that fans out: the number of its item
}

// RunStep is a step of a run.
type RunStep struct {
	Name     string `json:"name"`
	Section  string `json:"section"` // steps, on_failure, finally
	Task     string `json:"task_id"`
	Job      string `json:"job,omitempty"`
	Workflow string `json:"workflow,omitempty"`
	// Run is the run that the step is, where it names a workflow and has begun.
	Run string `json:"run,omitempty"`
	// Items are the tasks of a step that fans out, by stored state; pending stands for
	// dispatched and running too, and running for those that stand for a run which goes
	// on. ItemCount is how many there are to be.
	Items     map[string]int64 `json:"items,omitempty"`
	ItemCount *int64           `json:"item_count,omitempty"`
	Needs     []string         `json:"needs,omitempty"`
	Rule      string           `json:"rule,omitempty"` // where it isn't all_success
	// AllowFailure: that it failed doesn't make the run fail.
	AllowFailure bool          `json:"allow_failure,omitempty"`
	State        string        `json:"state"` // of its task; running while its items or its run are at work
	Attempt      int           `json:"attempt"`
	RetryCount   int           `json:"retry_count"`
	StartedAt    *time.Time    `json:"started_at,omitempty"`
	FinishedAt   *time.Time    `json:"finished_at,omitempty"`
	Duration     *job.Duration `json:"duration,omitempty"`
	Worker       string        `json:"worker,omitempty"`
	ExitCode     *int          `json:"exit_code,omitempty"`
	LastError    string        `json:"last_error,omitempty"`
}

// RunItem is an item of a step that fans out.
type RunItem struct {
	Item       uint32     `json:"item"` // its place in the list, from 1
	Task       string     `json:"task_id"`
	Run        string     `json:"run,omitempty"` // that it is, where the step names a workflow
	State      string     `json:"state"`         // of its task; running while its run is at work
	StartedAt  *time.Time `json:"started_at,omitempty"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	LastError  string     `json:"last_error,omitempty"`
}

// RunItemList is a page of the items of a step, in the order of its list.
type RunItemList struct {
	Items      []RunItem `json:"items"`
	NextCursor string    `json:"next_cursor,omitempty"`
}

// RunDetail is a run with a page of its steps, each behind all that it needs. While
// the run is being made the last ones are missing.
type RunDetail struct {
	Run
	Steps      []RunStep `json:"steps"`
	NextCursor string    `json:"next_cursor,omitempty"`
}

// RunList is a page of runs, the one that was created first first.
type RunList struct {
	Runs       []Run  `json:"runs"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// RunQuery selects runs. Empty fields don't narrow.
type RunQuery struct {
	Workflow string
	State    string
	From     string // RFC 3339: created at or after
	To       string // RFC 3339: created before
	Limit    int
	Cursor   string
}

// RerunRequest runs steps of a run again.
type RerunRequest struct {
	// From: this step and all that depends on it, however they ended. Empty: the
	// steps that failed, and what depends on them.
	From string `json:"from,omitempty"`
}

// StepRequest changes what became of a step.
type StepRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Runs returns a page of runs.
func (c *Client) Runs(ctx context.Context, q RunQuery) (RunList, error) {
	v := page(q.Limit, q.Cursor)
	for key, value := range map[string]string{"workflow": q.Workflow, "state": q.State, "from": q.From, "to": q.To} {
		if value != "" {
			v.Set(key, value)
		}
	}
	var out RunList
	err := c.get(ctx, "/v1/runs", v, &out)
	return out, err
}

// Run returns a run with a page of its steps.
func (c *Client) Run(ctx context.Context, id string, limit int, cursor string) (RunDetail, error) {
	var out RunDetail
	err := c.get(ctx, runPath(id), page(limit, cursor), &out)
	return out, err
}

// RunSteps returns a run with all its steps, page by page: what the first page
// showed may have moved on when the last is read.
func (c *Client) RunSteps(ctx context.Context, id string) (RunDetail, error) {
	const most = 1000
	out, err := c.Run(ctx, id, most, "")
	for cursor := out.NextCursor; err == nil && cursor != ""; {
		var more RunDetail
		more, err = c.Run(ctx, id, most, cursor)
		out.Steps = append(out.Steps, more.Steps...)
		cursor = more.NextCursor
	}
	out.NextCursor = ""
	return out, err
}

// RunItems returns a page of the items of a step that fans out.
func (c *Client) RunItems(ctx context.Context, id, step string, limit int, cursor string) (RunItemList, error) {
	var out RunItemList
	err := c.get(ctx, stepPath(id, step)+"/items", page(limit, cursor), &out)
	return out, err
}

// CancelRun cancels what has not ended of a run; its finally steps still run.
func (c *Client) CancelRun(ctx context.Context, id, reason string) (Run, error) {
	return c.actOnRun(ctx, runPath(id)+"/cancel", CancelRequest{Reason: reason})
}

// Rerun runs steps of a run again.
func (c *Client) Rerun(ctx context.Context, id string, r RerunRequest) (Run, error) {
	return c.actOnRun(ctx, runPath(id)+"/rerun", r)
}

// RerunStep runs one step again; what depends on it stays as it is.
func (c *Client) RerunStep(ctx context.Context, id, step string) (Run, error) {
	return c.actOnRun(ctx, stepPath(id, step)+"/rerun", struct{}{})
}

// SkipStep makes a step count as skipped that waits or has failed.
func (c *Client) SkipStep(ctx context.Context, id, step, reason string) (Run, error) {
	return c.actOnRun(ctx, stepPath(id, step)+"/skip", StepRequest{Reason: reason})
}

// ForceSuccess makes a step count as a success that waits or has ended otherwise.
func (c *Client) ForceSuccess(ctx context.Context, id, step, reason string) (Run, error) {
	return c.actOnRun(ctx, stepPath(id, step)+"/force-success", StepRequest{Reason: reason})
}

func (c *Client) actOnRun(ctx context.Context, path string, body any) (Run, error) {
	var out Run
	err := c.call(ctx, request{method: http.MethodPost, path: path, body: body}, &out)
	return out, err
}

// WaitRun asks for the run until it has ended and returns it; tell, where given,
// sees it each time. It is bounded by ctx alone.
func (c *Client) WaitRun(ctx context.Context, id string, tell func(Run)) (Run, error) {
	for pause := minPoll; ; pause = min(pause*3/2, maxPoll) {
		d, err := c.Run(ctx, id, 1, "")
		if err != nil {
			return d.Run, err
		}
		if tell != nil {
			tell(d.Run)
		}
		if RunEnded(d.State) {
			return d.Run, nil
		}
		if !sleep(ctx, pause) {
			return d.Run, ended(ctx, nil)
		}
	}
}

// RunEnded reports whether a run in this state has ended.
func RunEnded(state string) bool {
	s, err := job.ParseRunState(state)
	return err == nil && s.Terminal()
}

func runPath(id string) string { return "/v1/runs/" + url.PathEscape(id) }

func stepPath(id, step string) string { return runPath(id) + "/steps/" + url.PathEscape(step) }
