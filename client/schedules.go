package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/axd-project/axd/job"
)

// Schedule is a plan with how far it has come.
type Schedule struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	job.ScheduleSpec
	FileSet string `json:"file_set,omitempty"` // of the files that describe it; absent in a request: as it was

	// Read-only.
	Version   uint64          `json:"version,omitempty"`
	CreatedAt *time.Time      `json:"created_at,omitempty"`
	UpdatedAt *time.Time      `json:"updated_at,omitempty"`
	Status    *ScheduleStatus `json:"status,omitempty"`
}

// ScheduleStatus is what changes of a schedule.
type ScheduleStatus struct {
	State    string         `json:"state"` // waiting (for its next time), idle (it has none), paused, broken
	Paused   *SchedulePause `json:"paused,omitempty"`
	Broken   string         `json:"broken,omitempty"`    // why its times can't be told; it fires by hand alone
	NextTime *time.Time     `json:"next_time,omitempty"` // planned; absent while it is paused or broken
	NextFire *time.Time     `json:"next_fire,omitempty"` // when it is due: later where there is jitter
	LastTime *time.Time     `json:"last_time,omitempty"` // nominal time of the last fire
	LastFire *time.Time     `json:"last_fire,omitempty"` // when that was decided
	LastTask string         `json:"last_task,omitempty"` // that it made
	LastRun  string         `json:"last_run,omitempty"`  // that it made
	Active   int            `json:"active"`              // tasks, runs and lists that have not ended
	Queued   int            `json:"queued"`              // times that wait for those
	Waiting  int            `json:"waiting"`             // times that wait for what the schedule comes after
	Waits    []ScheduleWait `json:"waits,omitempty"`     // these, the first of them; not in a list
	Failures int            `json:"failures_in_a_row"`   // of what it fired
	// Unfired are times in a row, up to the last, that should have been fired and were
	// not: missed, or refused. They raise an alert.
	Unfired int64          `json:"unfired,omitempty"`
	Counts  ScheduleCounts `json:"counts"`
	// LedgerSince: verdicts on times up to this one are kept no more.
	LedgerSince *time.Time `json:"ledger_since,omitempty"`
}

// ScheduleWait is a time that waits for what its schedule comes after.
type ScheduleWait struct {
	Nominal time.Time          `json:"nominal"`
	Until   time.Time          `json:"until"` // the longest that it waits
	Begin   time.Time          `json:"begin"` // of its period
	End     time.Time          `json:"end"`
	For     []ScheduleUpstream `json:"for"`
}

// ScheduleUpstream is how far what a time waits for has come in its period.
type ScheduleUpstream struct {
	job.Upstream
	Need      int    `json:"need"`      // times that must have succeeded
	Succeeded int    `json:"succeeded"` // that have, as far as they count
	Lacks     bool   `json:"lacks"`
	Note      string `json:"note,omitempty"` // why it can't be complete
}

// SchedulePause tells who paused a schedule, and why.
type SchedulePause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Actor  string    `json:"actor,omitempty"`
	Auto   bool      `json:"auto,omitempty"` // by pause_after_failures
}

// ScheduleCounts is what has become of a schedule's times since it was created.
type ScheduleCounts struct {
	Fired     int64 `json:"fired"`
	Merged    int64 `json:"merged"`
	Skipped   int64 `json:"skipped"`
	Refused   int64 `json:"refused"` // of the skipped: those whose task or run could not be made
	Missed    int64 `json:"missed"`
	Succeeded int64 `json:"succeeded"` // tasks, runs and lists
	Failed    int64 `json:"failed"`    // failed or timed out
	Dropped   int64 `json:"dropped"`   // verdicts that went before their retention, beyond the schedule's share of the ledgers
}

// ScheduleList is a page of schedules by name.
type ScheduleList struct {
	Schedules  []Schedule `json:"schedules"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// PauseRequest pauses a schedule or a job.
type PauseRequest struct {
	Reason string `json:"reason,omitempty"`
}

// TriggerRequest fires a schedule by hand.
type TriggerRequest struct {
	Payload job.JSON   `json:"payload,omitempty"` // of a job's task, in place of the schedule's
	Params  job.Values `json:"params,omitempty"`  // of a workflow's run, over the schedule's
}

// PlannedTime is a time at which a schedule fires.
type PlannedTime struct {
	At   string `json:"at"`             // RFC 3339 with the zone's offset
	Due  string `json:"due,omitempty"`  // the same put off by jitter
	Wall string `json:"wall"`           // the planned wall time in the schedule's zone
	Note string `json:"note,omitempty"` // what the clock change or the calendars made of it
}

// PlannedTimes is what GET /v1/schedules/{name}/next answers.
type PlannedTimes struct {
	Timezone string        `json:"timezone"`
	Words    string        `json:"words,omitempty"` // when it fires, in English
	State    string        `json:"state"`           // of the schedule: one that is paused lets them pass
	Times    []PlannedTime `json:"times"`
}

// Fire is a row of a schedule's ledger: what became of one of its times, or of a
// span of them that had the same fate.
type Fire struct {
	Nominal time.Time     `json:"nominal"`           // the time that it was planned for; of a span the first
	Wall    string        `json:"wall,omitempty"`    // the same by the clocks of the schedule's zone
	Until   *time.Time    `json:"until,omitempty"`   // of a span: the last
	Count   int64         `json:"count,omitempty"`   // of a span; absent: nobody counted
	Origin  string        `json:"origin"`            // plan, manual, event, backfill
	Verdict string        `json:"verdict"`           // planned (its task is made, and waits for its time), queued, waiting, fired, merged, skipped, missed
	Why     string        `json:"why,omitempty"`     // of a verdict other than fired
	Error   string        `json:"error,omitempty"`   // why its task could not be made, or what it waits for or lacks
	Decided time.Time     `json:"decided_at"`        // when it got its verdict
	Due     *time.Time    `json:"due,omitempty"`     // the nominal time, put off by jitter
	LateBy  *job.Duration `json:"late_by,omitempty"` // from due to its fire
	Into    *time.Time    `json:"into,omitempty"`    // of a merged one: the time that stands for it
	Task    string        `json:"task,omitempty"`    // that it made
	Run     string        `json:"run,omitempty"`     // that it made
	List    *ComparedList `json:"list,omitempty"`    // of a schedule with a reconcile_url
	Actor   string        `json:"actor,omitempty"`   // who fired it by hand, the event, or what it waited for last
	CatchUp bool          `json:"catch_up,omitempty"`
}

// FireList is a page of a schedule's ledger, the newest time first.
type FireList struct {
	Fires      []Fire `json:"fires"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// ComparedList tells what came of the list that a fire is to fetch and compare.
type ComparedList struct {
	State       string           `json:"state"` // owed, done or failed
	Tries       int              `json:"tries"`
	NextTry     *time.Time       `json:"next_try,omitempty"` // while owed
	EndedAt     *time.Time       `json:"ended_at,omitempty"`
	LastStatus  int              `json:"last_status,omitempty"` // HTTP status of the last answer
	LastError   string           `json:"last_error,omitempty"`
	Same        int              `json:"same"`
	Differs     int              `json:"differs"`
	Missing     int              `json:"missing"`
	Submitted   int              `json:"submitted"`             // of the missing ones
	Replayed    int              `json:"replayed"`              // of those that differ
	Wrong       int              `json:"wrong"`                 // could not be compared, submitted or replayed
	Differences []ListDifference `json:"differences,omitempty"` // the first ten
}

// ListDifference is a key whose task is not as its list said.
type ListDifference struct {
	IdempotencyKey string `json:"idempotency_key"`
	Believed       string `json:"believed,omitempty"`
	Verdict        string `json:"verdict,omitempty"` // differs or missing; absent where there is an error
	ID             string `json:"id,omitempty"`
	State          string `json:"state,omitempty"`
	Submitted      bool   `json:"submitted,omitempty"`
	Replayed       bool   `json:"replayed,omitempty"`
	Error          string `json:"error,omitempty"`
}

// FireFilter selects rows of a ledger; empty fields don't filter.
type FireFilter struct {
	Verdict string
	From    string // nominal time at or after, RFC 3339
	To      string // nominal time before, RFC 3339
}

// PutSchedule creates a schedule or, where it exists and differs, its next version.
func (c *Client) PutSchedule(ctx context.Context, name string, spec job.ScheduleSpec) (Schedule, error) {
	return c.PutScheduleFromFile(ctx, name, "", spec)
}

// PutScheduleFromFile is PutSchedule that notes the set of files which describe it.
func (c *Client) PutScheduleFromFile(ctx context.Context, name, fileSet string, spec job.ScheduleSpec) (Schedule, error) {
	var out Schedule
	err := c.call(ctx, request{
		method: http.MethodPut, path: schedulePath(name), body: Schedule{Name: name, ScheduleSpec: spec, FileSet: fileSet}, again: true,
	}, &out)
	return out, err
}

// Schedule returns one schedule.
func (c *Client) Schedule(ctx context.Context, name string) (Schedule, error) {
	var out Schedule
	err := c.get(ctx, schedulePath(name), nil, &out)
	return out, err
}

// Schedules returns a page of schedules by name.
func (c *Client) Schedules(ctx context.Context, limit int, cursor string) (ScheduleList, error) {
	var out ScheduleList
	err := c.get(ctx, "/v1/schedules", page(limit, cursor), &out)
	return out, err
}

// DeleteSchedule removes a schedule; what it fired goes on.
func (c *Client) DeleteSchedule(ctx context.Context, name string) error {
	return c.call(ctx, request{method: http.MethodDelete, path: schedulePath(name)}, nil)
}

// PauseSchedule stops a schedule's times.
func (c *Client) PauseSchedule(ctx context.Context, name, reason string) (Schedule, error) {
	var out Schedule
	err := c.call(ctx, request{method: http.MethodPost, path: schedulePath(name) + "/pause", body: PauseRequest{reason}}, &out)
	return out, err
}

// ResumeSchedule ends a pause.
func (c *Client) ResumeSchedule(ctx context.Context, name string) (Schedule, error) {
	var out Schedule
	err := c.call(ctx, request{method: http.MethodPost, path: schedulePath(name) + "/resume", body: struct{}{}}, &out)
	return out, err
}

// TriggerSchedule fires a schedule by hand.
func (c *Client) TriggerSchedule(ctx context.Context, name string, r TriggerRequest) (Fire, error) {
	var out Fire
	err := c.call(ctx, request{method: http.MethodPost, path: schedulePath(name) + "/trigger", body: r}, &out)
	return out, err
}

// NextTimes returns up to count times of a schedule after from, RFC 3339; empty: now.
func (c *Client) NextTimes(ctx context.Context, name, from string, count int) (PlannedTimes, error) {
	q := url.Values{"count": {strconv.Itoa(count)}}
	if from != "" {
		q.Set("from", from)
	}
	var out PlannedTimes
	err := c.get(ctx, schedulePath(name)+"/next", q, &out)
	return out, err
}

// Fires returns a page of a schedule's ledger, the newest time first.
func (c *Client) Fires(ctx context.Context, name string, f FireFilter, limit int, cursor string) (FireList, error) {
	q := page(limit, cursor)
	for name, value := range map[string]string{"verdict": f.Verdict, "from": f.From, "to": f.To} {
		if value != "" {
			q.Set(name, value)
		}
	}
	var out FireList
	err := c.get(ctx, schedulePath(name)+"/fires", q, &out)
	return out, err
}

func schedulePath(name string) string { return "/v1/schedules/" + url.PathEscape(name) }
