package job

// State is a task's stored state: the least that determines what the API shows.
// A pending task is shown as scheduled, waiting or retrying; see Shown.
type State uint8

// The stored states. Values are part of the row format: append, never reorder.
const (
	Pending State = iota + 1
	Blocked
	Dispatched
	Running
	Success
	Failed
	TimedOut
	Cancelled
	Skipped
	UpstreamFailed
)

// States lists every stored state in order.
var States = []State{
	Pending, Blocked, Dispatched, Running, Success, Failed, TimedOut, Cancelled, Skipped, UpstreamFailed,
}

var stateNames = [...]string{
	Pending: "pending", Blocked: "blocked", Dispatched: "dispatched", Running: "running", Success: "success",
	Failed: "failed", TimedOut: "timeout", Cancelled: "cancelled", Skipped: "skipped", UpstreamFailed: "upstream_failed",
}

// String returns the stored state's name; all but "pending" are API names too.
func (s State) String() string {
	if s == 0 || int(s) >= len(stateNames) {
		return "invalid"
	}
	return stateNames[s]
}

// Terminal reports whether a task in this state has ended for good.
func (s State) Terminal() bool { return s >= Success }

// Active reports whether a worker holds an attempt of a task in this state.
func (s State) Active() bool { return s == Dispatched || s == Running }

// Shown is a state as the API and the command line show it.
type Shown string

// The shown states that split Pending.
const (
	ShownScheduled Shown = "scheduled"
	ShownWaiting   Shown = "waiting"
	ShownRetrying  Shown = "retrying"
)

// Show returns the API's name of a state. due is the task's due time and now
// the cluster's clock, both Unix milliseconds; retry tells that the task waits
// for a further attempt.
func Show(s State, due int64, retry bool, now int64) Shown {
	switch {
	case s != Pending:
		return Shown(s.String())
	case retry && due > now:
		return ShownRetrying
	case due > now:
		return ShownScheduled
	default:
		return ShownWaiting
	}
}

// ParseShown reads an API state name. The stored state it belongs to is the
// second result.
func ParseShown(name string) (Shown, State, error) {
	switch sh := Shown(name); sh {
	case ShownScheduled, ShownWaiting, ShownRetrying:
		return sh, Pending, nil
	}
	for _, s := range States {
		if s != Pending && s.String() == name {
			return Shown(name), s, nil
		}
	}
	return "", 0, Invalid("state", "must be scheduled, blocked, waiting, dispatched, running, retrying, success, "+
		"failed, timeout, cancelled, skipped or upstream_failed", name)
}

// Outcome tells how one attempt ended. The zero value means: not yet.
type Outcome uint8

// The outcomes. Values are part of the row format: append, never reorder.
const (
	OutcomeSuccess Outcome = iota + 1
	OutcomeFailed
	OutcomeTimeout
	OutcomeLost
	OutcomeCancelled
	OutcomeRefused
)

var outcomeNames = [...]string{
	0: "", OutcomeSuccess: "success", OutcomeFailed: "failed", OutcomeTimeout: "timeout",
	OutcomeLost: "lost", OutcomeCancelled: "cancelled", OutcomeRefused: "refused",
}

// String returns the outcome's API name.
func (o Outcome) String() string {
	if int(o) >= len(outcomeNames) {
		return "invalid"
	}
	return outcomeNames[o]
}

// Priority orders due tasks: high before normal before low.
type Priority uint8

// The priorities. Values are part of the key format.
const (
	High Priority = iota + 1
	Normal
	Low
)

// Priorities lists the priorities, most urgent first.
var Priorities = []Priority{High, Normal, Low}

var priorityNames = [...]string{0: "", High: "high", Normal: "normal", Low: "low"}

// String returns the priority's API name; empty when unset.
func (p Priority) String() string {
	if int(p) >= len(priorityNames) {
		return "invalid"
	}
	return priorityNames[p]
}

// MarshalText implements encoding.TextMarshaler.
func (p Priority) MarshalText() ([]byte, error) { return []byte(p.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *Priority) UnmarshalText(b []byte) error {
	for i, name := range priorityNames {
		if i > 0 && name == string(b) {
			*p = Priority(i)
			return nil
		}
	}
	return Invalid("priority", "must be high, normal or low", string(b))
}
