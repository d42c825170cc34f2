package job

import (
	"maps"
	"slices"
	"strconv"
)

// DefaultHighSlots is the share of slots kept for high priority, in percent.
const DefaultHighSlots = 20

// DefaultMaxPending is how many tasks of one namespace may wait, and the most that
// may be set.
const DefaultMaxPending = 20_000_000

const (
	maxHighSlots = 90
	maxQuotas    = 1000
	maxWeights   = 1000
)

// Settings are what an operator decides for the whole cluster. A nil field is
// unset.
type Settings struct {
	SuspendLow *bool `msgpack:"l,omitempty" json:"suspend_low,omitempty"` // low priority waits while the cluster is busy; default false
	HighSlots  *int  `msgpack:"h,omitempty" json:"high_slots,omitempty"`  // percent of all slots kept for high priority; default 20, at most 90
	// MaxPending is how many tasks of one namespace may wait; default 20,000,000.
	MaxPending *int `msgpack:"p,omitempty" json:"max_pending,omitempty"`
	// Quotas are the MaxPending of single namespaces; 0: that of all holds again.
	Quotas Quotas `msgpack:"q,omitempty" json:"quotas,omitempty"`
	// Weights are the shares of namespaces where several have tasks of one priority
	// that wait: how many tasks of one begin while one of another does. 1 unless set;
	// 0: it is taken back.
	Weights Quotas `msgpack:"w,omitempty" json:"namespace_weights,omitempty"`
}

// MaxNamespaceWeight is the most that a namespace may weigh; unless set it weighs 1.
const MaxNamespaceWeight = 1000

// Quotas are numbers of tasks by namespace.
type Quotas map[string]int

// Merge returns s with every field that over sets taken from over.
func (s Settings) Merge(over Settings) Settings {
	if over.SuspendLow != nil {
		s.SuspendLow = over.SuspendLow
	}
	if over.HighSlots != nil {
		s.HighSlots = over.HighSlots
	}
	if over.MaxPending != nil {
		s.MaxPending = over.MaxPending
	}
	s.Quotas, s.Weights = s.Quotas.merge(over.Quotas), s.Weights.merge(over.Weights)
	return s
}

// merge returns q with the numbers of over; 0 takes one back.
func (q Quotas) merge(over Quotas) Quotas {
	if len(over) == 0 {
		return q
	}
	all := Quotas{}
	maps.Copy(all, q)
	maps.Copy(all, over)
	maps.DeleteFunc(all, func(_ string, n int) bool { return n == 0 })
	return all
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
	if s.MaxPending != nil && (*s.MaxPending < 1 || *s.MaxPending > DefaultMaxPending) {
		return invalidNumber("max_pending", "must be 1 to 20000000", *s.MaxPending)
	}
	if e := s.Quotas.validate("quotas", maxQuotas, DefaultMaxPending, "must be 1 to 20000000, or 0 for max_pending"); e != nil {
		return e
	}
	return s.Weights.validate("namespace_weights", maxWeights, MaxNamespaceWeight, "must be 1 to 1000, or 0 to take it back")
}

// validate checks at most many numbers, each at most most.
func (q Quotas) validate(field string, many, most int, rule string) *Error {
	if n := len(q); n > many {
		return invalidNumber(field, "must be at most "+strconv.Itoa(many)+" namespaces", n)
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !isNameLike(name, "._-") || len(name) > MaxName {
			return Invalid(field, "each namespace "+nameRule, name)
		}
		if n := q[name]; n < 0 || n > most {
			return invalidNumber(at(field, name), rule, n)
		}
	}
	return nil
}

// WeightOf returns what a namespace weighs.
func (s Settings) WeightOf(namespace string) int { return max(s.Weights[namespace], 1) }

// MaxPendingOf returns how many tasks of a namespace may wait.
func (s Settings) MaxPendingOf(namespace string) int {
	if n := s.Quotas[namespace]; n > 0 {
		return n
	}
	if s.MaxPending != nil {
		return *s.MaxPending
	}
	return DefaultMaxPending
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
