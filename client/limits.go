package client

import (
	"context"
	"time"
)

// Limit is a concurrency limit that attempts hold.
type Limit struct {
	Namespace string   `json:"namespace"`
	Job       string   `json:"job,omitempty"`  // whose limit it is
	Name      string   `json:"name,omitempty"` // by which jobs share it
	Key       string   `json:"key,omitempty"`  // as the tasks' payloads hold it
	Held      int      `json:"held"`           // attempts
	Max       int      `json:"max"`            // as it was when the latest attempt was given
	Holders   []Holder `json:"holders"`        // at most 100
}

// Holder is a task whose attempt holds a limit.
type Holder struct {
	Task  string    `json:"task"`
	Since time.Time `json:"since"`
}

// LimitList is a page of limits.
type LimitList struct {
	Limits     []Limit `json:"limits"`
	NextCursor string  `json:"next_cursor,omitempty"`
}

// Limits returns a page of the concurrency limits of the client's namespace that
// attempts hold.
func (c *Client) Limits(ctx context.Context, limit int, cursor string) (LimitList, error) {
	var out LimitList
	err := c.get(ctx, "/v1/limits", page(limit, cursor), &out)
	return out, err
}
