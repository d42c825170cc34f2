package client

import (
	"context"
	"encoding/json"
	"net/http"
)

// What a reconcile finds of a key.
const (
	ReconcileSame    = "same"    // the task is in the state that was believed
	ReconcileDiffers = "differs" // it is in another one
	ReconcileMissing = "missing" // there is no task of that key
)

// ReconcileOpen is a state to believe in: not ended, whichever it is.
const ReconcileOpen = "open"

// ReconcileRequest compares what a caller believes with what is.
type ReconcileRequest struct {
	Tasks []Believed `json:"tasks"` // at most 1,000
	// Replay submits those that are missing and come with a task, and replays the dead
	// letters among those that differ, where success or no end was believed.
	Replay bool `json:"replay,omitempty"`
}

// ReconcileDocument is what the reconcile_url of a schedule answers: replay is the
// schedule's to say.
type ReconcileDocument struct {
	Tasks []Believed `json:"tasks"` // at most 1,000; none: there is nothing to compare
}

// Believed is what a caller believes of one task.
type Believed struct {
	IdempotencyKey string          `json:"idempotency_key"`
	State          string          `json:"state,omitempty"` // an API state, or open; empty: any
	Task           json.RawMessage `json:"task,omitempty"`  // a SubmitRequest, to be submitted where it is missing
}

// ReconcileResponse tells the differences.
type ReconcileResponse struct {
	Same      int          `json:"same"`
	Differs   int          `json:"differs"`
	Missing   int          `json:"missing"`
	Submitted int          `json:"submitted"` // of the missing ones
	Replayed  int          `json:"replayed"`  // of those that differ: dead letters that are pending again
	Results   []Reconciled `json:"results"`   // in order
}

// Reconciled is what was found of one key.
type Reconciled struct {
	IdempotencyKey string   `json:"idempotency_key"`
	Verdict        string   `json:"verdict,omitempty"` // same, differs or missing; absent where there is an error
	ID             string   `json:"id,omitempty"`
	State          string   `json:"state,omitempty"`
	Submitted      bool     `json:"submitted,omitempty"` // it was missing, and is there now under this id
	Replayed       bool     `json:"replayed,omitempty"`  // it was a dead letter, and is pending again; state is the one before
	Error          *Problem `json:"error,omitempty"`     // why it could not be compared, submitted or replayed
}

// Reconcile compares what the caller believes with what is, and on request submits
// what is missing and replays what failed. It may be repeated: keys make one task of each.
func (c *Client) Reconcile(ctx context.Context, r ReconcileRequest) (ReconcileResponse, error) {
	var out ReconcileResponse
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/reconcile", body: r, limit: batchTime, again: true}, &out)
	return out, err
}
