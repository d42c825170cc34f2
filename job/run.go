package job

// RunState is a run's state.
type RunState uint8

// The states of a run. Values are part of the row format: append, never reorder.
//
// A run is running until each of its steps has ended. Then, by the first that holds:
//
//   - cancelled, if it was cancelled,
//   - timeout, if its time-out has passed before,
//   - failed, if a step that isn't allowed to fail ended failed, timeout,
//     cancelled or upstream_failed,
//   - success.
const (
	RunRunning RunState = iota + 1
	RunSuccess
	RunFailed
	RunTimedOut
	RunCancelled
)

// RunStates lists the states of a run in order.
var RunStates = []RunState{RunRunning, RunSuccess, RunFailed, RunTimedOut, RunCancelled}

var runStateNames = [...]string{
	RunRunning: "running", RunSuccess: "success", RunFailed: "failed", RunTimedOut: "timeout", RunCancelled: "cancelled",
}

// String returns the state's API name.
func (s RunState) String() string {
	if s == 0 || int(s) >= len(runStateNames) {
		return "invalid"
	}
	return runStateNames[s]
}

// Terminal reports whether a run in this state has ended. A rerun takes it back.
func (s RunState) Terminal() bool { return s >= RunSuccess }

// ParseRunState reads an API name.
func ParseRunState(name string) (RunState, error) {
	for _, s := range RunStates {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, Invalid("state", "must be running, success, failed, timeout or cancelled", name)
}
