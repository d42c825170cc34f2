package client

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/axd-project/axd/job"
)

// BackfillRequest asks for past times of a schedule to be fired.
type BackfillRequest struct {
	From     time.Time    `json:"from"`               // nominal times at or after
	To       time.Time    `json:"to"`                 // and before
	Which    string       `json:"which,omitempty"`    // missing (default): not fired; failed: these, and those that did not succeed; all
	Order    string       `json:"order,omitempty"`    // oldest (first, default) or newest
	Parallel int          `json:"parallel,omitempty"` // tasks at a time, 1 (default) to 50
	Overlap  string       `json:"overlap,omitempty"`  // allow (default), or wait: only while nothing else of the schedule runs
	Priority job.Priority `json:"priority,omitempty"` // default low
	DryRun   bool         `json:"dry_run,omitempty"`  // only tell which times it would fire
}

// Backfill is how far a backfill has come, or with dry_run what it would do.
type Backfill struct {
	ID        string       `json:"id,omitempty"`
	Schedule  string       `json:"schedule"`
	State     string       `json:"state"` // running, done, cancelled, dry_run
	From      time.Time    `json:"from"`
	To        time.Time    `json:"to"`
	Which     string       `json:"which"`
	Order     string       `json:"order"`
	Parallel  int          `json:"parallel"`
	Overlap   string       `json:"overlap"`
	Priority  job.Priority `json:"priority"`
	CreatedAt *time.Time   `json:"created_at,omitempty"`
	EndedAt   *time.Time   `json:"ended_at,omitempty"`
	Actor     string       `json:"actor,omitempty"`
	Total     int          `json:"total"`     // times of the range
	Left      int          `json:"left"`      // that have not been looked at
	Active    int          `json:"active"`    // tasks that have not ended
	Fired     int          `json:"fired"`     // with dry_run: that would be
	Present   int          `json:"present"`   // that needed none
	Refused   int          `json:"refused"`   // whose task could not be made: their fires tell why
	Succeeded int          `json:"succeeded"` // tasks
	Failed    int          `json:"failed"`    // tasks that ended otherwise
	// Times are, with dry_run, the first 1,000 that would be fired.
	Times []PlannedTime `json:"times,omitempty"`
}

// BackfillList is a page of a schedule's backfills, the oldest first.
type BackfillList struct {
	Backfills  []Backfill `json:"backfills"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// Backfill fires past times of a schedule.
func (c *Client) Backfill(ctx context.Context, schedule string, r BackfillRequest) (Backfill, error) {
	var out Backfill
	err := c.call(ctx, request{method: http.MethodPost, path: schedulePath(schedule) + "/backfill", body: r, again: r.DryRun}, &out)
	return out, err
}

// Backfills returns a page of a schedule's backfills, the oldest first.
func (c *Client) Backfills(ctx context.Context, schedule string, limit int, cursor string) (BackfillList, error) {
	var out BackfillList
	err := c.get(ctx, schedulePath(schedule)+"/backfills", page(limit, cursor), &out)
	return out, err
}

// CancelBackfill ends a backfill; what it has fired goes on.
func (c *Client) CancelBackfill(ctx context.Context, schedule, id string) (Backfill, error) {
	var out Backfill
	err := c.call(ctx, request{
		method: http.MethodPost, path: schedulePath(schedule) + "/backfills/" + url.PathEscape(id) + "/cancel", body: struct{}{},
	}, &out)
	return out, err
}
