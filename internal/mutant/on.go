//go:build mutants

package mutant

// The faults, as in other builds.
var (
	// Of the state machine.

	AnyToken         = is("any-token")
	AnyTerm          = is("any-term")
	AnyVersion       = is("any-version")
	MapOrder         = is("map-order")
	ClockInApply     = is("clock-in-apply")
	CacheInApply     = is("cache-in-apply")
	ClockBack        = is("clock-back")
	CounterKept      = is("counter-kept")
	LimitKept        = is("limit-kept")
	RetriesForgotten = is("retries-forgotten")
	EndedAgain       = is("ended-again")
	KeyForever       = is("key-forever")
	KeyLost          = is("key-lost")
	CountedTwice     = is("counted-twice")
	FiredTwice       = is("fired-twice")
	CallbackEarly    = is("callback-early")
	CallbackLost     = is("callback-lost")
	EpochKept        = is("epoch-kept")

	// Of the log.

	AckUncommitted = is("ack-uncommitted")
	AckUnsynced    = is("ack-unsynced")
	UnaskedLeader  = is("unasked-leader")
	StaleRead      = is("stale-read")
	FastHeartbeat  = is("fast-heartbeat")
	EndlessRead    = is("endless-read")
	Unsynced       = is("unsynced")
	LossHidden     = is("loss-hidden")
	Unsealed       = is("unsealed")

	// Of snapshots.

	Unflushed = is("unflushed")
	TempKept  = is("temp-kept")

	// Of the leader.

	NoBarrier      = is("no-barrier")
	SessionsKept   = is("sessions-kept")
	NothingRebuilt = is("nothing-rebuilt")
	LeaseByGossip  = is("lease-by-gossip")
	CancelUnsent   = is("cancel-unsent")
	NewDelivery    = is("new-delivery")

	// Of the worker.

	LeaseIgnored    = is("lease-ignored")
	LeaseFromAnswer = is("lease-from-answer")
	StartEarly      = is("start-early")
	ResultUnkept    = is("result-unkept")
	OldTerm         = is("old-term")
)
