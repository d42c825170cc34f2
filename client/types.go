package client

import (
	"encoding/json"
	"time"

	"github.com/axd-project/axd/job"
)

// SubmitRequest asks for one task: a job's name or an executor, and what this
// task wants otherwise than its job.
type SubmitRequest struct {
	Job string `json:"job,omitempty"`
	job.Executor
	job.Policy
	Payload           json.RawMessage `json:"payload,omitempty"`
	ExecuteTime       string          `json:"execute_time,omitempty"` // RFC 3339 with an offset; excludes delay
	Delay             *job.Duration   `json:"delay,omitempty"`
	IdempotencyKey    string          `json:"idempotency_key,omitempty"`
	IdempotencyWindow *job.Duration   `json:"idempotency_window,omitempty"`
	// IdempotencyPeriod: the key holds within each period of due times, in place of a window.
	IdempotencyPeriod *job.Duration         `json:"idempotency_period,omitempty"`
	IdempotencyPolicy job.IdempotencyPolicy `json:"idempotency_policy,omitempty"` // return (default), reject or replace
	UniqueKey         string                `json:"unique_key,omitempty"`         // at most one task of it has not ended
}

// BatchRequest asks for up to 10,000 tasks, each on its own.
type BatchRequest struct {
	Tasks []json.RawMessage `json:"tasks"` // each a SubmitRequest: a bad one spoils itself alone
}

// BatchResult is the answer for one task of a batch.
type BatchResult struct {
	ID           string   `json:"id,omitempty"`
	Deduplicated *bool    `json:"deduplicated,omitempty"`
	Error        *Problem `json:"error,omitempty"`
}

// BatchResponse answers a batch, in order.
type BatchResponse struct {
	Results []BatchResult `json:"results"`
}

// Task is a task as the API shows it. Absent times have not come yet.
type Task struct {
	ID              string        `json:"id"`
	Namespace       string        `json:"namespace"`
	Job             string        `json:"job,omitempty"`
	Run             string        `json:"run,omitempty"`          // whose step the task is
	Step            string        `json:"step,omitempty"`         // which
	Item            uint32        `json:"item,omitempty"`         // of a step that fans out: the number of its item; numbers go on when the step runs again
	Schedule        string        `json:"schedule,omitempty"`     // that fired it
	NominalTime     *time.Time    `json:"nominal_time,omitempty"` // the time of the schedule that it is for
	Executor        *job.Executor `json:"executor,omitempty"`     // of a task without job; shown for one task, not in lists
	State           string        `json:"state"`
	Priority        string        `json:"priority"`
	ExecuteTime     *time.Time    `json:"execute_time,omitempty"` // of the next or latest attempt
	CreatedAt       time.Time     `json:"created_at"`
	DispatchedAt    *time.Time    `json:"dispatched_at,omitempty"`
	StartedAt       *time.Time    `json:"started_at,omitempty"`
	FinishedAt      *time.Time    `json:"finished_at,omitempty"`
	Duration        *job.Duration `json:"duration,omitempty"` // started to finished
	ExitCode        *int          `json:"exit_code,omitempty"`
	RetryCount      int           `json:"retry_count"`
	MaxRetries      int           `json:"max_retries"`
	LastError       string        `json:"last_error,omitempty"`
	Attempt         int           `json:"attempt"`
	Worker          string        `json:"worker,omitempty"`
	WorkerAddress   string        `json:"worker_address,omitempty"`
	IdempotencyKey  string        `json:"idempotency_key,omitempty"`
	UniqueKey       string        `json:"unique_key,omitempty"`
	FairnessKey     string        `json:"fairness_key,omitempty"`    // its own or its job's, as it was when it was submitted
	ConcurrencyKey  string        `json:"concurrency_key,omitempty"` // as the payload held it when it was submitted
	RateKey         string        `json:"rate_key,omitempty"`
	CancelRequested bool          `json:"cancel_requested,omitempty"`
	// Armed: dispatched ahead of execute_time; the worker starts it at that time.
	Armed bool `json:"armed,omitempty"`
	// RescheduleRequested: an armed task is to be moved, once its worker gives it back.
	RescheduleRequested bool `json:"reschedule_requested,omitempty"`
	// RescheduleTooLate: a requested move did not happen, since the attempt had started.
	RescheduleTooLate bool            `json:"reschedule_too_late,omitempty"`
	Deduplicated      bool            `json:"deduplicated,omitempty"`   // in the answer of a submit
	DeadLetter        bool            `json:"dead_letter,omitempty"`    // failed for good, and kept for a replay
	Compensates       string          `json:"compensates,omitempty"`    // the failed task that this one makes good for
	CompensatedBy     string          `json:"compensated_by,omitempty"` // the task that makes good for this one
	App               string          `json:"app,omitempty"`
	Owner             string          `json:"owner,omitempty"`
	CallbackURL       string          `json:"callback_url,omitempty"`
	CallbackJob       string          `json:"callback_job,omitempty"`
	CallbackSecret    string          `json:"callback_secret,omitempty"` // that the requests are signed with
	CallbackOn        []string        `json:"callback_on,omitempty"`
	CallbackOf        string          `json:"callback_of,omitempty"` // the task whose callback_job this one is
	Callback          *Callback       `json:"callback,omitempty"`    // the newest one; shown for one task, not in lists
	Parent            string          `json:"parent,omitempty"`      // the broadcast that the task is a part of
	BoundTo           string          `json:"bound_to,omitempty"`    // the worker that alone may run it
	Broadcast         *Broadcast      `json:"broadcast,omitempty"`   // of a task that goes to every worker that fits
	Parts             []Part          `json:"parts,omitempty"`       // of a broadcast, the first 100; shown for one task, not in lists
	Done              []Done          `json:"done,omitempty"`        // what attempts have recorded as done; shown for one task, not in lists
	Payload           json.RawMessage `json:"payload,omitempty"`     // shown for one task, not in lists
}

// TaskList is a page of tasks.
type TaskList struct {
	Tasks      []Task `json:"tasks"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Attempt is one dispatch of a task.
type Attempt struct {
	Number        int             `json:"attempt"`
	Worker        string          `json:"worker"`
	WorkerAddress string          `json:"worker_address,omitempty"`
	Token         string          `json:"fencing_token"`
	JobVersion    uint64          `json:"job_version,omitempty"`
	DispatchedAt  time.Time       `json:"dispatched_at"`
	StartedAt     *time.Time      `json:"started_at,omitempty"`
	FinishedAt    *time.Time      `json:"finished_at,omitempty"`
	Outcome       string          `json:"outcome,omitempty"`
	ExitCode      *int            `json:"exit_code,omitempty"`
	Error         string          `json:"error,omitempty"`
	ErrorClass    string          `json:"error_class,omitempty"` // for the job's retry filter
	StdoutTail    string          `json:"stdout_tail,omitempty"` // bytes that aren't UTF-8 become U+FFFD
	StderrTail    string          `json:"stderr_tail,omitempty"`
	Output        json.RawMessage `json:"output,omitempty"`  // as JSON if it is, else as a JSON string
	LateMS        *int64          `json:"late_ms,omitempty"` // start minus due, by the worker
	LateResults   []LateResult    `json:"late_results,omitempty"`
}

// LateResult is a report that was refused because the token had ended.
type LateResult struct {
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome"`
	Error   string    `json:"error,omitempty"`
}

// Callback is what is owed to a URL or a job for the end of a task.
type Callback struct {
	ID         string     `json:"id"` // sent as webhook-id: the same however often it is sent
	Namespace  string     `json:"namespace"`
	Task       string     `json:"task_id"`
	State      string     `json:"state"` // owed, delivered, dead
	URL        string     `json:"url,omitempty"`
	Secret     string     `json:"secret,omitempty"` // that its requests are signed with
	Job        string     `json:"job,omitempty"`    // to run with the result
	RunAs      string     `json:"run_as,omitempty"` // the task that runs the job
	TaskState  string     `json:"task_state"`       // that is told
	Tries      int        `json:"tries"`            // since it was owed, or last asked for
	CreatedAt  time.Time  `json:"created_at"`
	NextTry    *time.Time `json:"next_try,omitempty"` // while owed
	LastTry    *time.Time `json:"last_try,omitempty"`
	SettledAt  *time.Time `json:"settled_at,omitempty"`  // delivered or dead
	LastStatus int        `json:"last_status,omitempty"` // HTTP status of the last answer
	LastError  string     `json:"last_error,omitempty"`
}

// CallbackList is a page of callbacks.
type CallbackList struct {
	Callbacks  []Callback `json:"callbacks"`
	NextCursor string     `json:"next_cursor,omitempty"`
}

// AttemptList holds a task's kept attempts, oldest first.
type AttemptList struct {
	Attempts []Attempt `json:"attempts"`
}

// RescheduleRequest moves a task that has not started.
type RescheduleRequest struct {
	ExecuteTime string        `json:"execute_time,omitempty"`
	Delay       *job.Duration `json:"delay,omitempty"`
	Priority    job.Priority  `json:"priority,omitempty"`
}

// CancelRequest ends a task.
type CancelRequest struct {
	Reason string `json:"reason,omitempty"`
}

// Job is a job's definition.
type Job struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	job.Spec
	Version   uint64           `json:"version,omitempty"`
	CreatedAt *time.Time       `json:"created_at,omitempty"`
	UpdatedAt *time.Time       `json:"updated_at,omitempty"`
	FileSet   string           `json:"file_set,omitempty"` // whose files describe it, as axd apply noted; kept where a PUT lacks it
	Tasks     map[string]int64 `json:"tasks,omitempty"`    // number by stored state; shown for one job
	// DeadLetters is how many of its tasks wait for a replay or a discard; shown for one job.
	DeadLetters *int64 `json:"dead_letters,omitempty"`
	Paused      *Pause `json:"paused,omitempty"` // read-only; see PauseJob
}

// Pause tells who paused something, and why.
type Pause struct {
	At     time.Time `json:"at"`
	Reason string    `json:"reason,omitempty"`
	Actor  string    `json:"actor,omitempty"`
}

// JobList is a page of jobs.
type JobList struct {
	Jobs       []Job  `json:"jobs"`
	NextCursor string `json:"next_cursor,omitempty"`
}

// Worker is a worker as the API shows it.
type Worker struct {
	Name      string            `json:"name"`
	Address   string            `json:"address,omitempty"`
	State     string            `json:"state"` // alive, draining, suspect, lost or, after an orderly stop, stopped
	Running   int               `json:"running"`
	Armed     int               `json:"armed"` // dispatched ahead of their time: they hold no slot yet
	Slots     int               `json:"slots"`
	Labels    map[string]string `json:"labels,omitempty"`
	Version   string            `json:"version,omitempty"`
	StartedAt *time.Time        `json:"started_at,omitempty"`
	LastSeen  *time.Time        `json:"last_seen,omitempty"`

	Priorities []job.Priority `json:"priorities,omitempty"` // that it takes; absent: all

	Draining      bool       `json:"draining,omitempty"`       // it is given nothing new, also where its state says more
	DrainDeadline *time.Time `json:"drain_deadline,omitempty"` // of a drain: what still runs then is given back
}

// WorkerList is a page of workers.
type WorkerList struct {
	Workers    []Worker `json:"workers"`
	NextCursor string   `json:"next_cursor,omitempty"`
}

// Server is a server of the cluster.
type Server struct {
	Name    string `json:"name"`
	State   string `json:"state"` // alive, suspect, lost, unknown
	Leader  bool   `json:"leader"`
	Voter   bool   `json:"voter"`
	RPC     string `json:"rpc_address,omitempty"`
	HTTP    string `json:"http_address,omitempty"`
	Gossip  string `json:"gossip_address,omitempty"`
	Version string `json:"version,omitempty"`
}

// Cluster is what GET /v1/cluster answers.
type Cluster struct {
	ID           string       `json:"id"`
	Leader       string       `json:"leader"` // the server's name; empty: none
	Term         uint64       `json:"term"`
	Applied      uint64       `json:"applied_index"`
	FeatureLevel uint32       `json:"feature_level"`
	Now          time.Time    `json:"now"` // the cluster's clock as this server knows it
	Alerts       AlertSummary `json:"alerts"`
	Settings     job.Settings `json:"settings"` // those that operators have set
	Servers      []Server     `json:"servers"`
	Workers      []Worker     `json:"workers"`
}

// AlertSummary is how many alerts are open.
type AlertSummary struct {
	Open   int    `json:"open"`
	Newest *Alert `json:"newest,omitempty"` // of the open ones
}

// Breaker counts failures in a row: of a worker, of a worker and a job, or of an
// HTTP target. An open one keeps tasks away until open_until; then one goes through.
type Breaker struct {
	Kind      string     `json:"kind"`  // worker, worker_job, target
	State     string     `json:"state"` // closed, open, half_open
	Worker    string     `json:"worker,omitempty"`
	Namespace string     `json:"namespace,omitempty"`
	Job       string     `json:"job,omitempty"`
	Target    string     `json:"target,omitempty"`
	Failures  int        `json:"failures"` // in a row
	Opened    int        `json:"opened"`   // times in a row
	OpenUntil *time.Time `json:"open_until,omitempty"`
	LastError string     `json:"last_error,omitempty"`
	ChangedAt *time.Time `json:"changed_at"`
}

// BreakerList is what GET /v1/breakers answers. There are at most 1000 breakers;
// where nothing fails there are none.
type BreakerList struct {
	Breakers []Breaker `json:"breakers"`
}

// Alert is something that operators should know. Raised again it counts up.
type Alert struct {
	Kind           string    `json:"kind"`    // clock_skew, clock_absurd, clock_step, suspend, disk_low, diverged
	Subject        string    `json:"subject"` // what it is about: a server's name, or cluster
	State          string    `json:"state"`   // open, acknowledged, resolved
	Text           string    `json:"text"`
	Count          uint64    `json:"count"` // times it was raised
	First          time.Time `json:"first"`
	Last           time.Time `json:"last"` // when it was raised last
	Changed        time.Time `json:"changed"`
	AcknowledgedBy string    `json:"acknowledged_by,omitempty"`
}

// AlertList is what GET /v1/alerts answers: the latest changes first. There are
// at most 1000 alerts.
type AlertList struct {
	Alerts []Alert `json:"alerts"`
}

// AckRequest acknowledges an alert.
type AckRequest struct {
	Actor string `json:"actor,omitempty"` // who has seen it
}

// Stats is what GET /v1/stats answers: numbers by state.
type Stats struct {
	Namespace string           `json:"namespace,omitempty"`
	Tasks     map[string]int64 `json:"tasks"`   // pending, dispatched, running, success, ...
	Ready     int64            `json:"ready"`   // due and not yet assigned, by the leader; -1 unknown
	Workers   map[string]int   `json:"workers"` // by state
	// DeadLetters is how many tasks wait for a replay or a discard.
	DeadLetters int64 `json:"dead_letters"`
	Slots       int   `json:"slots"`
	Busy        int   `json:"busy"`
}

// Problem is an RFC 9457 problem document.
type Problem struct {
	Type   string         `json:"type"`
	Title  string         `json:"title"`
	Status int            `json:"status"`
	Detail string         `json:"detail,omitempty"`
	Code   job.Code       `json:"code"`
	Field  string         `json:"field,omitempty"`
	Errors []ProblemField `json:"errors,omitempty"`
	// RetryAfter repeats the Retry-After header, in seconds.
	RetryAfter int `json:"retry_after,omitempty"`
}

// ProblemField is one field at fault.
type ProblemField struct {
	Field string `json:"field"`
	Rule  string `json:"rule"`
	Value string `json:"value,omitempty"`
}

// LogChunk is one event of GET /v1/tasks/{id}/logs?follow=true.
type LogChunk struct {
	Stream  string `json:"stream"` // stdout or stderr
	Data    string `json:"data"`   // bytes that aren't UTF-8 become U+FFFD
	Skipped int64  `json:"skipped,omitempty"`
}
