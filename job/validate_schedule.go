package job

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Validate checks what can be checked without reading the cron expression, the
// time zone, the event's filter and the calendars: it is what the state machine
// applies. Who takes a schedule from outside also makes its Plan.
func (s *ScheduleSpec) Validate() *Error {
	if e := validateText("description", s.Description, MaxDescription, "\n\t"); e != nil {
		return e
	}
	for _, check := range []func() *Error{
		s.validateTarget, s.validateReconcile, s.validateTriggers, s.validateWhen, s.validateCalendars, s.validateOverlap, s.validateMisfire,
	} {
		if e := check(); e != nil {
			return e
		}
	}
	if s.PauseAfterFailures < 0 || s.PauseAfterFailures > maxRunBudget {
		return invalidNumber("pause_after_failures", "must be 0 (never) or more", s.PauseAfterFailures)
	}
	return nil
}

func (s *ScheduleSpec) validateTarget() *Error {
	switch {
	case s.Job == "" && s.Workflow == "" && s.ReconcileURL == "":
		return &Error{Code: CodeInvalid, Field: "job", Rule: "exactly one of job, workflow and reconcile_url must be given"}
	case s.Job != "" && s.Workflow != "":
		return Invalid("workflow", "must not be given beside job", s.Workflow)
	case s.ReconcileURL != "" && s.Job+s.Workflow != "":
		return &Error{Code: CodeInvalid, Field: "reconcile_url", Rule: "must not be given beside job or workflow"}
	case s.ReconcileURL != "":
		return nil // see validateReconcile
	case s.Job != "" && len(s.Params) > 0:
		return &Error{Code: CodeInvalid, Field: "params", Rule: "must not be given for a job, which takes a payload"}
	case s.Workflow != "" && len(s.Payload) > 0:
		return &Error{Code: CodeInvalid, Field: "payload", Rule: "must not be given for a workflow, which takes params"}
	}
	field, name := "job", s.Job
	if s.Workflow != "" {
		field, name = "workflow", s.Workflow
	}
	if e := ValidateName(field, name); e != nil {
		return e
	}
	if len(s.Payload) > MaxPayload {
		return tooLarge("payload", MaxPayload, len(s.Payload))
	}
	if len(s.Payload) > 0 && !json.Valid(s.Payload) {
		return Invalid("payload", "must be a JSON value", string(s.Payload))
	}
	total := 0
	for _, name := range slices.Sorted(maps.Keys(s.Params)) {
		if !json.Valid(s.Params[name]) {
			return Invalid(at("params", name), "must be a JSON value", string(s.Params[name]))
		}
		total += len(name) + len(s.Params[name])
	}
	if total > maxScheduleBytes {
		return tooLarge("params", maxScheduleBytes, total)
	}
	if s.Priority > Low {
		return invalidNumber("priority", "must be high, normal or low", s.Priority)
	}
	return nil
}

func (s *ScheduleSpec) validateTriggers() *Error {
	given := ""
	for _, trigger := range []struct {
		name string
		set  bool
	}{{"cron", s.Cron != ""}, {"every", s.Every != 0}, {"at", s.At != 0}} {
		if trigger.set && given != "" {
			return &Error{Code: CodeInvalid, Field: trigger.name, Rule: "must not be given beside " + given}
		}
		if trigger.set {
			given = trigger.name
		}
	}
	if len(s.Cron) > MaxCron {
		return tooLarge("cron", MaxCron, len(s.Cron))
	}
	if s.Every != 0 && s.Every < MinEvery {
		return Invalid("every", "must be at least 1s", s.Every.String())
	}
	if s.Anchor != 0 && s.Every == 0 {
		return Invalid("anchor", "must not be given without every", s.Anchor.String())
	}
	if s.Event != nil {
		if e := s.Event.validate(); e != nil {
			return e.At("event")
		}
	}
	if s.After == nil {
		return nil
	}
	if s.Event != nil {
		return &Error{Code: CodeInvalid, Field: "after", Rule: "must not be given beside event"}
	}
	if e := s.After.validate(); e != nil {
		return e.At("after")
	}
	return nil
}

func (o *OnEvent) validate() *Error {
	if e := ValidateName("name", o.Name); e != nil {
		return e
	}
	return validateText("filter", o.Filter, MaxFilter, "\n\t")
}

func (a *After) validate() *Error {
	if n := len(a.All); n == 0 || n > MaxUpstreams {
		return invalidNumber("all", fmt.Sprintf("must hold 1 to %d entries", MaxUpstreams), n)
	}
	for i, u := range a.All {
		field := "all[" + strconv.Itoa(i) + "]"
		given := 0
		for _, of := range []struct{ name, value string }{{"job", u.Job}, {"workflow", u.Workflow}, {"schedule", u.Schedule}} {
			if of.value == "" {
				continue
			}
			given++
			if e := ValidateName(of.name, of.value); e != nil {
				return e.At(field)
			}
		}
		if given != 1 {
			return &Error{Code: CodeInvalid, Field: field, Rule: "must be exactly one of job, workflow and schedule"}
		}
		if slices.Index(a.All, u) < i {
			return &Error{Code: CodeInvalid, Field: field, Rule: "must not repeat an entry"}
		}
	}
	if e := oneOf("period", a.Period, "", PeriodHour, PeriodDay, PeriodWeek, PeriodMonth, PeriodYear); e != nil {
		return e
	}
	if a.Wait < 0 || a.Wait > MaxMisfireWindow {
		return Invalid("wait", "must be 0 (as long as the period is) to 366d", a.Wait.String())
	}
	return nil
}

// validateWhen checks what bounds and moves times.
func (s *ScheduleSpec) validateWhen() *Error {
	for _, field := range []struct {
		name string
		at   Timestamp
	}{{"anchor", s.Anchor}, {"at", s.At}, {"start", s.Start}, {"end", s.End}} {
		if field.at < 0 || int64(field.at) > MaxTime {
			return invalidNumber(field.name, "must be a time between the years 1970 and 9999 in UTC", int64(field.at))
		}
	}
	if s.End != 0 && s.End <= s.Start {
		return Invalid("end", "must be after start", s.End.String())
	}
	if s.MaxRuns < 0 || s.MaxRuns > maxRunBudget {
		return invalidNumber("max_runs", "must be 0 (no limit) or more", s.MaxRuns)
	}
	if s.Jitter < 0 || s.Jitter > MaxJitter {
		return Invalid("jitter", "must be 0 to 24h", s.Jitter.String())
	}
	if len(s.Timezone) > maxTimezone || s.Timezone != "" && !isNameLike(s.Timezone, "._-+/") {
		return Invalid("timezone", `must be an IANA name such as "Europe/Berlin"`, s.Timezone)
	}
	if s.DST != nil {
		if s.Cron == "" {
			return &Error{Code: CodeInvalid, Field: "dst", Rule: "must not be given without cron"}
		}
		if e := oneOf("dst.gap", s.DST.Gap, "", GapAfter, GapSkip); e != nil {
			return e
		}
		return oneOf("dst.repeat", s.DST.Repeat, "", RepeatFirst, RepeatSecond, RepeatBoth)
	}
	return nil
}

func (s *ScheduleSpec) validateCalendars() *Error {
	c := s.Calendars
	if c == nil {
		return nil
	}
	if len(c.Include)+len(c.Exclude) == 0 {
		return &Error{Code: CodeInvalid, Field: "calendars", Rule: "must name a calendar in include or exclude"}
	}
	if s.Cron == "" && s.Every == 0 {
		return &Error{Code: CodeInvalid, Field: "calendars", Rule: "must not be given without cron or every"}
	}
	for _, list := range []struct {
		field string
		names []string
	}{{"calendars.include", c.Include}, {"calendars.exclude", c.Exclude}} {
		if n := len(list.names); n > MaxCalendarsOf {
			return invalidNumber(list.field, fmt.Sprintf("must hold at most %d calendars", MaxCalendarsOf), n)
		}
		for i, name := range list.names {
			if e := ValidateName(list.field+"["+strconv.Itoa(i)+"]", name); e != nil {
				return e
			}
		}
	}
	return oneOf("calendars.shift", c.Shift, "", ShiftNone, ShiftNext, ShiftPrevious)
}

func (s *ScheduleSpec) validateOverlap() *Error {
	if e := oneOf("overlap", s.Overlap, "",
		OverlapSkip, OverlapQueueOne, OverlapLatest, OverlapQueueAll, OverlapCancelOther, OverlapAllow); e != nil {
		return e
	}
	if s.QueueCap != 0 && s.Overlap != OverlapQueueAll {
		return invalidNumber("queue_cap", "must not be given without overlap: queue_all", s.QueueCap)
	}
	if s.QueueCap < 0 || s.QueueCap > MaxQueueCap {
		return invalidNumber("queue_cap", fmt.Sprintf("must be 1 to %d", MaxQueueCap), s.QueueCap)
	}
	return nil
}

func (s *ScheduleSpec) validateMisfire() *Error {
	if e := oneOf("misfire", s.Misfire, "", MisfireNone, MisfireLatest, MisfireAll); e != nil {
		return e
	}
	if s.MisfireCap != 0 && s.Misfire != MisfireAll {
		return invalidNumber("misfire_cap", "must not be given without misfire: all", s.MisfireCap)
	}
	if s.MisfireWindow != nil && s.Misfire != MisfireAll && s.Misfire != MisfireLatest {
		return Invalid("misfire_window", "must not be given without misfire: latest or all", s.MisfireWindow.String())
	}
	if s.MisfireCap < 0 || s.MisfireCap > MaxMisfireCap {
		return invalidNumber("misfire_cap", fmt.Sprintf("must be 1 to %d", MaxMisfireCap), s.MisfireCap)
	}
	if w := s.MisfireWindowOrDefault(); w < 0 || w > MaxMisfireWindow {
		return Invalid("misfire_window", "must be 0 to 366d", w.String())
	}
	if d := s.ToleranceOrDefault(); d < MinEvery || d > MaxTolerance {
		return Invalid("tolerance", "must be 1s to 24h", d.String())
	}
	return nil
}

// oneOf checks a word against those that are allowed; the empty one, which means
// the default, is not named.
func oneOf[T ~string](field string, v T, allowed ...T) *Error {
	if slices.Contains(allowed, v) {
		return nil
	}
	var names []string
	for _, a := range allowed {
		if a != "" {
			names = append(names, string(a))
		}
	}
	last := len(names) - 1
	return Invalid(field, "must be "+strings.Join(names[:last], ", ")+" or "+names[last], string(v))
}
