package client

import (
	"context"
	"net/http"
	"net/url"
)

// DeadLetterList is a page of dead letters, the one that ended first first.
type DeadLetterList struct {
	DeadLetters []Task `json:"dead_letters"`
	NextCursor  string `json:"next_cursor,omitempty"`
}

// DeadLetterFilter selects dead letters; empty fields don't filter.
type DeadLetterFilter struct {
	Job   string `json:"job,omitempty"`
	Error string `json:"error,omitempty"` // part of the last error's text
	From  string `json:"from,omitempty"`  // ended at or after, RFC 3339
	To    string `json:"to,omitempty"`    // ended before, RFC 3339
}

// DeadLetterRequest replays or discards dead letters: up to 100 by id, or those
// that match a filter, of which an empty one matches all of the namespace.
type DeadLetterRequest struct {
	IDs    []string          `json:"ids,omitempty"`
	Filter *DeadLetterFilter `json:"filter,omitempty"`
	DryRun bool              `json:"dry_run,omitempty"`
}

// DeadLetterResult tells what became of a request.
type DeadLetterResult struct {
	Matched int64 `json:"matched"` // when it began
	// AtLeast: there are more than matched; counting stopped.
	AtLeast bool  `json:"at_least,omitempty"`
	Done    int64 `json:"done"`    // replayed, or discarded, until this answer
	Refused int64 `json:"refused"` // could not be replayed, and stay
	// GoesOn: there were too many for one step; the cluster goes on by itself.
	GoesOn bool              `json:"goes_on,omitempty"`
	Errors []DeadLetterError `json:"errors,omitempty"` // of a request by ids
}

// DeadLetterError is why one of the ids was refused.
type DeadLetterError struct {
	ID    string  `json:"id"`
	Error Problem `json:"error"`
}

// DeadLetters returns a page of dead letters.
func (c *Client) DeadLetters(ctx context.Context, f DeadLetterFilter, limit int, cursor string) (DeadLetterList, error) {
	q := page(limit, cursor)
	for name, value := range map[string]string{"job": f.Job, "error": f.Error, "from": f.From, "to": f.To} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out DeadLetterList
	err := c.get(ctx, "/v1/dead-letters", q, &out)
	return out, err
}

// DeadLetter returns one dead letter with its payload.
func (c *Client) DeadLetter(ctx context.Context, id string) (Task, error) {
	var out Task
	err := c.get(ctx, "/v1/dead-letters/"+url.PathEscape(id), nil, &out)
	return out, err
}

// ReplayDeadLetters makes dead letters run again, with all their retries.
func (c *Client) ReplayDeadLetters(ctx context.Context, r DeadLetterRequest) (DeadLetterResult, error) {
	return c.actOnDead(ctx, "replay", r)
}

// DiscardDeadLetters leaves dead letters to the retention of ended tasks.
func (c *Client) DiscardDeadLetters(ctx context.Context, r DeadLetterRequest) (DeadLetterResult, error) {
	return c.actOnDead(ctx, "discard", r)
}

func (c *Client) actOnDead(ctx context.Context, verb string, r DeadLetterRequest) (DeadLetterResult, error) {
	var out DeadLetterResult
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/dead-letters/" + verb, body: r}, &out)
	return out, err
}
