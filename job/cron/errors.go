package cron

import "strconv"

// Error refuses an expression: the field at fault, the rule it breaks, and what
// it said.
type Error struct {
	Field string // "minute", "day-of-week", "timezone", "expression", ...
	Rule  string // what must hold, a phrase
	Value string // as given; unbounded and unquoted
}

const shownBytes = 64

// Error renders `minute: must be from 0 to 59 (got "60")`.
func (e *Error) Error() string {
	v := e.Value
	if len(v) > shownBytes {
		v = v[:shownBytes] + "…"
	}
	return e.Field + ": " + e.Rule + " (got " + strconv.Quote(v) + ")"
}
