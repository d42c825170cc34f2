package trial

import "time"

// Result is what came of one scenario.
type Result struct {
	Scenario string        `json:"scenario"`
	Group    string        `json:"group"`
	Summary  string        `json:"summary"`
	Verdict  Verdict       `json:"verdict"`
	Seed     uint64        `json:"seed"`
	Began    time.Time     `json:"began"`
	Ended    time.Time     `json:"ended"`
	Faults   []FaultRecord `json:"faults"`

	Violations []string `json:"violations,omitempty"` // promises that were not kept
	Doubts     []string `json:"doubts,omitempty"`     // why it could not be tested, or was skipped

	Calls        int `json:"calls"`
	Acknowledged int `json:"acknowledged"`
	Attempts     int `json:"attempts"`
	Callbacks    int `json:"callbacks"`
	Tasks        int `json:"tasks"`
	Runs         int `json:"runs"`
	Fires        int `json:"fires"`
	Entries      int `json:"log_entries"`

	LateP50  float64 `json:"late_p50_ms"` // of all first attempts
	LateP99  float64 `json:"late_p99_ms"`
	QuietP50 float64 `json:"quiet_late_p50_ms"` // of those that no fault could touch
	QuietP99 float64 `json:"quiet_late_p99_ms"`

	Before []Holding `json:"held_before,omitempty"` // by servers, as the load began
	After  []Holding `json:"held_after,omitempty"`  // when all was healed and nothing was left to do

	Leaders  []Leader `json:"leaders,omitempty"`
	Gaps     []Span   `json:"gaps,omitempty"` // when no write was accepted
	Lateness []Late   `json:"-"`
}

// settle decides the verdict.
func (r *Result) settle() {
	switch {
	case len(r.Violations) > 0:
		r.Verdict = Violated
	case len(r.Doubts) > 0:
		r.Verdict = Untested
	default:
		r.Verdict = Held
	}
}

// count counts what a history holds.
func (r *Result) count(h *history) {
	r.Calls, r.Attempts, r.Callbacks, r.Runs = len(h.Calls), len(h.Attempts), len(h.deliveries), len(h.started)
	for _, d := range h.Dumps {
		r.Entries, r.Tasks = max(r.Entries, int(d.Applied)), max(r.Tasks, len(d.Tasks)) //nolint:gosec // far below
	}
	for _, list := range h.fires {
		r.Fires += len(list)
	}
}

// Recovery is the longest that writes were not accepted after one of the faults.
func (r *Result) Recovery() time.Duration {
	var most time.Duration
	for _, f := range r.Faults {
		most = max(most, f.Recovery)
	}
	return most
}
