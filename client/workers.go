package client

import (
	"context"
	"net/http"

	"github.com/axd-project/axd/job"
)

// DrainRequest asks for a drain.
type DrainRequest struct {
	// Deadline is when what still runs is given back, without spending a retry; absent:
	// it may end.
	Deadline *job.Duration `json:"deadline,omitempty"`
}

// Workers returns a page of workers by name.
func (c *Client) Workers(ctx context.Context, limit int, cursor string) (WorkerList, error) {
	var out WorkerList
	err := c.get(ctx, "/v1/workers", page(limit, cursor), &out)
	return out, err
}

// DrainWorker gives the worker no further attempts. What runs may end, or is given back
// when a deadline has come.
func (c *Client) DrainWorker(ctx context.Context, name string, in DrainRequest) (Worker, error) {
	return c.worker(ctx, name, "/drain", in)
}

// ResumeWorker ends a drain.
func (c *Client) ResumeWorker(ctx context.Context, name string) (Worker, error) {
	return c.worker(ctx, name, "/resume", struct{}{})
}

func (c *Client) worker(ctx context.Context, name, verb string, body any) (Worker, error) {
	var out Worker
	err := c.call(ctx, request{method: http.MethodPost, path: workerPath(name) + verb, body: body, again: true}, &out)
	return out, err
}

// ForgetWorker removes a lost worker from the list.
func (c *Client) ForgetWorker(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: workerPath(name)}, nil)
}
