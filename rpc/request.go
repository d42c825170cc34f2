package rpc

import (
	"context"
	"errors"
	"fmt"
)

// The codes that this package answers by itself; they are job's.
const (
	codeConflict    = "conflict"
	codeForbidden   = "forbidden"
	codeInternal    = "internal"
	codeInvalid     = "invalid"
	codeOverloaded  = "overloaded"
	codeTimeout     = "timeout"
	codeTooLarge    = "too_large"
	codeUnsupported = "unsupported"
)

// Error is an error that the peer answered; Code is one of job's codes.
type Error struct {
	Code   string `msgpack:"c"`
	Text   string `msgpack:"t"`
	Field  string `msgpack:"f,omitempty"`
	Value  string `msgpack:"v,omitempty"`
	Leader string `msgpack:"l,omitempty"` // with no_leader: the address to dial, if known
}

func (e *Error) Error() string { return e.Text }

// Request is one call, notification or stream as the handler sees it.
type Request struct {
	Method string
	Conn   *Conn
	body   []byte
	send   func(any) error
}

// Decode reads the request's message. A message that doesn't fit is an *Error
// of code "invalid".
func (r *Request) Decode(into any) error {
	if err := decodeBody(r.body, into); err != nil {
		return &Error{Code: codeInvalid, Text: fmt.Sprintf("the message of %s is malformed: %v", r.Method, err), Field: r.Method}
	}
	return nil
}

// Send writes one chunk of a stream, of at most MaxChunk bytes; it waits while
// the caller has StreamWindow chunks to read, and fails once the caller is gone.
func (r *Request) Send(chunk any) error {
	if r.send == nil {
		return fmt.Errorf("rpc: %s is not a stream", r.Method)
	}
	return r.send(chunk)
}

// answer is what a handler's error looks like on the wire.
func (o *options) answer(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if e = o.encodeError(err); e != nil {
		return e
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return &Error{Code: codeTimeout, Text: err.Error()}
	}
	return &Error{Code: codeInternal, Text: err.Error()}
}
