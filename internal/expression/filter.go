package expression

import (
	"errors"
	"time"

	"github.com/axd-project/axd/job"
)

// The roots that the filter of an event may read.
const (
	RootPayload = "payload" // the event's; null where it has none
	RootEvent   = "event"   // name, id, time
)

// CompileFilter reads the filter of a schedule's event.
func CompileFilter(text string) (*Expr, *job.Error) {
	e, err := Compile(text, RootPayload, RootEvent)
	if err == nil {
		err = checkBool(e)
	}
	if err != nil {
		return nil, filterError(err, text)
	}
	return e, nil
}

// CheckSchedule checks the expressions of a schedule.
func CheckSchedule(s *job.ScheduleSpec) *job.Error {
	if s.Event == nil || s.Event.Filter == "" {
		return nil
	}
	if _, err := CompileFilter(s.Event.Filter); err != nil {
		return err.At("event")
	}
	return nil
}

func filterError(err error, text string) *job.Error {
	var e *job.Error
	if errors.As(err, &e) {
		return e
	}
	return job.Invalid("filter", "must be an expression: "+err.Error(), text)
}

// Passes evaluates the filter of an event.
func Passes(filter *Expr, name, id string, at time.Time, payload []byte) (bool, error) {
	var value any
	if len(payload) > 0 {
		var err error
		if value, err = FromJSON(payload); err != nil {
			return false, err
		}
	}
	return filter.EvalBool(Env{
		RootPayload: value,
		RootEvent:   map[string]any{"name": name, "id": id, "time": at.UTC().Format(time.RFC3339Nano)},
	})
}
