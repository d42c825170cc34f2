package job

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/vmihailenco/msgpack/v5"
)

// NonRetryable names the failures that no further attempt follows, since it would
// fail alike.
type NonRetryable struct {
	ExitCodes    []int        `msgpack:"x,omitempty" json:"exit_codes,omitempty"`    // of exec
	HTTPStatuses []HTTPStatus `msgpack:"h,omitempty" json:"http_statuses,omitempty"` // of http
	Errors       []string     `msgpack:"e,omitempty" json:"errors,omitempty"`        // error classes, see ErrorClass
}

// HTTPStatus is one status, 100 to 599, or with 1 to 5 all that begin with that
// digit. JSON and YAML write "404" and "4xx", and read a number too.
type HTTPStatus uint16

const statusRule = `must be an HTTP status, 100 to 599, or all that begin with a digit, such as "4xx"`

// String gives the form that UnmarshalText reads.
func (s HTTPStatus) String() string {
	if s < minStatus {
		return strconv.Itoa(int(s)) + "xx"
	}
	return strconv.Itoa(int(s))
}

// MarshalText implements encoding.TextMarshaler.
func (s HTTPStatus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *HTTPStatus) UnmarshalText(b []byte) error {
	if len(b) == len("4xx") && b[0] >= '1' && b[0] <= '5' && string(b[1:]) == "xx" {
		*s = HTTPStatus(b[0] - '0')
		return nil
	}
	n, err := strconv.ParseUint(string(b), 10, 16)
	if err != nil || n < minStatus || n > maxStatus {
		return Invalid("", statusRule, string(b))
	}
	*s = HTTPStatus(n)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler: a string, or a number.
func (s *HTTPStatus) UnmarshalJSON(b []byte) error { return unmarshalWord(b, s.UnmarshalText) }

// EncodeMsgpack implements msgpack.CustomEncoder: a number.
func (s HTTPStatus) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeUint(uint64(s)) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (s *HTTPStatus) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeUint16()
	*s = HTTPStatus(n)
	return err
}

// The error classes that axd itself gives; a handler names others.
const (
	ClassTimeout = "timeout" // the attempt ran into its time-out
	ClassLost    = "lost"    // its worker was lost
	ClassPanic   = "panic"   // a handler panicked
	ClassNetwork = "network" // an http request got no answer
	ClassStart   = "start"   // a command could not be started
)

// The limits of a filter.
const (
	MaxErrorClass = 63 // bytes
	maxClasses    = 64
)

const classRule = "must be 1 to 63 of A-Z a-z 0-9 . _ - and begin with a letter or digit"

// ValidErrorClass reports whether s can be an error class.
func ValidErrorClass(s string) bool { return len(s) <= MaxErrorClass && isNameLike(s, "._-") }

// ErrorClass is the class of a failure: of a time-out or a loss the one of that
// name, else what the worker said.
func ErrorClass(o Outcome, said string) string {
	switch o {
	case OutcomeTimeout:
		return ClassTimeout
	case OutcomeLost:
		return ClassLost
	}
	return said
}

// Matches reports whether no attempt is to follow a failure. code is the exit code
// or the HTTP status, by the kind of executor; nil: there is none.
func (n *NonRetryable) Matches(kind string, code *int, class string) bool {
	if n == nil {
		return false
	}
	if class != "" && slices.Contains(n.Errors, class) {
		return true
	}
	if code == nil {
		return false
	}
	switch kind {
	case KindExec:
		return slices.Contains(n.ExitCodes, *code)
	case KindHTTP:
		return slices.ContainsFunc(n.HTTPStatuses, func(s HTTPStatus) bool {
			return int(s) == *code || s < minStatus && int(s) == *code/100
		})
	}
	return false
}

func (n *NonRetryable) validate() *Error {
	const field = "retry.non_retryable."
	if e := validateCodesOf(field+"exit_codes", n.ExitCodes, 0, maxExitCode, "must be an exit code, 0 to 255"); e != nil {
		return e
	}
	if len(n.HTTPStatuses) > maxStatus {
		return invalidNumber(field+"http_statuses", "must not repeat statuses", len(n.HTTPStatuses))
	}
	for i, s := range n.HTTPStatuses {
		if (s < 1 || s > 5) && (s < minStatus || s > maxStatus) {
			return invalidNumber(fmt.Sprintf("%shttp_statuses[%d]", field, i), statusRule, int(s))
		}
	}
	if len(n.Errors) > maxClasses {
		return invalidNumber(field+"errors", fmt.Sprintf("must be at most %d", maxClasses), len(n.Errors))
	}
	for i, s := range n.Errors {
		if !ValidErrorClass(s) {
			return Invalid(fmt.Sprintf("%serrors[%d]", field, i), classRule, s)
		}
	}
	return nil
}

// validateFor checks the filter against the kind of executor.
func (n *NonRetryable) validateFor(kind string) *Error {
	if len(n.ExitCodes) > 0 && kind != KindExec {
		return invalidNumber("retry.non_retryable.exit_codes", "must be empty for "+kind+": only a command has an exit code", n.ExitCodes[0])
	}
	if len(n.HTTPStatuses) > 0 && kind != KindHTTP {
		return Invalid("retry.non_retryable.http_statuses", "must be empty for "+kind+": only an http request has a status", n.HTTPStatuses[0].String())
	}
	return nil
}
