package job

// DefaultHighSlots is the share of slots kept for high priority, in percent.
const DefaultHighSlots = 20

const maxHighSlots = 90

// Settings are what an operator decides for the whole cluster. A nil field is
// unset.
type Settings struct {
	SuspendLow *bool `msgpack:"l,omitempty" json:"suspend_low,omitempty"` // low priority waits while the cluster is busy; default false
	HighSlots  *int  `msgpack:"h,omitempty" json:"high_slots,omitempty"`  // percent of all slots kept for high priority; default 20, at most 90
}

// Merge returns s with every field that over sets taken from over.
func (s Settings) Merge(over Settings) Settings {
	if over.SuspendLow != nil {
		s.SuspendLow = over.SuspendLow
	}
	if over.HighSlots != nil {
		s.HighSlots = over.HighSlots
	}
	return s
}

// SuspendLowOrDefault tells whether low priority waits while the cluster is busy.
func (s Settings) SuspendLowOrDefault() bool { return s.SuspendLow != nil && *s.SuspendLow }

// HighSlotsOrDefault returns the share of slots kept for high priority, in percent.
func (s Settings) HighSlotsOrDefault() int {
	if s.HighSlots == nil {
		return DefaultHighSlots
	}
	return *s.HighSlots
}

// Validate checks what is set.
func (s Settings) Validate() *Error {
	if n := s.HighSlotsOrDefault(); n < 0 || n > maxHighSlots {
		return invalidNumber("high_slots", "must be 0 to 90 percent", n)
	}
	return nil
}

// ValidatePriorities checks the priorities that a worker is for; none means all.
func ValidatePriorities(field string, priorities []Priority) *Error {
	if len(priorities) > len(Priorities) {
		return invalidNumber(field, "must not repeat one", len(priorities))
	}
	for _, p := range priorities {
		if p < High || p > Low {
			return invalidNumber(field, "must be high, normal or low", p)
		}
	}
	return nil
}
