package client

import (
	"errors"
	"strings"
	"time"

	"github.com/axd-project/axd/job"
)

// Error is a refusal by the cluster, or the lack of an answer: then Code is
// no_leader where the request surely wasn't executed (no server could be
// reached) and unknown_outcome where it may have been.
//
// errors.Is finds the sentinels of package job: errors.Is(err, job.ErrNotFound).
type Error struct {
	Problem
	Address string // the server that answered, or was tried last
	cause   error  // of the transport
}

// Error says what is wrong; the server's address is added where it matters.
func (e *Error) Error() string {
	if e.cause != nil && e.Address != "" {
		return e.Address + ": " + e.text()
	}
	return e.text()
}

func (e *Error) text() string {
	s := e.Detail
	if s == "" {
		s = e.Title
	}
	if s == "" {
		s = string(e.Code)
	}
	if len(e.Errors) < 2 {
		return s
	}
	lines := []string{s}
	for _, f := range e.Errors {
		lines = append(lines, "  "+(&job.Error{Field: f.Field, Rule: f.Rule, Value: f.Value}).Error())
	}
	return strings.Join(lines, "\n")
}

// Is matches the sentinels of package job by code.
func (e *Error) Is(target error) bool {
	return (&job.Error{Code: e.Code}).Is(target)
}

// Unwrap returns the transport's error, if that was the reason.
func (e *Error) Unwrap() error { return e.cause }

// retryable tells whether a repetition may help and does no harm. again says
// that executing the call twice changes nothing.
func (e *Error) retryable(again bool) bool {
	switch e.Code {
	case job.CodeNoLeader, job.CodeOverloaded:
		return true
	case job.CodeUnknownOutcome, job.CodeTimeout:
		return again
	}
	return false
}

func (e *Error) retryAfter() time.Duration { return time.Duration(e.RetryAfter) * time.Second }

// IsCode reports whether err is, or wraps, an error of the given code: from
// the cluster or from the client's own checks.
func IsCode(err error, code job.Code) bool {
	var e *Error
	if errors.As(err, &e) {
		return e.Code == code
	}
	var j *job.Error
	return errors.As(err, &j) && j.Code == code
}
