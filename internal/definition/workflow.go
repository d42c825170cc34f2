package definition

import (
	"context"
	"errors"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// listWorkflows reads a page of workflows with their steps, which lists leave out.
func listWorkflows(ctx context.Context, c *client.Client, cursor string) ([]Stored, string, error) {
	page, err := c.Workflows(ctx, pageSize, cursor)
	if err != nil {
		return nil, "", err
	}
	out := make([]Stored, 0, len(page.Workflows))
	for _, summary := range page.Workflows {
		w, err := c.Workflow(ctx, summary.Name, 0)
		if errors.Is(err, job.ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, "", err
		}
		out = append(out, Stored{w.Name, w.Version, w.FileSet, &w.WorkflowSpec})
	}
	return out, page.NextCursor, nil
}
