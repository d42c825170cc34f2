package job

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// IdempotencyPolicy tells what a submit with a claimed idempotency key gets.
type IdempotencyPolicy string

// The choices of IdempotencyPolicy. The empty string means IdempotencyReturn.
const (
	IdempotencyReturn  IdempotencyPolicy = "return"  // the first task
	IdempotencyReject  IdempotencyPolicy = "reject"  // an error
	IdempotencyReplace IdempotencyPolicy = "replace" // a new task in its place, as long as it is pending
)

// The limits of what keys hold.
const (
	MaxUniqueKey         = 255 // bytes
	MinIdempotencyPeriod = Duration(time.Second)
)

// validateKeys checks the keys of a request and what is said of them.
func (t TaskSpec) validateKeys() *Error {
	if e := ValidateKey("idempotency_key", t.IdempotencyKey); e != nil {
		return e
	}
	if e := ValidateKey("unique_key", t.UniqueKey); e != nil {
		return e
	}
	switch t.IdempotencyPolicy {
	case "":
	case IdempotencyReturn, IdempotencyReject, IdempotencyReplace:
		if t.IdempotencyKey == "" {
			return Invalid("idempotency_policy", "needs an idempotency_key", string(t.IdempotencyPolicy))
		}
	default:
		return Invalid("idempotency_policy", "must be return, reject or replace", string(t.IdempotencyPolicy))
	}
	switch {
	case t.IdempotencyPeriod == 0:
		return nil
	case t.IdempotencyPeriod < MinIdempotencyPeriod || t.IdempotencyPeriod > MaxIdempotencyWindow:
		return Invalid("idempotency_period", "must be 1s to 30d", t.IdempotencyPeriod.String())
	case t.IdempotencyKey == "":
		return Invalid("idempotency_period", "needs an idempotency_key", t.IdempotencyPeriod.String())
	case t.IdempotencyWindow != 0:
		return Invalid("idempotency_period", "must not be given beside idempotency_window", t.IdempotencyPeriod.String())
	}
	return nil
}

// ValidateKey checks a key; an empty one means none.
func ValidateKey(field, key string) *Error {
	if len(key) > MaxIdempotencyKey || !utf8.ValidString(key) || strings.ContainsFunc(key, unicode.IsControl) {
		return Invalid(field, "must be 1 to 255 bytes of UTF-8 without control characters", key)
	}
	return nil
}

// KeyPeriod returns what tells the period of a due time apart from others under
// one idempotency key, and when the claim of a task that is due then and created
// now ends, both times in Unix milliseconds. Without a period nothing is told
// apart, and the window counts from creation. With one the periods are counted
// from 1970 in UTC, so that those of 12 minutes begin at the full hour.
func (t TaskSpec) KeyPeriod(now, due int64) (period string, expiry int64) {
	if t.IdempotencyPeriod == 0 {
		return "", now + t.IdempotencyWindowOrDefault().Milliseconds()
	}
	length := t.IdempotencyPeriod.Milliseconds()
	begin := due - due%length
	// A control character is in no key, so that no key looks like one with a period.
	return "\x01" + strconv.FormatInt(length, 10) + ":" + strconv.FormatInt(begin, 10), begin + length
}
