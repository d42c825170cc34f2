package client

import (
	"context"
	"time"
)

// Explanation tells why a task isn't running, or why it ended as it did.
type Explanation struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace"`
	Job       string `json:"job,omitempty"`
	State     string `json:"state"`
	App       string `json:"app,omitempty"`      // whom to ask: the task's, else its job's
	Owner     string `json:"owner,omitempty"`    // ditto
	Schedule  string `json:"schedule,omitempty"` // that fired it
	// NominalTime is the time of the schedule that the task is for.
	NominalTime *time.Time `json:"nominal_time,omitempty"`
	At          time.Time  `json:"at"` // the cluster's clock when it was looked at
	// Stale: no leader confirmed it; it is what the asked server has.
	Stale   bool     `json:"stale,omitempty"`
	Reasons []Reason `json:"reasons"` // what has to go away first comes first
}

// Reason is one thing that keeps a task from running, or that ended it. New codes
// may come: to those unknown, text and next still apply.
type Reason struct {
	Code  string     `json:"code"`
	Text  string     `json:"text"`
	Next  string     `json:"next,omitempty"` // what to do
	Since *time.Time `json:"since,omitempty"`
	Until *time.Time `json:"until,omitempty"` // when it goes away by itself

	Worker       string  `json:"worker,omitempty"`
	Workers      int     `json:"workers,omitempty"` // how many were looked at, or match
	Unmet        []Unmet `json:"unmet,omitempty"`   // what workers lack
	Slots        int     `json:"slots,omitempty"`   // of the workers that match
	Ahead        *int    `json:"ahead,omitempty"`   // tasks that wait for the same slots and come first
	AheadAtLeast bool    `json:"ahead_at_least,omitempty"`
	Outcome      string  `json:"outcome,omitempty"` // of the attempt that decided
	ExitCode     *int    `json:"exit_code,omitempty"`
	RetriesUsed  *int    `json:"retries_used,omitempty"`
	Callback     string  `json:"callback,omitempty"`    // its id
	Tries        *int    `json:"tries,omitempty"`       // of the callback
	LastStatus   int     `json:"last_status,omitempty"` // HTTP status that its target last answered
}

// Unmet is something that a task asks of workers, and how many lack it.
type Unmet struct {
	Constraint string `json:"constraint"` // such as "offer exec" or "label gpu=yes"
	Workers    int    `json:"workers"`
}

// Explain tells why a task isn't running, or why it ended as it did.
func (c *Client) Explain(ctx context.Context, id string) (Explanation, error) {
	var out Explanation
	err := c.get(ctx, taskPath(id)+"/explain", nil, &out)
	return out, err
}
