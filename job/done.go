package job

import (
	"fmt"
	"strconv"
	"unicode/utf8"
)

// The limits of what a task records as done.
const (
	MaxDone      = 32      // records of one task
	MaxDoneValue = 1 << 10 // bytes of what belongs to one
)

// ValidateDone checks the name under which something is recorded as done, and what is
// kept with it.
func ValidateDone(name string, value []byte) *Error {
	if err := ValidateName("name", name); err != nil {
		return err
	}
	if len(value) > MaxDoneValue {
		return Invalid("value", fmt.Sprintf("must be at most %d bytes", MaxDoneValue), strconv.Itoa(len(value))+" bytes")
	}
	if !utf8.Valid(value) {
		return Invalid("value", "must be UTF-8", string(value))
	}
	return nil
}
