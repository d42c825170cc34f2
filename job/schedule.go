package job

import (
	"cmp"
	"time"
)

// ScheduleSpec is a plan that fires a job or a workflow. Its namespace and name
// are the key it is kept under. A nil or empty field is unset.
type ScheduleSpec struct {
	Description string `msgpack:"D,omitempty" json:"description,omitempty"`

	// What it fires: exactly one of Job, Workflow and ReconcileURL.
	Job      string   `msgpack:"j,omitempty" json:"job,omitempty"`
	Workflow string   `msgpack:"w,omitempty" json:"workflow,omitempty"`
	Payload  JSON     `msgpack:"p,omitempty" json:"payload,omitempty"`  // of a job's task
	Params   Values   `msgpack:"v,omitempty" json:"params,omitempty"`   // of a workflow's run
	Priority Priority `msgpack:"y,omitempty" json:"priority,omitempty"` // of what it fires

	ReconcileURL    string `msgpack:"R,omitempty" json:"reconcile_url,omitempty"`    // a list of keys to fetch and compare
	ReconcileSecret string `msgpack:"S,omitempty" json:"reconcile_secret,omitempty"` // of the namespace, that its requests are signed with
	ReconcileReplay bool   `msgpack:"Y,omitempty" json:"reconcile_replay,omitempty"` // submit what is missing, replay what failed

	// When: at most one of Cron, Every and At. With After, each of its times waits for
	// what others do; After alone gives it one time in each period. Without all of
	// them and Event it fires by hand alone.
	Cron   CronText  `msgpack:"c,omitempty" json:"cron,omitempty"`
	Every  Duration  `msgpack:"e,omitempty" json:"every,omitempty"`
	Anchor Timestamp `msgpack:"a,omitempty" json:"anchor,omitempty"` // one of the times of Every; default: when the schedule was created
	At     Timestamp `msgpack:"t,omitempty" json:"at,omitempty"`
	Event  *OnEvent  `msgpack:"E,omitempty" json:"event,omitempty"`
	After  *After    `msgpack:"A,omitempty" json:"after,omitempty"`

	Timezone  string     `msgpack:"z,omitempty" json:"timezone,omitempty"` // an IANA name; default UTC
	DST       *DST       `msgpack:"d,omitempty" json:"dst,omitempty"`
	Jitter    Duration   `msgpack:"J,omitempty" json:"jitter,omitempty"` // the most that its times are put off, each by the same
	Calendars *Calendars `msgpack:"C,omitempty" json:"calendars,omitempty"`

	// Of planned times: none before Start, none at or after End, no more than MaxRuns.
	Start   Timestamp `msgpack:"s,omitempty" json:"start,omitempty"`
	End     Timestamp `msgpack:"n,omitempty" json:"end,omitempty"`
	MaxRuns int       `msgpack:"m,omitempty" json:"max_runs,omitempty"`

	Overlap  Overlap `msgpack:"o,omitempty" json:"overlap,omitempty"`
	QueueCap int     `msgpack:"q,omitempty" json:"queue_cap,omitempty"` // times that queue_all lets wait; default 100

	Misfire       Misfire   `msgpack:"f,omitempty" json:"misfire,omitempty"`
	MisfireWindow *Duration `msgpack:"W,omitempty" json:"misfire_window,omitempty"` // how old a missed time may be that is made up for; default 24h
	MisfireCap    int       `msgpack:"M,omitempty" json:"misfire_cap,omitempty"`    // missed times that all makes up for; default 100
	Tolerance     *Duration `msgpack:"T,omitempty" json:"tolerance,omitempty"`      // within which a late time is not missed; default 60s

	PauseAfterFailures int `msgpack:"F,omitempty" json:"pause_after_failures,omitempty"` // in a row; 0: never
}

// OnEvent makes a schedule fire at events.
type OnEvent struct {
	Name   string `msgpack:"n" json:"name"`
	Filter string `msgpack:"f,omitempty" json:"filter,omitempty"` // an expression over the event; empty: each event
}

// After makes a schedule's times wait until others have succeeded for the same
// period.
type After struct {
	All    []Upstream `msgpack:"a" json:"all"`
	Period Period     `msgpack:"p,omitempty" json:"period,omitempty"` // default day
	// Wait is the longest that a time waits: from the time on or, of a schedule with
	// After alone, from the end of its period; 0: as long as the period is.
	Wait Duration `msgpack:"w,omitempty" json:"wait,omitempty"`
}

// Upstream is what an After waits for: exactly one is set. A schedule with times of
// its own has succeeded for a period once what it fired for each of its times in it
// has; a schedule without, a job and a workflow once one task or run has.
type Upstream struct {
	Job      string `msgpack:"j,omitempty" json:"job,omitempty"`
	Workflow string `msgpack:"w,omitempty" json:"workflow,omitempty"`
	Schedule string `msgpack:"s,omitempty" json:"schedule,omitempty"`
}

// Object returns the noun and the name of what is waited for.
func (u Upstream) Object() (noun, name string) {
	switch {
	case u.Job != "":
		return "job", u.Job
	case u.Workflow != "":
		return "workflow", u.Workflow
	}
	return "schedule", u.Schedule
}

// Period is a span of the calendar in a schedule's time zone, by which what
// belongs together is found.
type Period string

// The periods. The empty string means PeriodDay.
const (
	PeriodHour  Period = "hour"
	PeriodDay   Period = "day"
	PeriodWeek  Period = "week" // from Monday
	PeriodMonth Period = "month"
	PeriodYear  Period = "year"
)

// DST tells what becomes of a cron expression's times where the clocks change. What
// is empty follows the rule of Vixie cron: see package cron.
type DST struct {
	Gap    DSTGap    `msgpack:"g,omitempty" json:"gap,omitempty"`
	Repeat DSTRepeat `msgpack:"r,omitempty" json:"repeat,omitempty"`
}

// DSTGap tells what becomes of a time that doesn't exist on a day.
type DSTGap string

// The choices of DSTGap. The empty string means GapAfter for fixed times, GapSkip
// for what follows real time.
const (
	GapAfter DSTGap = "after" // it comes once, right after the gap
	GapSkip  DSTGap = "skip"  // it doesn't come that day
)

// DSTRepeat tells what becomes of a time that exists twice on a day.
type DSTRepeat string

// The choices of DSTRepeat. The empty string means RepeatFirst for fixed times,
// RepeatBoth for what follows real time.
const (
	RepeatFirst  DSTRepeat = "first"
	RepeatSecond DSTRepeat = "second"
	RepeatBoth   DSTRepeat = "both"
)

// Calendars limits a schedule to days.
type Calendars struct {
	Include []string `msgpack:"i,omitempty" json:"include,omitempty"` // a day must be in one of them
	Exclude []string `msgpack:"e,omitempty" json:"exclude,omitempty"` // and in none of these
	Shift   Shift    `msgpack:"s,omitempty" json:"shift,omitempty"`
}

// Shift tells where a time goes whose day the calendars refuse.
type Shift string

// The choices of Shift. The empty string means ShiftNone.
const (
	ShiftNone     Shift = "none" // it is left out
	ShiftNext     Shift = "next" // to the next day that they allow
	ShiftPrevious Shift = "previous"
)

// Overlap tells what becomes of a time at which what the schedule fired before has
// not ended.
type Overlap string

// The choices of Overlap. The empty string means OverlapSkip.
const (
	OverlapSkip        Overlap = "skip"         // it is left out
	OverlapQueueOne    Overlap = "queue_one"    // it waits; of those that wait the oldest is kept
	OverlapLatest      Overlap = "latest"       // it waits; of those that wait the newest is kept
	OverlapQueueAll    Overlap = "queue_all"    // it waits, and as many as QueueCap
	OverlapCancelOther Overlap = "cancel_other" // what runs is cancelled for it
	OverlapAllow       Overlap = "allow"        // it fires all the same
)

// Misfire tells what becomes of the times at which nobody could fire for longer
// than the tolerance.
type Misfire string

// The choices of Misfire. The empty string means MisfireNone.
const (
	MisfireNone   Misfire = "none"   // they are missed
	MisfireLatest Misfire = "latest" // the newest is made up for
	MisfireAll    Misfire = "all"    // all are, one after the other, as far as window and cap allow
)

// What holds where a schedule says nothing else.
const (
	DefaultQueueCap      = 100
	DefaultMisfireCap    = 100
	DefaultMisfireWindow = Duration(24 * time.Hour)
	DefaultTolerance     = Duration(time.Minute)
)

// The limits of schedules.
const (
	MaxQueueCap      = 1000
	MaxMisfireCap    = 1000
	MaxMisfireWindow = Duration(366 * day)
	MaxTolerance     = Duration(day)
	MaxJitter        = Duration(day)
	MinEvery         = Duration(time.Second)
	MaxUpstreams     = 32
	MaxCalendarsOf   = 16        // calendars that a schedule names, in each of its lists
	MaxFilter        = 4 << 10   // bytes of an event's filter
	MaxCron          = 1 << 10   // bytes of a cron expression
	maxTimezone      = 64        // bytes
	maxRunBudget     = 1<<31 - 1 // of max_runs
	maxScheduleBytes = 64 << 10  // of params, together
)

// OverlapOrDefault returns the rule for overlaps.
func (s *ScheduleSpec) OverlapOrDefault() Overlap { return cmp.Or(s.Overlap, OverlapSkip) }

// MisfireOrDefault returns the rule for missed times.
func (s *ScheduleSpec) MisfireOrDefault() Misfire { return cmp.Or(s.Misfire, MisfireNone) }

// QueueCapOrDefault returns how many times queue_all lets wait.
func (s *ScheduleSpec) QueueCapOrDefault() int { return cmp.Or(s.QueueCap, DefaultQueueCap) }

// MisfireCapOrDefault returns how many missed times are made up for.
func (s *ScheduleSpec) MisfireCapOrDefault() int { return cmp.Or(s.MisfireCap, DefaultMisfireCap) }

// MisfireWindowOrDefault returns how old a missed time may be that is made up for.
func (s *ScheduleSpec) MisfireWindowOrDefault() Duration {
	if s.MisfireWindow == nil {
		return DefaultMisfireWindow
	}
	return *s.MisfireWindow
}

// ToleranceOrDefault returns how late a time may be that is not missed.
func (s *ScheduleSpec) ToleranceOrDefault() Duration {
	if s.Tolerance == nil {
		return DefaultTolerance
	}
	return *s.Tolerance
}

// TimezoneOrDefault returns the name of the time zone.
func (s *ScheduleSpec) TimezoneOrDefault() string { return cmp.Or(s.Timezone, "UTC") }

// PeriodOrDefault returns the period.
func (a *After) PeriodOrDefault() Period { return cmp.Or(a.Period, PeriodDay) }

// CronText is a cron expression. One that is given and empty, say since a template had
// nothing to fill in, is refused: it would be a schedule that never fires.
type CronText string

// UnmarshalText implements encoding.TextUnmarshaler.
func (c *CronText) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		return Invalid("", "must not be empty: leave it out of a schedule without times", "")
	}
	*c = CronText(b)
	return nil
}

// Timed reports whether the schedule has times of its own.
func (s *ScheduleSpec) Timed() bool { return s.Cron != "" || s.Every != 0 || s.At != 0 }

// ByPeriod reports whether the schedule fires once in each period, after others.
func (s *ScheduleSpec) ByPeriod() bool { return s.After != nil && !s.Timed() }

// WaitsUntil is when a time of the period from start to end has waited for upstreams
// as long as it may.
func (s *ScheduleSpec) WaitsUntil(nominal, start, end time.Time) time.Time {
	from := nominal
	if s.ByPeriod() {
		from = end
	}
	return from.Add(cmp.Or(s.After.Wait.Std(), end.Sub(start)))
}
