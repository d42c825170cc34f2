//go:build !mutants

package mutant

// The faults. Each says what is wrong where it is on.
const (
	// Of the state machine.

	AnyToken         = false // an attempt's result counts whatever its token
	AnyTerm          = false // apply takes what a leader of another term has decided
	AnyVersion       = false // apply assigns a task that has changed since the leader saw it
	MapOrder         = false // apply writes counters in the order of a map
	ClockInApply     = false // apply reads this server's clock
	CacheInApply     = false // what apply writes depends on what it remembers
	ClockBack        = false // the state's clock goes back with the leader's
	CounterKept      = false // a counter keeps what has left a state
	LimitKept        = false // an attempt's end does not free its limit
	RetriesForgotten = false // retries are not counted
	EndedAgain       = false // a task that has ended can be cancelled
	KeyForever       = false // an idempotency key outlives its window
	KeyLost          = false // idempotency keys are forgotten with the cache, as after a snapshot
	CountedTwice     = false // a join counts a parent twice
	FiredTwice       = false // a planned time is not tied to its instant
	CallbackEarly    = false // a callback is owed while the task still runs
	CallbackLost     = false // a callback counts as delivered whatever the target has answered
	EpochKept        = false // a restore does not raise the epoch of tokens

	// Of the log.

	AckUncommitted = false // an entry is acknowledged though its leader lost leadership before its commit
	AckUnsynced    = false // an entry counts as the leader's before it is on the leader's disk
	UnaskedLeader  = false // a leader answers reads without asking a quorum whether it still leads
	StaleRead      = false // a read does not wait until what was acknowledged is applied
	FastHeartbeat  = false // heartbeats are handled beside raft's main loop
	EndlessRead    = false // a follower waits for ever for a sender that has fallen silent
	Unsynced       = false // the log is not synced
	LossHidden     = false // a leadership that was lost and regained looks like one that was kept
	Unsealed       = false // damaged entries are taken from peers

	// Of snapshots.

	Unflushed = false // a snapshot lacks what was not yet flushed
	TempKept  = false // what an interrupted snapshot left behind is not swept

	// Of the leader.

	NoBarrier      = false // a new leader begins before it has applied what was committed
	SessionsKept   = false // a deposed leader keeps its workers' sessions
	NothingRebuilt = false // a new leader does not load what comes due
	LeaseByGossip  = false // a silent worker's attempts are lost before its lease has ended
	CancelUnsent   = false // the cancel of an armed task is not told to its worker
	NewDelivery    = false // every try of a callback has an id of its own

	// Of the worker.

	LeaseIgnored    = false // attempts go on when the lease has ended
	LeaseFromAnswer = false // the lease counts from the answer to a renewal, not from its sending
	StartEarly      = false // armed attempts start before they are due
	ResultUnkept    = false // results are not kept on the worker's disk
	OldTerm         = false // frames of a deposed leader are obeyed
)

// Shuffled is for a fault alone.
func Shuffled[T any](s []T) []T { return s }

// Now is for a fault alone.
func Now() int64 { return 0 }
