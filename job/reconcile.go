package job

import (
	"net/url"
	"time"
)

// A schedule with a ReconcileURL fires neither a job nor a workflow: it fetches the
// list of keys that a caller believes in, compares it with what is, and on request
// submits what is missing and replays what failed.

// ReconcileRetry is when a list that could not be fetched is fetched again: after
// 2 s, twice as long each time up to 5 min, each with its jitter; with the last of the
// retries, 8 to 16 minutes after the first try, the fire has failed.
var ReconcileRetry = Retry{MaxRetries: new(8), Initial: Duration(2 * time.Second), Factor: 2, Cap: Duration(5 * time.Minute)}

func (s *ScheduleSpec) validateReconcile() *Error {
	if s.ReconcileURL == "" {
		switch {
		case s.ReconcileSecret != "":
			return Invalid("reconcile_secret", "must not be given without reconcile_url", s.ReconcileSecret)
		case s.ReconcileReplay:
			return &Error{Code: CodeInvalid, Field: "reconcile_replay", Rule: "must not be given without reconcile_url"}
		}
		return nil
	}
	if e := validateFetchedURL("reconcile_url", s.ReconcileURL, "schedule"); e != nil {
		return e
	}
	if s.ReconcileSecret != "" {
		if e := ValidateName("reconcile_secret", s.ReconcileSecret); e != nil {
			return e
		}
	}
	switch {
	case len(s.Payload) > 0:
		return &Error{Code: CodeInvalid, Field: "payload", Rule: "must not be given beside reconcile_url, which makes no task of its own"}
	case len(s.Params) > 0:
		return &Error{Code: CodeInvalid, Field: "params", Rule: "must not be given beside reconcile_url, which starts no run"}
	case s.Priority != 0:
		return Invalid("priority", "must not be given beside reconcile_url: tasks of its list say their own", s.Priority.String())
	case s.Overlap == OverlapAllow || s.Overlap == OverlapCancelOther:
		return Invalid("overlap", "must be skip, queue_one, latest or queue_all beside reconcile_url: lists are compared one after the other",
			string(s.Overlap))
	}
	return nil
}

// validateFetchedURL checks a URL that servers send requests to; whose is what shows it.
func validateFetchedURL(field, raw, whose string) *Error {
	if len(raw) > MaxCallbackURL {
		return tooLarge(field, MaxCallbackURL, len(raw))
	}
	if e := validateURL(field, raw); e != nil {
		return e
	}
	u, _ := url.Parse(raw) // validateURL has
	if u.User != nil {
		// The value is not repeated: it holds a password.
		return &Error{Code: CodeInvalid, Field: field, Rule: "must not hold a user or password: whoever may see the " + whose + " sees it"}
	}
	return nil
}
