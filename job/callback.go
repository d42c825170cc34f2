package job

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MaxCallbackURL bounds the URL of a callback, in bytes.
const MaxCallbackURL = 2048

// CallbackRetry is when a callback that was not taken is sent again: after 2 s,
// twice as long each time up to an hour, each with its jitter; with the last of
// the retries, four to nine hours after the first, it is dead.
var CallbackRetry = Retry{
	MaxRetries: new(18), Initial: Duration(2 * time.Second), Factor: 2, Cap: Duration(time.Hour),
}

// callbackEnds are the states that a callback may be limited to.
var callbackEnds = []State{Success, Failed, TimedOut, Cancelled}

// CallbackEnds lists the names of the states that a callback may be limited to.
func CallbackEnds() []string {
	names := make([]string, len(callbackEnds))
	for i, s := range callbackEnds {
		names[i] = s.String()
	}
	return names
}

// WantsCallback reports whether the policy asks for a callback when a task ends
// in this state.
func (p *Policy) WantsCallback(s State) bool {
	if p.CallbackURL == "" && p.CallbackJob == "" {
		return false
	}
	return len(p.CallbackOn) == 0 || slices.Contains(p.CallbackOn, s.String())
}

func (p *Policy) validateCallback() *Error {
	if p.CallbackURL == "" && p.CallbackJob == "" && p.CallbackOn == nil && p.CallbackSecret == "" {
		return nil // the usual case
	}
	if p.CallbackURL != "" {
		if p.CallbackJob != "" {
			return Invalid("callback_job", "must not be given beside callback_url", p.CallbackJob)
		}
		if e := validateFetchedURL("callback_url", p.CallbackURL, "task"); e != nil {
			return e
		}
	}
	if p.CallbackJob != "" {
		if e := ValidateName("callback_job", p.CallbackJob); e != nil {
			return e
		}
	}
	if p.CallbackSecret != "" {
		if e := ValidateName("callback_secret", p.CallbackSecret); e != nil {
			return e
		}
		if p.CallbackJob != "" {
			return Invalid("callback_secret", "signs requests: callback_job makes none", p.CallbackSecret)
		}
	}
	for i, name := range p.CallbackOn {
		field := "callback_on[" + strconv.Itoa(i) + "]"
		if !slices.Contains(CallbackEnds(), name) {
			return Invalid(field, "must be "+strings.Join(CallbackEnds(), ", "), name)
		}
		if slices.Index(p.CallbackOn, name) < i {
			return Invalid(field, "must not repeat a state", name)
		}
	}
	return nil
}

// CallbackTarget is the host and port that a valid URL leads to: what its
// callbacks share a limit with.
func CallbackTarget(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + port
}

// CallbackBody is what a callback tells: the body of its request, or the payload
// of the job that it runs.
type CallbackBody struct {
	ID          string          `json:"id"` // of the delivery: the same whenever it is repeated
	Task        string          `json:"task_id"`
	Namespace   string          `json:"namespace"`
	Job         string          `json:"job,omitempty"`
	State       string          `json:"state"`             // that the task ended in
	Outcome     string          `json:"outcome,omitempty"` // of its last attempt, such as lost
	Attempts    int             `json:"attempts"`
	ExitCode    *int            `json:"exit_code,omitempty"`
	Error       string          `json:"error,omitempty"`
	ExecuteTime time.Time       `json:"execute_time"`
	CreatedAt   time.Time       `json:"created_at"`
	StartedAt   *time.Time      `json:"started_at,omitempty"`
	FinishedAt  time.Time       `json:"finished_at"`
	Output      json.RawMessage `json:"output,omitempty"` // of the last attempt: as JSON if it is, else as a string
}
