package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/axd-project/axd/job"
)

// PutJob creates a job or, where it exists and differs, its next version.
func (c *Client) PutJob(ctx context.Context, name string, spec job.Spec) (Job, error) {
	return c.PutJobFromFile(ctx, name, "", spec)
}

// PutJobFromFile is PutJob that notes the set of files which describe the job.
func (c *Client) PutJobFromFile(ctx context.Context, name, fileSet string, spec job.Spec) (Job, error) {
	var out Job
	err := c.call(ctx, request{method: http.MethodPut, path: jobPath(name), body: Job{Spec: spec, FileSet: fileSet}, again: true}, &out)
	return out, err
}

// Job returns one job with the number of its tasks by state.
func (c *Client) Job(ctx context.Context, name string) (Job, error) {
	var out Job
	err := c.get(ctx, jobPath(name), nil, &out)
	return out, err
}

// Jobs returns a page of jobs by name.
func (c *Client) Jobs(ctx context.Context, limit int, cursor string) (JobList, error) {
	var out JobList
	err := c.get(ctx, "/v1/jobs", page(limit, cursor), &out)
	return out, err
}

// DeleteJob removes a job that no waiting or running task needs.
func (c *Client) DeleteJob(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: jobPath(name)}, nil)
}

// PauseJob keeps a job's tasks from workers; what runs is left alone.
func (c *Client) PauseJob(ctx context.Context, name, reason string) (Job, error) {
	var out Job
	err := c.call(ctx, request{method: http.MethodPost, path: jobPath(name) + "/pause", body: PauseRequest{reason}}, &out)
	return out, err
}

// ResumeJob ends a job's pause.
func (c *Client) ResumeJob(ctx context.Context, name string) (Job, error) {
	var out Job
	err := c.call(ctx, request{method: http.MethodPost, path: jobPath(name) + "/resume", body: struct{}{}}, &out)
	return out, err
}

// Cluster describes servers, leadership and workers.
func (c *Client) Cluster(ctx context.Context) (Cluster, error) {
	var out Cluster
	err := c.get(ctx, "/v1/cluster", nil, &out)
	return out, err
}

// Breakers returns what has failed in a row.
func (c *Client) Breakers(ctx context.Context) (BreakerList, error) {
	var out BreakerList
	err := c.get(ctx, "/v1/breakers", nil, &out)
	return out, err
}

// Alerts returns up to limit alerts, the latest changes first; state is open,
// acknowledged, resolved, or empty for all.
func (c *Client) Alerts(ctx context.Context, state string, limit int) (AlertList, error) {
	q := page(limit, "")
	if state != "" {
		q.Set("state", state)
	}
	var out AlertList
	err := c.get(ctx, "/v1/alerts", q, &out)
	return out, err
}

// AckAlert records that somebody has seen an alert.
func (c *Client) AckAlert(ctx context.Context, kind, subject, actor string) (Alert, error) {
	var out Alert
	err := c.call(ctx, request{
		method: http.MethodPost, path: "/v1/alerts/" + url.PathEscape(kind) + "/" + url.PathEscape(subject) + "/ack",
		body: AckRequest{Actor: actor}, again: true,
	}, &out)
	return out, err
}

// Stats returns numbers by state.
func (c *Client) Stats(ctx context.Context) (Stats, error) {
	var out Stats
	err := c.get(ctx, "/v1/stats", nil, &out)
	return out, err
}

func jobPath(name string) string    { return "/v1/jobs/" + url.PathEscape(name) }
func workerPath(name string) string { return "/v1/workers/" + url.PathEscape(name) }
