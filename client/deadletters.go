package client

import (
	"context"
	"net/http"
	"net/url"
	"time"
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
	Act    string            `json:"act,omitempty"`    // where it goes on: its id, to ask how far it has come
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

// DeadLetterAct is a replay or discard of many dead letters that took more than one
// step: how far it has come.
type DeadLetterAct struct {
	ID        string            `json:"id"`
	Namespace string            `json:"namespace"`
	Verb      string            `json:"verb"`  // replay or discard
	State     string            `json:"state"` // running, done or cancelled
	Filter    *DeadLetterFilter `json:"filter,omitempty"`
	Matched   int64             `json:"matched"`            // when it began
	AtLeast   bool              `json:"at_least,omitempty"` // there were more: counting stopped, so left is the least
	Done      int64             `json:"done"`
	Refused   int64             `json:"refused"` // could not be replayed, and stay
	Left      int64             `json:"left"`    // of those matched
	Actor     string            `json:"actor,omitempty"`
	BeganAt   *time.Time        `json:"began_at,omitempty"`
	EndedAt   *time.Time        `json:"ended_at,omitempty"`
}

// DeadLetterActRunning is the state of an act that goes on.
const DeadLetterActRunning = "running"

// DeadLetterActList lists acts, the newest first.
type DeadLetterActList struct {
	Acts []DeadLetterAct `json:"acts"`
}

// DeadLetterActs returns the acts on many dead letters that go on, and those that
// ended lately, the newest first.
func (c *Client) DeadLetterActs(ctx context.Context) (DeadLetterActList, error) {
	var out DeadLetterActList
	err := c.get(ctx, deadActsPath, nil, &out)
	return out, err
}

// DeadLetterAct returns one of them.
func (c *Client) DeadLetterAct(ctx context.Context, id string) (DeadLetterAct, error) {
	var out DeadLetterAct
	err := c.get(ctx, deadActsPath+"/"+url.PathEscape(id), nil, &out)
	return out, err
}

// CancelDeadLetterAct ends one that goes on; what it has done stays done.
func (c *Client) CancelDeadLetterAct(ctx context.Context, id string) (DeadLetterAct, error) {
	var out DeadLetterAct
	err := c.call(ctx, request{method: http.MethodPost, path: deadActsPath + "/" + url.PathEscape(id) + "/cancel", body: struct{}{}}, &out)
	return out, err
}

// WaitDeadLetterAct stays until an act has ended, and calls show with each look at it.
func (c *Client) WaitDeadLetterAct(ctx context.Context, id string, show func(DeadLetterAct)) (DeadLetterAct, error) {
	for pause := minPoll; ; pause = min(pause*3/2, maxPoll) {
		act, err := c.DeadLetterAct(ctx, id)
		if err != nil {
			return act, err
		}
		if show(act); act.State != DeadLetterActRunning {
			return act, nil
		}
		if !sleep(ctx, pause) {
			return act, ended(ctx, nil)
		}
	}
}

const deadActsPath = "/v1/dead-letters/acts"
