package cron

// DST says what becomes of wall times that a clock change leaves out or brings
// twice. What is empty follows the rule of Vixie cron: an expression whose
// minute and hour are numbers, lists and ranges without a step has GapAfter and
// RepeatFirst; one with a * or a step there has GapSkip and RepeatBoth, so that
// it follows real time. What is set holds for every expression of fields.
type DST struct {
	Gap    Gap    `json:"gap,omitempty" msgpack:"g,omitempty"`
	Repeat Repeat `json:"repeat,omitempty" msgpack:"r,omitempty"`
}

// Gap says what becomes of wall times that don't exist.
type Gap string

// What may be said of a gap.
const (
	GapAfter Gap = "after" // all that the gap swallows fires once, at the first instant after it
	GapSkip  Gap = "skip"  // it doesn't fire
)

// Repeat says what becomes of wall times that come twice.
type Repeat string

// What may be said of a repeated time.
const (
	RepeatFirst  Repeat = "first"  // it fires when the time first comes
	RepeatSecond Repeat = "second" // it fires when it comes for the last time
	RepeatBoth   Repeat = "both"   // it fires each time
)

// Validate refuses unknown words.
func (d DST) Validate() error {
	switch d.Gap {
	case "", GapAfter, GapSkip:
	default:
		return &Error{"dst.gap", "must be after or skip", string(d.Gap)}
	}
	switch d.Repeat {
	case "", RepeatFirst, RepeatSecond, RepeatBoth:
	default:
		return &Error{"dst.repeat", "must be first, second or both", string(d.Repeat)}
	}
	return nil
}
