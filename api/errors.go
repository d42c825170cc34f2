package api

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// answer is what a kind of error looks like over HTTP.
type answer struct {
	status     int
	title      string
	retryAfter int // seconds; 0: a repetition doesn't help
}

// answers is the one place where kinds of error become statuses. Each job.Code
// is in it.
var answers = map[job.Code]answer{
	job.CodeInvalid:             {http.StatusBadRequest, "Invalid request", 0},
	job.CodeForbidden:           {http.StatusForbidden, "Not allowed", 0},
	job.CodeNotFound:            {http.StatusNotFound, "Not found", 0},
	job.CodeConflict:            {http.StatusConflict, "Conflict", 0},
	job.CodeIdempotencyMismatch: {http.StatusConflict, "Idempotency key used with another body", 0},
	job.CodeStale:               {http.StatusConflict, "Changed meanwhile", 0},
	job.CodeTooLarge:            {http.StatusRequestEntityTooLarge, "Too large", 0},
	job.CodeUnsupported:         {http.StatusUnprocessableEntity, "Not supported here", 0},
	job.CodeQuotaExceeded:       {http.StatusTooManyRequests, "Quota exceeded", 10},
	job.CodeOverloaded:          {http.StatusTooManyRequests, "Overloaded", 1},
	job.CodeInternal:            {http.StatusInternalServerError, "Internal error", 0},
	job.CodeNoLeader:            {http.StatusServiceUnavailable, "No leader", 1},
	job.CodeUnknownOutcome:      {http.StatusServiceUnavailable, "Unknown outcome", 1},
	job.CodeDiskFull:            {http.StatusServiceUnavailable, "Disk full", 60},
	job.CodeTimeout:             {http.StatusGatewayTimeout, "Time-out", 0},
}

// unknownOutcomeAdvice follows the reason of every unknown_outcome.
const unknownOutcomeAdvice = "; the request may or may not have been carried out: repeat it, a submit with the same idempotency_key, " +
	"which then creates one task in all"

// httpError is an error of the protocol rather than of axd: its status isn't
// the one of its code.
type httpError struct {
	status int
	cause  *job.Error
}

func (e *httpError) Error() string { return e.cause.Error() }
func (e *httpError) Unwrap() error { return e.cause }

func httpErrorf(status int, code job.Code, field, rule, value string) *httpError {
	return &httpError{status, &job.Error{Code: code, Field: field, Rule: rule, Value: job.Shorten(value)}}
}

// problemOf describes an error for the caller. What only this server's log
// should know (the text of an unexpected error) is left out.
func problemOf(err error) client.Problem {
	e := asError(err)
	a, known := answers[e.Code]
	if !known {
		e = &job.Error{Code: job.CodeInternal}
		a = answers[e.Code]
	}
	p := client.Problem{
		Type: "urn:axd:problem:" + string(e.Code), Title: a.title, Status: a.status,
		Detail: e.Error(), Code: e.Code, Field: e.Field, RetryAfter: a.retryAfter,
	}
	var h *httpError
	if errors.As(err, &h) && h.status != a.status {
		p.Status, p.Title = h.status, http.StatusText(h.status)
	}
	switch {
	case e.Code == job.CodeInternal:
		p.Detail, p.Field = "axd failed in a way it should not; the server's log tells more", ""
	case e.Code == job.CodeUnknownOutcome:
		p.Detail += unknownOutcomeAdvice
	}
	if p.Field != "" {
		p.Errors = []client.ProblemField{{Field: e.Field, Rule: e.Rule, Value: e.Value}}
	}
	return p
}

// asError turns any error into one of ours.
func asError(err error) *job.Error {
	var e *job.Error
	var he *echo.HTTPError
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return &job.Error{Code: job.CodeTimeout, Rule: "the answer was not ready within " + requestTime.String()}
	case errors.As(err, &he):
		return routerError(he).cause
	}
	return &job.Error{Code: job.CodeInternal, Rule: err.Error()}
}

// routerError describes a request that no route takes.
func routerError(e *echo.HTTPError) *httpError {
	switch e.Code {
	case http.StatusNotFound:
		return httpErrorf(e.Code, job.CodeNotFound, "", "no such path; GET /v1/openapi.json lists what there is", "")
	case http.StatusMethodNotAllowed:
		return httpErrorf(e.Code, job.CodeInvalid, "", "this path doesn't take this method; the Allow header names those it takes", "")
	}
	return httpErrorf(http.StatusInternalServerError, job.CodeInternal, "", e.Error(), "")
}

// fail writes an error as a problem document: echo's error handler.
func (a *api) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	var he *echo.HTTPError
	if errors.As(err, &he) {
		err = routerError(he)
	}
	p := problemOf(err)
	if p.Code == job.CodeInternal {
		a.log.Error("request failed", "method", c.Request().Method, "path", c.Request().URL.Path, "error", err)
	}
	if p.RetryAfter > 0 {
		c.Response().Header().Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	if err := writeAs(c, p.Status, "application/problem+json", p); err != nil {
		a.log.Debug("answer not written", "error", err)
	}
}
