package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// Workflow is a workflow's definition.
type Workflow struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	job.WorkflowSpec
	Version   uint64           `json:"version,omitempty"`
	CreatedAt *time.Time       `json:"created_at,omitempty"`
	UpdatedAt *time.Time       `json:"updated_at,omitempty"` // when this version was put
	Runs      map[string]int64 `json:"runs,omitempty"`       // kept ones by state; shown for one workflow
	FileSet   string           `json:"file_set,omitempty"`   // whose files describe it, as axd apply noted; kept where a PUT lacks it
	Warnings  []string         `json:"warnings,omitempty"`   // of what is allowed but seldom meant; in the answer of a put
}

// WorkflowSummary is a workflow as lists show it: without its steps.
type WorkflowSummary struct {
	Namespace   string     `json:"namespace"`
	Name        string     `json:"name"`
	Description string     `json:"description,omitempty"`
	App         string     `json:"app,omitempty"`
	Owner       string     `json:"owner,omitempty"`
	Version     uint64     `json:"version"`
	StepCount   int        `json:"step_count"` // in all its sections
	CreatedAt   *time.Time `json:"created_at"`
	UpdatedAt   *time.Time `json:"updated_at"`
	FileSet     string     `json:"file_set,omitempty"`
}

// WorkflowList is a page of workflows by name.
type WorkflowList struct {
	Workflows  []WorkflowSummary `json:"workflows"`
	NextCursor string            `json:"next_cursor,omitempty"`
}

// WorkflowVersion is a kept version of a workflow.
type WorkflowVersion struct {
	Version   uint64    `json:"version"`
	CreatedAt time.Time `json:"created_at"`
}

// WorkflowVersionList is what is kept of a workflow, the newest version first: the
// last 100, and those that runs use.
type WorkflowVersionList struct {
	Versions []WorkflowVersion `json:"versions"`
}

// StartRunRequest starts a run of a workflow's newest version.
type StartRunRequest struct {
	Params   json.RawMessage `json:"params,omitempty"`   // an object
	Priority job.Priority    `json:"priority,omitempty"` // of its tasks, before that of steps and jobs
	// IdempotencyKey: a second request with it and the same content answers with the
	// first run, for 24 hours.
	IdempotencyKey string `json:"idempotency_key,omitempty"`
}

// PutWorkflow creates a workflow or gives it a new version.
func (c *Client) PutWorkflow(ctx context.Context, name string, spec job.WorkflowSpec) (Workflow, error) {
	return c.PutWorkflowFromFile(ctx, name, "", spec)
}

// PutWorkflowFromFile is PutWorkflow for a workflow that a set of files describes.
func (c *Client) PutWorkflowFromFile(ctx context.Context, name, fileSet string, spec job.WorkflowSpec) (Workflow, error) {
	var out Workflow
	err := c.call(ctx, request{
		method: http.MethodPut, path: workflowPath(name), body: Workflow{WorkflowSpec: spec, FileSet: fileSet}, limit: batchTime, again: true,
	}, &out)
	return out, err
}

// Workflows returns a page of workflows by name.
func (c *Client) Workflows(ctx context.Context, limit int, cursor string) (WorkflowList, error) {
	var out WorkflowList
	err := c.get(ctx, "/v1/workflows", page(limit, cursor), &out)
	return out, err
}

// Workflow returns a workflow as of a version; 0 is the newest.
func (c *Client) Workflow(ctx context.Context, name string, version uint64) (Workflow, error) {
	q := url.Values{}
	if version != 0 {
		q.Set("version", strconv.FormatUint(version, 10))
	}
	var out Workflow
	err := c.get(ctx, workflowPath(name), q, &out)
	return out, err
}

// WorkflowVersions lists the kept versions of a workflow.
func (c *Client) WorkflowVersions(ctx context.Context, name string) ([]WorkflowVersion, error) {
	var out WorkflowVersionList
	err := c.get(ctx, workflowPath(name)+"/versions", nil, &out)
	return out.Versions, err
}

// DeleteWorkflow deletes a workflow. Its runs go on.
func (c *Client) DeleteWorkflow(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: workflowPath(name)}, nil)
}

// StartRun starts a run of a workflow. Where r has no idempotency key the client
// adds a random one, so that a repeated call still starts one run.
func (c *Client) StartRun(ctx context.Context, workflow string, r StartRunRequest) (Run, error) {
	if r.IdempotencyKey == "" {
		r.IdempotencyKey = ownKey()
	}
	var out Run
	err := c.call(ctx, request{method: http.MethodPost, path: workflowPath(workflow) + "/runs", body: r, again: true}, &out)
	return out, err
}

func workflowPath(name string) string { return "/v1/workflows/" + url.PathEscape(name) }
