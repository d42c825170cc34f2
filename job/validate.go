package job

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Limits of texts and times, besides those in spec.go.
const (
	MaxOwner             = 128  // bytes of app, and of owner
	MaxDescription       = 4096 // bytes
	MaxLabelKey          = 63   // bytes
	MaxLabelValue        = 253  // bytes
	MaxGrace             = Duration(time.Hour)
	MinHeartbeatTimeout  = Duration(time.Second)
	MaxIdempotencyWindow = Duration(30 * day)
)

const (
	nameRule = "must be 1 to 253 of A-Z a-z 0-9 . _ - and begin with a letter or digit"
	keyRule  = "must be 1 to 63 of A-Z a-z 0-9 . _ - / and begin with a letter or digit"
)

// ValidateName checks a name: [A-Za-z0-9][A-Za-z0-9._-]{0,252}. field is what
// the error calls it.
func ValidateName(field, name string) *Error {
	if len(name) > MaxName || !isNameLike(name, "._-") {
		return Invalid(field, nameRule, name)
	}
	return nil
}

// ValidateNamespace checks a namespace, which has the grammar of a name.
func ValidateNamespace(name string) *Error { return ValidateName("namespace", name) }

// ValidateLabels checks labels or a selector: at most MaxLabels, keys that are
// names which may hold "/", values of printable text without comma, since lists
// of labels are written with commas.
func ValidateLabels(field string, labels map[string]string) *Error {
	if len(labels) > MaxLabels {
		return invalidNumber(field, fmt.Sprintf("must be at most %d labels", MaxLabels), len(labels))
	}
	if len(labels) == 0 {
		return nil // the usual case, and checked by every apply
	}
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if len(key) > MaxLabelKey || !isNameLike(key, "._-/") {
			return Invalid(field, "each key "+keyRule, key)
		}
		v := labels[key]
		if len(v) > MaxLabelValue || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) ||
			strings.Contains(v, ",") || strings.TrimSpace(v) != v {
			return Invalid(at(field, key), "must be at most 253 bytes of printable UTF-8 without comma or outer spaces", v)
		}
	}
	return nil
}

// Validate checks a job's definition: what it says can be right, whatever the
// worker. Fields are named by their JSON path.
func (s Spec) Validate() *Error {
	if e := validateText("description", s.Description, MaxDescription, "\n\t"); e != nil {
		return e
	}
	if e := s.Executor.Validate(""); e != nil {
		return e
	}
	if e := s.Policy.Validate(); e != nil {
		return e
	}
	return s.Policy.ValidateFor(s.Kind())
}

// Validate checks a request for a task. What depends on its job is not known
// here: once the job is found, check the merged policy with ValidateFor. Of the
// payload it checks the size alone: who takes one from outside makes sure that it
// is JSON, as a part of a JSON document is anyway.
func (t TaskSpec) Validate() *Error {
	kind := t.Kind()
	if t.Job != "" {
		if kind != "" {
			return &Error{Code: CodeInvalid, Field: kind, Rule: "must not be given beside job"}
		}
		if e := ValidateName("job", t.Job); e != nil {
			return e
		}
	} else {
		if kind == "" {
			return &Error{Code: CodeInvalid, Field: "job", Rule: "exactly one of job, exec, http and handler must be given"}
		}
		if e := t.Executor.Validate(""); e != nil {
			return e
		}
	}
	if e := t.Policy.Validate(); e != nil {
		return e
	}
	if t.Job == "" {
		if e := t.Policy.ValidateFor(kind); e != nil {
			return e
		}
		if e := t.Policy.limitsNamed(); e != nil {
			return e
		}
	}
	if len(t.Payload) > MaxPayload {
		return tooLarge("payload", MaxPayload, len(t.Payload))
	}
	if e := t.validateTimes(); e != nil {
		return e
	}
	return t.validateKeys()
}

func (t TaskSpec) validateTimes() *Error {
	switch {
	case t.Due < 0 || t.Due > MaxTime:
		return invalidNumber("execute_time", "must be a time between the years 1970 and 9999 in UTC", t.Due)
	case t.Delay < 0:
		return Invalid("delay", "must not be negative", t.Delay.String())
	case t.Due != 0 && t.Delay != 0:
		return Invalid("delay", "must not be given beside execute_time", t.Delay.String())
	case t.IdempotencyWindow < 0 || t.IdempotencyWindow > MaxIdempotencyWindow:
		return Invalid("idempotency_window", "must be 0 to 30d", t.IdempotencyWindow.String())
	}
	return nil
}

// Validate checks what can be checked without knowing the executor.
func (p Policy) Validate() *Error {
	if e := validateText("app", p.App, MaxOwner, ""); e != nil {
		return e
	}
	if e := validateText("owner", p.Owner, MaxOwner, ""); e != nil {
		return e
	}
	if p.Priority > Low {
		return invalidNumber("priority", "must be high, normal or low", p.Priority)
	}
	if e := p.validateTimeouts(); e != nil {
		return e
	}
	if p.Grace != nil && (*p.Grace < 0 || *p.Grace > MaxGrace) {
		return Invalid("grace", "must be 0 to 1h", p.Grace.String())
	}
	if p.Retry != nil {
		if e := p.Retry.Validate(); e != nil {
			return e
		}
	}
	if e := ValidateLabels("selector", p.Selector); e != nil {
		return e
	}
	if p.Route != nil {
		if e := p.Route.Validate(); e != nil {
			return e
		}
	}
	if p.Compensation != "" {
		if e := ValidateName("compensation", p.Compensation); e != nil {
			return e
		}
	}
	if e := ValidateKey("fairness_key", p.FairnessKey); e != nil {
		return e
	}
	switch p.OnExhausted {
	case "", ExhaustedDeadLetter, ExhaustedIgnore:
	default:
		return Invalid("on_exhausted", "must be dead_letter or ignore", string(p.OnExhausted))
	}
	if e := p.validateLimits(); e != nil {
		return e
	}
	if e := p.validateCallback(); e != nil {
		return e
	}
	switch p.OnDisconnect {
	case "", DisconnectKill, DisconnectContinue:
	default:
		return Invalid("on_disconnect", "must be kill or continue", string(p.OnDisconnect))
	}
	return validateCodes(p.SuccessCodes, 0, maxStatus, "must be an exit code (0 to 255) or an HTTP status (100 to 599)")
}

func (p Policy) validateTimeouts() *Error {
	for _, limit := range []struct {
		field string
		d     *Duration
	}{
		{"timeout", p.Timeout}, {"queue_timeout", p.QueueTimeout}, {"total_timeout", p.TotalTimeout},
		{"heartbeat_timeout", p.HeartbeatTimeout},
	} {
		if limit.d != nil && *limit.d < 0 {
			return Invalid(limit.field, "must not be negative; 0 means no limit", limit.d.String())
		}
	}
	if d := orNone(p.HeartbeatTimeout); d > 0 && d < MinHeartbeatTimeout {
		return Invalid("heartbeat_timeout", "must be 0 (none) or at least 1s", d.String())
	}
	return nil
}

const (
	minStatus, maxStatus = 100, 599 // HTTP
	maxExitCode          = 255
)

// ValidateFor checks a complete policy (a job's own, or a task's merged over
// its job's) against the kind of executor that it is for.
func (p Policy) ValidateFor(kind string) *Error {
	if p.OnDisconnect == DisconnectContinue && p.TimeoutOrDefault() <= 0 {
		return Invalid("on_disconnect", "continue needs a timeout above 0, since nobody could end the attempt", string(p.OnDisconnect))
	}
	if p.Retry != nil && p.Retry.NonRetryable != nil {
		if e := p.Retry.NonRetryable.validateFor(kind); e != nil {
			return e
		}
	}
	switch kind {
	case KindExec:
		return validateCodes(p.SuccessCodes, 0, maxExitCode, "must be an exit code, 0 to 255")
	case KindHTTP:
		if d := p.HeartbeatTimeoutOrDefault(); d > 0 {
			return Invalid("heartbeat_timeout", "must be absent or 0 for http, since a request can't send heartbeats; use timeout", d.String())
		}
		return validateCodes(p.SuccessCodes, minStatus, maxStatus, "must be an HTTP status, 100 to 599")
	}
	if len(p.SuccessCodes) > 0 {
		return invalidNumber("success_codes", "must be empty for a handler, which tells by its error whether it succeeded", p.SuccessCodes[0])
	}
	return nil
}

func validateCodes(codes []int, low, high int, rule string) *Error {
	return validateCodesOf("success_codes", codes, low, high, rule)
}

func validateCodesOf(field string, codes []int, low, high int, rule string) *Error {
	if len(codes) > high-low+1 {
		return invalidNumber(field, "must not repeat codes", len(codes))
	}
	for i, c := range codes {
		if c < low || c > high {
			return invalidNumber(fmt.Sprintf("%s[%d]", field, i), rule, c)
		}
	}
	return nil
}

// validateText checks a free text: UTF-8 of bounded length without control
// characters other than those allowed.
func validateText(field, s string, limit int, allowed string) *Error {
	forbidden := func(r rune) bool { return unicode.IsControl(r) && !strings.ContainsRune(allowed, r) }
	switch {
	case len(s) > limit:
		return Invalid(field, fmt.Sprintf("must be at most %d bytes", limit), strconv.Itoa(len(s))+" bytes")
	case !utf8.ValidString(s):
		return Invalid(field, "must be valid UTF-8", s)
	case strings.ContainsFunc(s, forbidden):
		return Invalid(field, "must not hold control characters", s)
	}
	return nil
}

// isNameLike reports whether s begins with an ASCII letter or digit and goes on
// with those and the characters of more.
func isNameLike(s, more string) bool {
	for i := range len(s) {
		if c := s[i]; !isAlphanumeric(c) && (i == 0 || strings.IndexByte(more, c) < 0) {
			return false
		}
	}
	return s != ""
}

func isAlphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
}

// at names a map's entry: at("env", "PATH") is `env["PATH"]`.
func at(field, key string) string { return field + "[" + Shorten(key) + "]" }

func invalidNumber[N ~int | ~int64 | ~uint8](field, rule string, n N) *Error {
	return &Error{Code: CodeInvalid, Field: field, Rule: rule, Value: strconv.FormatInt(int64(n), 10)}
}

func invalidFloat(field, rule string, f float64) *Error {
	return &Error{Code: CodeInvalid, Field: field, Rule: rule, Value: strconv.FormatFloat(f, 'g', -1, 64)}
}

func tooLarge(field string, limit, got int) *Error {
	return &Error{
		Code: CodeTooLarge, Field: field,
		Rule: fmt.Sprintf("must be at most %d bytes", limit), Value: strconv.Itoa(got) + " bytes",
	}
}
