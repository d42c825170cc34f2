package job

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Code is the stable name of a kind of error: the same in the state machine's
// results, in RPC answers and in the API's problem documents.
type Code string

// The codes. They are part of the API: append, never rename.
const (
	CodeInvalid             Code = "invalid"              // the input breaks a rule; the field says which
	CodeNotFound            Code = "not_found"            // no such object
	CodeConflict            Code = "conflict"             // the object's state forbids it
	CodeIdempotencyMismatch Code = "idempotency_mismatch" // same key, other body
	CodeTooLarge            Code = "too_large"            // over a size limit
	CodeQuotaExceeded       Code = "quota_exceeded"       // over a count limit: retry later
	CodeStale               Code = "stale"                // the term, version or token has moved on
	CodeNoLeader            Code = "no_leader"            // not committed: no leader or no quorum
	CodeOverloaded          Code = "overloaded"           // not accepted: a bounded queue is full
	CodeUnknownOutcome      Code = "unknown_outcome"      // may or may not have been committed
	CodeDiskFull            Code = "disk_full"            // refused: free disk below the floor
	CodeTimeout             Code = "timeout"              // the caller's deadline passed
	CodeForbidden           Code = "forbidden"            // not allowed from here
	CodeUnsupported         Code = "unsupported"          // this build or host can't do it
	CodeInternal            Code = "internal"             // a bug of axd
)

// Error is an error that a user can act on: it names the field, the rule and
// the value. It is data, so a replicated command may return it.
type Error struct {
	Code  Code   `msgpack:"c" json:"code"`
	Field string `msgpack:"f,omitempty" json:"field,omitempty"` // path of the field at fault, such as "tasks[3].delay"
	Rule  string `msgpack:"r,omitempty" json:"rule,omitempty"`  // what must hold, a phrase: "must be at most 20"
	Value string `msgpack:"v,omitempty" json:"value,omitempty"` // the offending value, shortened
}

// Error renders "field: rule (got value)".
func (e *Error) Error() string {
	var b strings.Builder
	if e.Field != "" {
		b.WriteString(e.Field + ": ")
	}
	if e.Rule == "" {
		b.WriteString(string(e.Code))
	} else {
		b.WriteString(e.Rule)
	}
	if e.Value != "" {
		b.WriteString(" (got " + e.Value + ")")
	}
	return b.String()
}

// Is makes errors.Is match on the code alone, so callers write
// errors.Is(err, job.ErrNotFound).
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code && t.Field == "" && t.Rule == ""
}

// Sentinels to compare with errors.Is: each matches every Error of its code.
var (
	ErrInvalid             = &Error{Code: CodeInvalid}
	ErrNotFound            = &Error{Code: CodeNotFound}
	ErrConflict            = &Error{Code: CodeConflict}
	ErrIdempotencyMismatch = &Error{Code: CodeIdempotencyMismatch}
	ErrTooLarge            = &Error{Code: CodeTooLarge}
	ErrQuotaExceeded       = &Error{Code: CodeQuotaExceeded}
	ErrNoLeader            = &Error{Code: CodeNoLeader}
	ErrOverloaded          = &Error{Code: CodeOverloaded}
	ErrUnknownOutcome      = &Error{Code: CodeUnknownOutcome}
	ErrTimeout             = &Error{Code: CodeTimeout}
)

// Errorf builds an Error without a field: code and a rule in words.
func Errorf(code Code, rule string) *Error { return &Error{Code: code, Rule: rule} }

// Invalid builds the error for a field that breaks a rule. The value is
// shortened and quoted, so that any bytes may be passed.
func Invalid(field, rule, value string) *Error {
	return &Error{Code: CodeInvalid, Field: field, Rule: rule, Value: Shorten(value)}
}

// NotFound builds the error for an object that does not exist.
func NotFound(kind, name string) *Error {
	return &Error{Code: CodeNotFound, Field: kind, Rule: "does not exist", Value: Shorten(name)}
}

// Conflict builds the error for an object whose state forbids the request.
func Conflict(field, rule, value string) *Error {
	return &Error{Code: CodeConflict, Field: field, Rule: rule, Value: Shorten(value)}
}

// AsError returns err as an *Error; an error of another kind becomes an
// internal one that carries its text.
func AsError(err error) *Error {
	if err == nil {
		return nil
	}
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Rule: err.Error()}
}

// At returns the error with its field set below a parent path:
// At("tasks[3]") turns "delay" into "tasks[3].delay".
func (e *Error) At(parent string) *Error {
	c := *e
	switch {
	case c.Field == "":
		c.Field = parent
	case strings.HasPrefix(c.Field, "["):
		c.Field = parent + c.Field
	default:
		c.Field = parent + "." + c.Field
	}
	return &c
}

const shortenedLen = 64 // bytes of a value that an error repeats

// Shorten quotes a value for an error message and cuts it at 64 bytes, never
// inside a UTF-8 sequence. An empty value stays empty.
func Shorten(s string) string {
	if s == "" {
		return ""
	}
	cut := s
	if len(cut) > shortenedLen {
		cut = cut[:shortenedLen]
		for len(cut) > 0 && !utf8.ValidString(cut) && len(cut) > shortenedLen-utf8.UTFMax {
			cut = cut[:len(cut)-1]
		}
		return strconv.Quote(cut) + "…"
	}
	return strconv.Quote(cut)
}
