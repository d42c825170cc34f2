package client

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/axd-project/axd/job"
)

// DoneRequest records that a side effect of a task is done.
type DoneRequest struct {
	Token string `json:"fencing_token"`   // of the attempt
	Value string `json:"value,omitempty"` // kept with it, at most 1 KiB
}

// Done is a side effect of a task that an attempt has recorded as done.
type Done struct {
	Name    string    `json:"name"`
	Value   string    `json:"value,omitempty"`
	At      time.Time `json:"at"`
	Attempt int       `json:"attempt"`
}

// Done asks whether an attempt of a task has recorded under a name that something is
// done. With a fencing token an attempt that is no longer valid is refused.
func (c *Client) Done(ctx context.Context, id, name, token string) (d Done, done bool, err error) {
	q := url.Values{}
	if token != "" {
		q.Set("fencing_token", token)
	}
	err = c.get(ctx, donePath(id, name), q, &d)
	if e := new(Error); errors.As(err, &e) && e.Code == job.CodeNotFound && e.Field == "name" {
		return Done{}, false, nil
	}
	return d, err == nil, err
}

// RecordDone records for an attempt that something is done. The first record of a name
// stands and is answered.
func (c *Client) RecordDone(ctx context.Context, id, name string, r DoneRequest) (Done, error) {
	var out Done
	err := c.call(ctx, request{method: http.MethodPut, path: donePath(id, name), body: r, again: true}, &out)
	return out, err
}

func donePath(id, name string) string { return taskPath(id) + "/done/" + url.PathEscape(name) }
