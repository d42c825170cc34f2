package client

import (
	"bufio"
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

// Follow passes a running attempt's output to fn as it comes and returns nil
// once the server says that the attempt ended. A broken stream is an error of
// code unknown_outcome; following again may repeat output. fn must not block
// for long: what the reader is too slow for is skipped, and says so in Skipped.
func (c *Client) Follow(ctx context.Context, id string, fn func(LogChunk)) error {
	stream, cancel := context.WithCancel(ctx)
	defer cancel()
	r := request{method: http.MethodGet, path: taskPath(id) + "/logs", query: url.Values{"follow": {"true"}}}
	at := c.at.Load()
	base := c.base[int(at)%len(c.base)]
	resp, e := c.send(stream, base, r, nil)
	if e != nil {
		if ctx.Err() != nil {
			return ended(ctx, e)
		}
		c.at.CompareAndSwap(at, (at+1)%uint32(len(c.base))) //nolint:gosec // at most 32
		return e
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return problemError(base.Host, resp)
	}
	quiet := time.AfterFunc(followQuiet, cancel)
	defer quiet.Stop()
	err := readEvents(resp.Body, func() { quiet.Reset(followQuiet) }, func(ev event) error {
		switch ev.name {
		case "chunk":
			var chunk LogChunk
			if err := json.Unmarshal([]byte(ev.data), &chunk); err != nil {
				return err
			}
			fn(chunk)
		case "end":
			return errEnd
		}
		return nil
	})
	switch {
	case errors.Is(err, errEnd):
		return nil
	case ctx.Err() != nil:
		return ended(ctx, nil)
	}
	return &Error{
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
