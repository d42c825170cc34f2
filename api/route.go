package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/axd-project/axd/job"
)

// route is one endpoint: how it is served and what the OpenAPI document says.
type route struct {
	method, path string
	summary      string
	handle       func(*api, *request) error
	query        []string // parameters besides namespace and consistency
	body         any      // the shape of the request, a struct; nil: none
	bodyOptional bool
	limit        int64 // bytes of the body; default maxBody
	statuses     []int // of success
	answer       any   // the shape of the answer, a struct; nil: none, or media
	media        string
	probe        bool   // served without limits, so that an overloaded server still answers
	stream       bool   // with follow=true: a stream of events without a time limit
	long         bool   // as long as bytes move; the handler reads the body itself
	bodyMedia    string // of a body that the handler reads itself
	submits      bool   // it only makes tasks: who sent it is not recorded
}

// request is a request that passed the checks every route shares.
type request struct {
	echo.Context
	query
	ctx    context.Context //nolint:containedctx // a request is its context's scope
	body   []byte
	follow bool
}

// name returns a path parameter as it was before it was escaped.
func (r *request) name(param string) string {
	s := r.Param(param)
	if r.Request().URL.RawPath == "" {
		return s
	}
	plain, err := url.PathUnescape(s)
	if err != nil {
		return s // the server refuses such a URL before it gets here
	}
	return plain
}

// handler wraps a route with the checks and limits that all share.
func (a *api) handler(r route) echo.HandlerFunc {
	if r.limit == 0 {
		r.limit = maxBody
	}
	return func(c echo.Context) error {
		c.Set(routeKey, r.path)
		q, err := parseQuery(c.Request().URL.RawQuery, r.method == http.MethodGet, r.query)
		if err != nil {
			return err
		}
		req := &request{Context: c, query: q, ctx: c.Request().Context()}
		if r.method != http.MethodGet && !r.submits {
			if req.ctx, err = withSender(req.ctx, c.Request()); err != nil {
				return err
			}
		}
		if r.probe {
			ctx, cancel := context.WithTimeout(req.ctx, probeTime)
			defer cancel()
			req.ctx = ctx
			return r.handle(a, req)
		}
		if r.stream {
			if req.follow, err = q.boolean("follow"); err != nil {
				return err
			}
		}
		if r.long {
			return a.unbounded(r, req)
		}
		return a.bounded(r, req)
	}
}

// unbounded serves what takes as long as its bytes do; the number is bounded as
// that of streams.
func (a *api) unbounded(r route, req *request) error {
	if !a.streams.TryAcquire(1) {
		return &job.Error{Code: job.CodeOverloaded, Rule: "this server already serves as many streams as it may"}
	}
	defer a.streams.Release(1)
	control := http.NewResponseController(req.Response().Writer)
	defer func() { // the connection may serve another request; one that knows no deadlines is a test's
		_ = control.SetReadDeadline(time.Time{})
		_ = control.SetWriteDeadline(time.Time{})
	}()
	return r.handle(a, req)
}

// bounded serves a request within the limits on number, bytes and time.
func (a *api) bounded(r route, req *request) error {
	slots := a.requests
	if req.follow {
		slots = a.streams
	}
	if !slots.TryAcquire(1) {
		return &job.Error{Code: job.CodeOverloaded, Rule: "this server already serves as many requests as it may"}
	}
	defer slots.Release(1)
	if !req.follow {
		ctx, cancel := context.WithTimeout(req.ctx, requestTime)
		defer cancel()
		req.ctx = ctx
	}
	if r.body == nil {
		return r.handle(a, req)
	}
	size := req.Request().ContentLength
	switch {
	case size > r.limit:
		return tooLarge("body", "must be at most "+strconv.FormatInt(r.limit, 10)+" bytes", strconv.FormatInt(size, 10))
	case size < 0:
		size = r.limit // unknown: what it may become
	}
	if !a.bodies.TryAcquire(size) {
		return &job.Error{Code: job.CodeOverloaded, Rule: "this server already handles as many bytes of requests as it may"}
	}
	defer a.bodies.Release(size)
	var err error
	if req.body, err = readBody(req.Context, r.limit); err != nil {
		return err
	}
	if len(req.body) == 0 && r.bodyOptional {
		req.body = []byte("{}")
	}
	return r.handle(a, req)
}

// readBody reads at most limit bytes within requestTime.
func readBody(c echo.Context, limit int64) ([]byte, error) {
	control := http.NewResponseController(c.Response().Writer)
	// A connection that knows no deadlines is a test's.
	_ = control.SetReadDeadline(time.Now().Add(requestTime))
	var buf bytes.Buffer
	_, err := io.Copy(&buf, http.MaxBytesReader(c.Response().Writer, c.Request().Body, limit))
	var large *http.MaxBytesError
	switch {
	case err == nil:
		_ = control.SetReadDeadline(time.Time{})
		return buf.Bytes(), nil
	case errors.As(err, &large):
		return nil, tooLarge("body", "must be at most "+strconv.FormatInt(limit, 10)+" bytes", "more")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, httpErrorf(http.StatusRequestTimeout, job.CodeTimeout, "body", "must arrive within "+requestTime.String(), "")
	default:
		return nil, job.Invalid("body", "must be complete: "+err.Error(), "")
	}
}

// write answers with JSON.
func write(c echo.Context, status int, v any) error {
	return writeAs(c, status, "application/json", v)
}

func writeAs(c echo.Context, status int, media string, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	return c.Blob(status, media, body)
}

// encode writes JSON without escaping < and >, since it is never read as HTML.
func encode(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return buf.Bytes(), err
}
