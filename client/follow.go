package client

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
)

const (
	maxEvent    = 8 << 20          // bytes of one event
	followQuiet = 45 * time.Second // without a byte, comments included, the stream counts as broken
)

// Follow passes the output of a task's current attempt to fn as it comes, from
// what is kept of it so far, and returns the task once the attempt has ended. A
// task without attempt is waited for; of one that has ended the kept output
// comes. The task may have another attempt after this one: see Ended.
//
// A broken stream is an error of code unknown_outcome; Follow doesn't repeat
// itself, since a second stream begins with output that the first one gave. fn
// must not block for long: what the reader is too slow for is skipped.
func (c *Client) Follow(ctx context.Context, id string, fn func(LogChunk)) (Task, error) {
	stream, cancel := context.WithCancel(ctx)
	defer cancel()
	r := request{method: http.MethodGet, path: taskPath(id) + "/logs", query: url.Values{"follow": {"true"}}}
	at := c.at.Load()
	base := c.base[int(at)%len(c.base)]
	quiet := time.AfterFunc(followQuiet, cancel)
	defer quiet.Stop()
	task, err := c.follow(stream, base, r, func() { quiet.Reset(followQuiet) }, fn)
	switch {
	case err == nil:
		return task, nil
	case ctx.Err() != nil:
		return task, ended(ctx, err)
	case err.retryable(true):
		c.leave(at)
	}
	return task, err
}

// follow reads one stream to its end; alive is called for every line.
func (c *Client) follow(ctx context.Context, base *url.URL, r request, alive func(), fn func(LogChunk)) (task Task, _ *Error) {
	resp, e := c.send(ctx, base, r, nil)
	if e != nil {
		return task, e
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return task, problemError(base.Host, resp)
	}
	var failed Problem
	err := readEvents(resp.Body, alive, func(ev event) error {
		switch ev.name {
		case "chunk":
			var chunk LogChunk
			if err := json.Unmarshal([]byte(ev.data), &chunk); err != nil {
				return err
			}
			fn(chunk)
		case "problem":
			return cmp.Or(json.Unmarshal([]byte(ev.data), &failed), errEnd)
		case "end":
			return cmp.Or(json.Unmarshal([]byte(ev.data), &task), errEnd)
		}
		return nil
	})
	switch {
	case failed.Code != "":
		return task, &Error{Problem: failed, Address: base.Host}
	case errors.Is(err, errEnd):
		return task, nil
	}
	return task, &Error{
		Problem: Problem{Code: job.CodeUnknownOutcome, Title: "stream broken", Detail: "the stream of output broke: " + err.Error()},
		Address: base.Host, cause: err,
	}
}

var errEnd = errors.New("end of stream")

// event is one server-sent event.
type event struct{ name, data string }

// readEvents reads server-sent events until fn or the stream fails; a stream
// that ends is io.ErrUnexpectedEOF. alive is called for every line.
func readEvents(r io.Reader, alive func(), fn func(event) error) error {
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), maxEvent)
	var ev event
	var data []string
	for sc.Scan() {
		alive()
		line := strings.TrimSuffix(sc.Text(), "\r")
		if line == "" {
			if ev.name != "" || len(data) > 0 {
				ev.data = strings.Join(data, "\n")
				if err := fn(ev); err != nil {
					return err
				}
			}
			ev, data = event{}, nil
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "event":
			ev.name = value
		case "data":
			data = append(data, value)
		}
	}
	if err := sc.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
