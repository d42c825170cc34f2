package job

import (
	"cmp"
	"slices"
)

// ReasonCode is the stable name of a reason why a task isn't running, or ended as
// it did.
type ReasonCode string

// The codes. They are part of the API: append to the list, never rename. What is
// new also takes its place in reasonOrder.
const (
	ReasonNoLeader     ReasonCode = "no_leader"     // nothing is assigned or recorded
	ReasonNoQuorum     ReasonCode = "no_quorum"     // and no leader can be elected
	ReasonLeaderSilent ReasonCode = "leader_silent" // what only the leader knows is missing

	ReasonRestored ReasonCode = "restored" // what ran before a restore may still have its lease
	ReasonNotDue   ReasonCode = "not_due"  // its time has not come
	ReasonRetrying ReasonCode = "retrying" // it waits out the back-off after a failed attempt

	ReasonBlocked       ReasonCode = "blocked"        // other steps of its run have to end first, or its section's time to come
	ReasonRunFull       ReasonCode = "run_full"       // its run has as many tasks at work as it may
	ReasonInParts       ReasonCode = "in_parts"       // others are at work for it: its items, its run, or its parts at workers
	ReasonNoVerdict     ReasonCode = "no_verdict"     // the leader has yet to evaluate its step's expressions
	ReasonRunOwes       ReasonCode = "run_owes"       // its run is being made, or has yet to take in a change
	ReasonNotNeeded     ReasonCode = "not_needed"     // it was skipped
	ReasonUpstream      ReasonCode = "upstream"       // it can't run, since steps that it needs failed
	ReasonPaused        ReasonCode = "paused"         // its job is
	ReasonLowSuspended  ReasonCode = "low_suspended"  // low priority waits while the cluster is busy
	ReasonSlotsReserved ReasonCode = "slots_reserved" // what is free is kept for high priority

	ReasonBreakerOpen ReasonCode = "breaker_open" // attempts failed in a row, at workers or at its HTTP target

	ReasonLimitHeld   ReasonCode = "limit_held"   // as many attempts hold its concurrency limit as may
	ReasonRateLimited ReasonCode = "rate_limited" // its rate lets none begin yet

	ReasonNoWorker    ReasonCode = "no_worker"    // no worker takes work at all
	ReasonNoMatch     ReasonCode = "no_match"     // the connected ones lack something that it asks for
	ReasonWorkersAway ReasonCode = "workers_away" // those that match drain, are lost or aren't connected
	ReasonNoSlot      ReasonCode = "no_slot"      // those that match are full
	ReasonQueued      ReasonCode = "queued"       // it is its turn in a moment

	ReasonWorkerSuspect   ReasonCode = "worker_suspect"   // its worker isn't connected, and its lease runs
	ReasonWorkerRestarted ReasonCode = "worker_restarted" // its worker began a new life, and the old one's lease runs
	ReasonUnacknowledged  ReasonCode = "unacknowledged"   // it has ended on its worker, which is not recorded yet
	ReasonCancelRequested ReasonCode = "cancel_requested" // its worker has yet to confirm the end
	ReasonMoveRequested   ReasonCode = "reschedule_requested"
	ReasonArmed           ReasonCode = "armed"       // its worker starts it when it is due
	ReasonNotStarted      ReasonCode = "not_started" // it was sent; no start was reported
	ReasonRunning         ReasonCode = "running"
	ReasonMoveTooLate     ReasonCode = "reschedule_too_late"

	ReasonSucceeded    ReasonCode = "succeeded"
	ReasonCancelled    ReasonCode = "cancelled"
	ReasonRetriesSpent ReasonCode = "retries_spent" // the last attempt failed, and no retry was left
	ReasonNoRetries    ReasonCode = "no_retries"    // it failed, and asked for none
	ReasonNotRetryable ReasonCode = "non_retryable" // it failed in a way that another attempt can't mend
	ReasonQueueTimeout ReasonCode = "queue_timeout" // no worker took it in time
	ReasonTotalTimeout ReasonCode = "total_timeout" // no time was left for another attempt
	ReasonEnded        ReasonCode = "ended"         // in another way, as its state says

	ReasonCallbackOwed ReasonCode = "callback_owed" // it has ended, and its callback has not been taken yet
	ReasonCallbackDead ReasonCode = "callback_dead" // its callback was given up

	ReasonDeadline ReasonCode = "deadline"  // it ends if it still waits then
	ReasonDiskFull ReasonCode = "disk_full" // servers take nothing new
)

// reasonOrder ranks reasons: what has to go away first comes first.
var reasonOrder = []ReasonCode{
	ReasonNoQuorum, ReasonNoLeader, ReasonLeaderSilent,
	ReasonRunOwes, ReasonBlocked, ReasonRunFull, ReasonInParts, ReasonNoVerdict,
	ReasonRestored, ReasonNotDue, ReasonRetrying, ReasonPaused, ReasonLowSuspended, ReasonBreakerOpen, ReasonLimitHeld, ReasonRateLimited,
	ReasonNoWorker, ReasonNoMatch, ReasonWorkersAway, ReasonSlotsReserved, ReasonNoSlot, ReasonQueued,
	ReasonWorkerSuspect, ReasonWorkerRestarted, ReasonUnacknowledged, ReasonCancelRequested, ReasonMoveRequested,
	ReasonArmed, ReasonNotStarted, ReasonRunning, ReasonMoveTooLate,
	ReasonSucceeded, ReasonCancelled, ReasonRetriesSpent, ReasonNoRetries, ReasonNotRetryable, ReasonQueueTimeout, ReasonTotalTimeout, ReasonNotNeeded, ReasonUpstream, ReasonEnded,
	ReasonCallbackOwed, ReasonCallbackDead,
	ReasonDeadline, ReasonDiskFull,
}

// ReasonTask stands in Reason.Next for the task's id.
const ReasonTask = "$ID"

// Reason is one thing that keeps a task from running, or that ended it. Only the
// fields that its code has a use for are set; times are Unix milliseconds by the
// cluster's clock.
type Reason struct {
	Code  ReasonCode `msgpack:"c"`
	Text  string     `msgpack:"t"`           // a sentence for people
	Next  string     `msgpack:"n,omitempty"` // what they can do; may hold ReasonTask
	Since int64      `msgpack:"s,omitempty"`
	Until int64      `msgpack:"u,omitempty"` // when it goes away by itself

	Worker      string  `msgpack:"w,omitempty"`
	Workers     int     `msgpack:"W,omitempty"` // how many were looked at
	Unmet       []Unmet `msgpack:"m,omitempty"`
	Slots       int     `msgpack:"l,omitempty"` // of the workers that match
	Ahead       int     `msgpack:"a,omitempty"` // tasks that wait for the same slots and come first
	AtLeast     bool    `msgpack:"A,omitempty"` // there may be more of them
	Outcome     Outcome `msgpack:"o,omitempty"` // of the attempt that decided
	ExitCode    *int    `msgpack:"x,omitempty"`
	RetriesUsed int     `msgpack:"r,omitempty"`

	Callback string `msgpack:"C,omitempty"` // its id
	Tries    int    `msgpack:"T,omitempty"` // of it
	Status   int    `msgpack:"S,omitempty"` // HTTP status that its target last answered
}

// Unmet is something that a task asks of workers, and how many lack it.
type Unmet struct {
	Constraint string `msgpack:"c"` // "offer exec", "label gpu=yes"
	Workers    int    `msgpack:"w"`
}

// SortReasons puts what blocks first first; what is equal keeps its order.
func SortReasons(reasons []Reason) {
	slices.SortStableFunc(reasons, func(a, b Reason) int { return cmp.Compare(rank(a.Code), rank(b.Code)) })
}

func rank(c ReasonCode) int {
	if i := slices.Index(reasonOrder, c); i >= 0 {
		return i
	}
	return len(reasonOrder) // of a newer server
}
