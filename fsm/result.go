package fsm

import "github.com/axd-project/axd/job"

// Result is the answer to one command: an error the caller can act on, or what
// the verb produced. A rejected command is a committed result, distinct from
// one that was not committed.
type Result struct {
	Err   *job.Error     `msgpack:"e,omitempty"`
	Tasks []SubmitResult `msgpack:"t,omitempty"` // Submit: one per task, in order
	// Assign: one per item, in order.
	Assigned []AssignResult `msgpack:"a,omitempty"`
	// DeadLetters by ids, GiveBack, LoseAttempts (Unstarted last), TimeOut: one per attempt or task, in order; nil where it took effect.
	Attempts []*job.Error `msgpack:"A,omitempty"`
	Task     *Task        `msgpack:"k,omitempty"` // the task after Started, Finished, Cancel, Reschedule
	Version  uint64       `msgpack:"v,omitempty"` // PutJob: the job's version
	Changed  bool         `msgpack:"c,omitempty"` // PutJob: there is a new version; DeleteJob, Configure, Checksum, the worker verbs and every Acting command: something was written
	Deleted  int          `msgpack:"d,omitempty"` // Expire: records deleted; DeadLetters by a filter: tasks replayed or discarded
	More     bool         `msgpack:"m,omitempty"` // Expire: call again; DeadLetters: it goes on by itself
	Refused  int          `msgpack:"x,omitempty"` // DeadLetters: tasks that could not be replayed
	Run      *Run         `msgpack:"r,omitempty"` // the run after the verbs about runs
	Backfill *Backfill    `msgpack:"b,omitempty"` // PutBackfill, CancelBackfill
	Sent     *SentEvent   `msgpack:"s,omitempty"` // SendEvent: Changed false where it had been sent before
	Fire     *Fire        `msgpack:"f,omitempty"` // TriggerSchedule: what became of it
	DeadAct  *DeadAct     `msgpack:"D,omitempty"` // DeadLetters by a filter, CancelDeadAct: the act after it
	Done     *Done        `msgpack:"o,omitempty"` // RecordDone: Changed false where it had been recorded before
}

// SubmitResult is the answer for one submitted task.
type SubmitResult struct {
	Err          *job.Error `msgpack:"e,omitempty"`
	ID           job.ID     `msgpack:"i,omitempty"`
	Task         *Task      `msgpack:"t,omitempty"` // EncodeResult keeps it only where one task was submitted
	Deduplicated bool       `msgpack:"d,omitempty"`

	// Where one task was created: what it leaves to its job, and where its worker
	// is, so that the answer to its caller needs no look at the state.
	App     string `msgpack:"A,omitempty"`
	Owner   string `msgpack:"O,omitempty"`
	Address string `msgpack:"W,omitempty"`
	// Callback is what its end will be told to; nil: nobody asked.
	Callback *CallbackWish `msgpack:"C,omitempty"`
}

// CallbackWish is what a task and its job together say of its callback.
type CallbackWish struct {
	URL    string   `msgpack:"u,omitempty"`
	Job    string   `msgpack:"j,omitempty"`
	Secret string   `msgpack:"s,omitempty"`
	On     []string `msgpack:"o,omitempty"`
}

// AssignResult is the answer for one assigned task.
type AssignResult struct {
	Err     *job.Error `msgpack:"e,omitempty"`
	Attempt uint32     `msgpack:"n,omitempty"`
	Token   job.Token  `msgpack:"k,omitempty"`
	Version uint64     `msgpack:"v,omitempty"` // the task's new version
}

// ActiveAttempt is an attempt that a worker holds according to state.
type ActiveAttempt struct {
	AttemptRef `msgpack:",inline"`
	Worker     string `msgpack:"w"`
	Attempt    uint32 `msgpack:"n"`
	Boot       string `msgpack:"b,omitempty"`
	Running    bool   `msgpack:"u,omitempty"`
	Due        int64  `msgpack:"d"` // of the task, Unix ms; later than now: the attempt is armed

	Priority job.Priority `msgpack:"p,omitempty"` // of the task
}

// EventKind tells what an Event reports.
type EventKind uint8

// The kinds of event.
const (
	EventPending       EventKind = iota + 1 // a task became pending, or moved: look at Due and Priority
	EventAssigned                           // dispatched to Worker
	EventRunning                            // started
	EventAttemptEnded                       // an attempt of Worker ended; a slot is free
	EventEnded                              // a task reached a terminal state
	EventCancelWanted                       // an active task was asked to end
	EventRevokeWanted                       // an armed task was asked to be given back
	EventWorkerChanged                      // registered, lost, draining, forgotten
	EventJobChanged                         // a job was put or deleted
	EventSettings                           // the cluster's settings: look them up
	EventBreaker                            // a breaker opened, or one that was open closed
	EventCallback                           // a callback is owed, or due at another time
	EventRunOwed                            // a run is to be continued
	EventRunEnded                           // a run has ended
	EventSchedule                           // a schedule's next time, or what decides it, is another one
	EventStepWanted                         // a step of a run waits for a verdict
	EventScheduleAct                        // an act on schedules is to go on
	EventListOwed                           // a list is to be fetched, or at another time
	EventBroadcast                          // a broadcast has become tasks for workers, and waits for them
)

// ScheduleEvent tells of an EventSchedule when the leader is to look at the schedule.
type ScheduleEvent struct {
	Ref   ScheduleRef
	Waits bool  // it has a row in the index of next times
	At    int64 // by that row, Unix ms; 0: at once
}

// Event is a hint to the leader's memory that a task or worker changed. A lost
// event costs delay, never a task: everything can be rebuilt from state.
type Event struct {
	Kind    EventKind
	Task    *Task // the task after the change; nil for worker events
	Outcome job.Outcome
	Worker  string
	Token   job.Token

	JobVersion     uint64    // of EventAssigned: of the task's job
	Namespace, Job string    // of EventJobChanged
	Breaker        *Breaker  // of EventBreaker; OpenUntil 0: it closed
	Callback       *Callback // of EventCallback
	Run            *Run      // of EventRunOwed and EventRunEnded: after the change
	Schedule       *ScheduleEvent
	List           *ListFetch // of EventListOwed
}
