package client

import (
	"context"
	"net/http"
	"net/url"
)

// Callbacks returns a page of callbacks by task; state is owed, delivered, dead, or
// empty for all.
func (c *Client) Callbacks(ctx context.Context, state string, limit int, cursor string) (CallbackList, error) {
	q := page(limit, cursor)
	if state != "" {
		q.Set("state", state)
	}
	var out CallbackList
	err := c.get(ctx, "/v1/callbacks", q, &out)
	return out, err
}

// Callback returns one callback.
func (c *Client) Callback(ctx context.Context, id string) (Callback, error) {
	var out Callback
	err := c.get(ctx, callbackPath(id), nil, &out)
	return out, err
}

// Redeliver has a callback sent once more under the same id.
func (c *Client) Redeliver(ctx context.Context, id string) (Callback, error) {
	var out Callback
	err := c.call(ctx, request{
		method: http.MethodPost, path: callbackPath(id) + "/redeliver", body: struct{}{},
	}, &out)
	return out, err
}

func callbackPath(id string) string { return "/v1/callbacks/" + url.PathEscape(id) }
