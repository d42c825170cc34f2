package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"
)

// SendEventRequest is an event to be sent.
type SendEventRequest struct {
	// DedupID makes an event that is sent again within 24 hours the same event.
	DedupID string          `json:"dedup_id,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"` // for what it fires, in place of the schedules' own
}

// Event is an event that was sent.
type Event struct {
	ID           string    `json:"id"`
	Namespace    string    `json:"namespace"`
	Name         string    `json:"name"`
	DedupID      string    `json:"dedup_id,omitempty"`
	Deduplicated bool      `json:"deduplicated,omitempty"` // it had been sent before
	At           time.Time `json:"at"`
	Actor        string    `json:"actor,omitempty"`   // as who sent it calls themselves
	Address      string    `json:"address,omitempty"` // that it came from
	Fired        int       `json:"fired"`             // schedules that it fired, or whose turn it waits for
	Refused      int       `json:"refused"`           // schedules that it did not fire: their fires tell why
	FilteredOut  int       `json:"filtered_out"`      // schedules whose filter it did not pass
	GoesOn       bool      `json:"goes_on,omitempty"` // further schedules are being asked
}

// EventList is a page of events: of one name the newest first, else by name.
type EventList struct {
	Events     []Event `json:"events"`
	NextCursor string  `json:"next_cursor,omitempty"`
}

// SendEvent sends an event, which fires the schedules that wait for its name.
func (c *Client) SendEvent(ctx context.Context, name string, r SendEventRequest) (Event, error) {
	var out Event
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/events/" + url.PathEscape(name), body: r, again: r.DedupID != ""}, &out)
	return out, err
}

// Events returns a page of events; an empty name means all.
func (c *Client) Events(ctx context.Context, name string, limit int, cursor string) (EventList, error) {
	q := page(limit, cursor)
	if name != "" {
		q.Set("name", name)
	}
	var out EventList
	err := c.get(ctx, "/v1/events", q, &out)
	return out, err
}
