package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// ownKeyWindow is how long a key that the client made up is kept: longer than
// any call is repeated, and short, since nobody else can use it.
const ownKeyWindow = job.Duration(10 * time.Minute)

// Submit creates a task and returns once it is safe on a quorum. Where r has no
// idempotency key the client adds a random one, so that a repeated call still
// creates one task.
func (c *Client) Submit(ctx context.Context, r SubmitRequest) (Task, error) {
	withKey(&r)
	var t Task
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/tasks", body: r, again: true}, &t)
	return t, err
}

// SubmitBatch creates up to 10,000 tasks, each on its own: the answer holds one
// result each, in order. Keys are added as in Submit. An error means that no
// result is known; calling again with the same keys is safe.
func (c *Client) SubmitBatch(ctx context.Context, rs []SubmitRequest) ([]BatchResult, error) {
	if len(rs) > job.MaxBatch {
		return nil, job.Invalid("tasks", "must be at most 10000", strconv.Itoa(len(rs)))
	}
	body, err := encodeBatch(rs)
	if err != nil {
		return nil, err
	}
	var out BatchResponse
	err = c.call(ctx, request{
		method: http.MethodPost, path: "/v1/tasks/batch", body: body, limit: batchTime, again: true,
	}, &out)
	return out.Results, err
}

// encodeBatch writes a BatchRequest, task by task, so that an error can name one.
func encodeBatch(rs []SubmitRequest) (encoded, error) {
	var body bytes.Buffer
	body.WriteString(`{"tasks":[`)
	for i := range rs {
		r := rs[i]
		withKey(&r)
		if i > 0 {
			body.WriteByte(',')
		}
		if err := encodeTo(&body, "tasks["+strconv.Itoa(i)+"]", &r); err != nil {
			return nil, err
		}
	}
	body.WriteString("]}")
	return body.Bytes(), nil
}

func withKey(r *SubmitRequest) {
	if r.IdempotencyKey != "" || r.IdempotencyPeriod != nil || r.IdempotencyPolicy != "" {
		return
	}
	r.IdempotencyKey = ownKey()
	if r.IdempotencyWindow == nil {
		w := ownKeyWindow
		r.IdempotencyWindow = &w
	}
}

// ownKey makes up an idempotency key.
func ownKey() string { return "auto-" + rand.Text() }

// TaskQuery selects tasks. Empty fields don't narrow.
type TaskQuery struct {
	State  string // an API state, such as "scheduled" or "failed"
	Job    string
	Worker string
	Run    string // a run's id: the tasks of its steps
	Parent string // a broadcast's id: its parts
	After  string // RFC 3339: created after
	Limit  int    // of a page, at most 1,000; 0: the server's default
	Cursor string // NextCursor of the page before
}

// Tasks returns a page of tasks.
func (c *Client) Tasks(ctx context.Context, q TaskQuery) (TaskList, error) {
	v := page(q.Limit, q.Cursor)
	for key, value := range map[string]string{"state": q.State, "job": q.Job, "worker": q.Worker, "run": q.Run, "parent": q.Parent, "after": q.After} {
		if value != "" {
			v.Set(key, value)
		}
	}
	var out TaskList
	err := c.get(ctx, "/v1/tasks", v, &out)
	return out, err
}

// Task returns one task.
func (c *Client) Task(ctx context.Context, id string) (Task, error) {
	var out Task
	err := c.get(ctx, taskPath(id), nil, &out)
	return out, err
}

// Attempts returns a task's kept attempts, oldest first.
func (c *Client) Attempts(ctx context.Context, id string) ([]Attempt, error) {
	var out AttemptList
	err := c.get(ctx, taskPath(id)+"/attempts", nil, &out)
	return out.Attempts, err
}

// Cancel ends a task that has not ended. A running attempt is told to stop; the
// task is cancelled once that is confirmed (CancelRequested until then).
func (c *Client) Cancel(ctx context.Context, id, reason string) (Task, error) {
	var out Task
	err := c.call(ctx, request{
		method: http.MethodPost, path: taskPath(id) + "/cancel", body: CancelRequest{Reason: reason},
	}, &out)
	return out, err
}

// Reschedule moves a pending task to another time or priority.
func (c *Client) Reschedule(ctx context.Context, id string, r RescheduleRequest) (Task, error) {
	var out Task
	err := c.call(ctx, request{method: http.MethodPost, path: taskPath(id) + "/reschedule", body: r}, &out)
	return out, err
}

// The pace of Wait: quick at first, since most tasks are short.
const (
	minPoll = 20 * time.Millisecond
	maxPoll = time.Second
)

// Wait asks for the task until it has ended for good and returns it. It is
// bounded by ctx alone.
func (c *Client) Wait(ctx context.Context, id string) (Task, error) {
	for pause := minPoll; ; pause = min(pause*3/2, maxPoll) {
		t, err := c.Task(ctx, id)
		if err != nil || Ended(t.State) {
			return t, err
		}
		if !sleep(ctx, pause) {
			return t, ended(ctx, nil)
		}
	}
}

// Ended reports whether a task in this API state has ended for good.
func Ended(state string) bool {
	_, s, err := job.ParseShown(state)
	return err == nil && s.Terminal()
}

func taskPath(id string) string { return "/v1/tasks/" + url.PathEscape(id) }

func page(limit int, cursor string) url.Values {
	v := url.Values{}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	if cursor != "" {
		v.Set("cursor", cursor)
	}
	return v
}

func (c *Client) get(ctx context.Context, path string, q url.Values, out any) error {
	return c.call(ctx, request{method: http.MethodGet, path: path, query: q, again: true}, out)
}
