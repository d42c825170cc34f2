package job

import "time"

// MaxDrain is the longest deadline of a drain.
const MaxDrain = Duration(7 * 24 * time.Hour)

// ValidateDrain checks after what time a worker that drains gives back what still runs;
// 0: never.
func ValidateDrain(d Duration) *Error {
	if d < 0 || d > MaxDrain {
		return Invalid("deadline", "must be more than 0 and at most 7d", d.String())
	}
	return nil
}
