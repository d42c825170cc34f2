package job

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Concurrency bounds how many attempts are active at once.
type Concurrency struct {
	Max int `msgpack:"m" json:"max"`
	// Key is where the payload holds what the bound is for, such as a customer; see
	// PayloadKey. Empty: for all tasks together.
	Key string `msgpack:"k,omitempty" json:"key,omitempty"`
	// Name lets jobs of a namespace share the bound; empty: it is the job's own.
	Name string `msgpack:"n,omitempty" json:"name,omitempty"`
}

// Rate bounds how many attempts begin within a time: Max per Per, evenly spaced but
// for Burst of them at once.
type Rate struct {
	Max   int      `msgpack:"m" json:"max"`
	Per   Duration `msgpack:"p" json:"per"`
	Burst int      `msgpack:"b,omitempty" json:"burst,omitempty"` // default 1
	Key   string   `msgpack:"k,omitempty" json:"key,omitempty"`   // as in Concurrency
	Name  string   `msgpack:"n,omitempty" json:"name,omitempty"`  // as in Concurrency
}

// The limits of limits.
const (
	MaxConcurrency = 100_000
	MaxRate        = 1_000_000 // attempts in one Per
	MaxPer         = Duration(7 * day)
	maxKeyPath     = 256 // bytes
	maxKeySteps    = 16
	maxKeyValue    = 255 // bytes
)

func (c *Concurrency) validate() *Error {
	if c.Max < 1 || c.Max > MaxConcurrency {
		return invalidNumber("concurrency.max", "must be 1 to 100000", c.Max)
	}
	return validateLimit("concurrency", c.Key, c.Name)
}

func (r *Rate) validate() *Error {
	switch {
	case r.Max < 1 || r.Max > MaxRate:
		return invalidNumber("rate.max", "must be 1 to 1000000", r.Max)
	case r.Per < Duration(time.Millisecond) || r.Per > MaxPer:
		return Invalid("rate.per", "must be 1ms to 7d", r.Per.String())
	case r.Burst < 0 || r.Burst > r.Max:
		return invalidNumber("rate.burst", "must be 1 to max", r.Burst)
	case r.interval() < 1:
		return Invalid("rate.per", "must leave at least a microsecond for each attempt", r.Per.String())
	}
	return validateLimit("rate", r.Key, r.Name)
}

func validateLimit(field, path, name string) *Error {
	if path != "" {
		if _, ok := keySteps(path); !ok {
			return Invalid(field+".key", `must be a JSON pointer such as "/customer/id" or a path such as "customer.id", of at most 16 steps`, path)
		}
	}
	if name != "" {
		return ValidateName(field+".name", name)
	}
	return nil
}

// validateLimits checks the limits of a policy.
func (p *Policy) validateLimits() *Error {
	if p.Concurrency != nil {
		if e := p.Concurrency.validate(); e != nil {
			return e
		}
	}
	if p.Rate != nil {
		return p.Rate.validate()
	}
	return nil
}

// limitsNamed checks that limits without a job have a name to be shared by.
func (p *Policy) limitsNamed() *Error {
	const rule = "must be given for a task without job, to tell whose limit it is"
	if p.Concurrency != nil && p.Concurrency.Name == "" {
		return Invalid("concurrency.name", rule, "")
	}
	if p.Rate != nil && p.Rate.Name == "" {
		return Invalid("rate.name", rule, "")
	}
	return nil
}

// interval is the time between two attempts in microseconds.
func (r *Rate) interval() int64 {
	return r.Per.Std().Microseconds() / int64(r.Max)
}

// A rate's state is the time from which on it owes nothing more to what has begun,
// in Unix microseconds; 0 at first. It follows the generic cell rate algorithm.
// Source: ITU-T I.371, the virtual scheduling form.

// ReadyAt is when the next attempt may begin, in Unix microseconds, at most a whole
// burst from now: what a slower rate left behind counts no more.
func (r *Rate) ReadyAt(state, now int64) int64 {
	spare := int64(max(r.Burst, 1)-1) * r.interval()
	return min(state, now+spare+r.interval()) - spare
}

// Take returns the state after an attempt that begins now.
func (r *Rate) Take(state, now int64) int64 {
	spare := int64(max(r.Burst, 1)-1) * r.interval()
	return max(min(state, now+spare+r.interval()), now) + r.interval()
}

// keySteps takes a path apart: a JSON pointer (RFC 6901), or names joined by dots.
func keySteps(path string) ([]string, bool) {
	if path == "" || len(path) > maxKeyPath || !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
		return nil, false
	}
	rest, pointer := strings.CutPrefix(path, "/")
	if !pointer {
		steps := strings.Split(path, ".")
		for _, s := range steps {
			if s == "" {
				return nil, false
			}
		}
		return steps, len(steps) <= maxKeySteps
	}
	steps := strings.Split(rest, "/")
	for i, s := range steps {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(s), "~") {
			return nil, false
		}
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return steps, len(steps) <= maxKeySteps
}
