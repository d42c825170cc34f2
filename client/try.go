package client

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"

	"github.com/axd-project/axd/job"
)

// send makes one request to one server. The caller closes the answer's body.
func (c *Client) send(ctx context.Context, base *url.URL, r request, body []byte) (*http.Response, *Error) {
	if body == nil {
		return c.sendBody(ctx, base, r, nil, 0)
	}
	return c.sendBody(ctx, base, r, bytes.NewReader(body), int64(len(body)))
}

// sendBody is send with a body of size bytes; nil: none.
func (c *Client) sendBody(ctx context.Context, base *url.URL, r request, body io.Reader, size int64) (*http.Response, *Error) {
	u := base.String() + r.path
	q := c.query(r.query)
	if c.cfg.Stale && r.method == http.MethodGet {
		q.Set("consistency", "stale")
	}
	u += "?" + q.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, u, body)
	if err != nil {
		return nil, transportError(base.Host, err)
	}
	req.ContentLength = size
	if r.method != http.MethodGet {
		// Writes without it are refused: it keeps a browser's plain forms out.
		req.Header.Set("Content-Type", cmp.Or(r.media, "application/json"))
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	if c.cfg.Actor != "" && r.method != http.MethodGet {
		req.Header.Set(ActorHeader, c.cfg.Actor)
	}
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, transportError(base.Host, err)
	}
	c.heed(resp.Header.Get(LeaderHeader))
	return resp, nil
}

// try makes one request to one server and decodes its answer.
func (c *Client) try(ctx context.Context, base *url.URL, r request, body []byte, out any) *Error {
	limit := r.limit
	if limit == 0 {
		limit = callTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	resp, e := c.send(ctx, base, r, body)
	if e != nil {
		return e
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return problemError(base.Host, resp)
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxAnswer))
		return nil
	}
	return decodeAnswer(base.Host, resp, out)
}

func decodeAnswer(address string, resp *http.Response, out any) *Error {
	if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(out); err != nil {
		// The status said yes, but the answer is cut: whatever it was is done,
		// the caller just doesn't know its result.
		return &Error{
			Problem: Problem{Code: job.CodeUnknownOutcome, Title: "unreadable answer", Status: resp.StatusCode, Detail: err.Error()},
			Address: address, cause: err,
		}
	}
	return nil
}

// transportError tells apart what never reached a server and what may have.
func transportError(address string, err error) *Error {
	e := &Error{Address: address, cause: err}
	var op *net.OpError
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns), errors.As(err, &op) && op.Op == "dial", errors.Is(err, syscall.ECONNREFUSED):
		e.Problem = Problem{Code: job.CodeNoLeader, Title: "unreachable", Detail: reason(err)}
	default:
		e.Problem = Problem{Code: job.CodeUnknownOutcome, Title: "no answer", Detail: reason(err)}
	}
	return e
}

// reason drops the URL that *url.Error repeats.
func reason(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "the server did not answer in time"
	}
	return err.Error()
}

// problemError reads an answer that isn't 2xx.
func problemError(address string, resp *http.Response) *Error {
	e := &Error{Address: address}
	data, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if !strings.Contains(resp.Header.Get("Content-Type"), "json") || json.Unmarshal(data, &e.Problem) != nil || e.Code == "" {
		// Not one of ours: a proxy in between, or something else on this port.
		e.Problem = Problem{
			Title:  http.StatusText(resp.StatusCode),
			Detail: fmt.Sprintf("HTTP status %d without an axd problem document; is an axd server at %s?", resp.StatusCode, address),
			Code:   codeOf(resp.StatusCode),
		}
	}
	e.Status = resp.StatusCode
	if s := resp.Header.Get("Retry-After"); s != "" {
		if n, err := strconv.Atoi(s); err == nil && n >= 0 {
			e.RetryAfter = n
		}
	}
	return e
}

func codeOf(status int) job.Code {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusUnsupportedMediaType:
		return job.CodeInvalid
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return job.CodeNotFound
	case http.StatusConflict:
		return job.CodeConflict
	case http.StatusRequestEntityTooLarge:
		return job.CodeTooLarge
	case http.StatusUnauthorized, http.StatusForbidden:
		return job.CodeForbidden
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return job.CodeOverloaded
	case http.StatusBadGateway, http.StatusGatewayTimeout:
		return job.CodeUnknownOutcome
	}
	return job.CodeInternal
}
