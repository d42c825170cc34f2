package chaos

import (
	"time"

	"github.com/axd-project/axd/job"
)

// The jobs of the load, by what they are to show.
const (
	plainJob   = "plain"   // retries a little
	shortJob   = "short"   // has a time-out that hanging attempts meet
	steadyJob  = "steady"  // goes on when its worker loses the leader
	limitedJob = "limited" // runs twice at a time for each key
	ratedJob   = "rated"   // begins so often in a time
	shakyJob   = "shaky"   // fails on one worker, whose breaker opens
	doomedJob  = "doomed"  // fails for good soon, and has a compensation
	amendsJob  = "amends"  // is that
	beatingJob = "beating" // promises heartbeats
	hastyJob   = "hasty"   // has bounds for the queue and for all attempts
	tellingJob = "telling" // has a job run with its result
	heardJob   = "heard"   // is that
	eagerJob   = "eager"   // is idempotent: it doesn't wait for leases
	everyJob   = "every"   // runs at every worker
)

// What holds of them.
const (
	keyLimit   = 2 // attempts of limitedJob for one key
	rateMax    = 4 // attempts of ratedJob
	rateBurst  = 2
	ratePer    = 2 * time.Second
	runLimit   = 4 * time.Second // of shortJob
	steadyRun  = 6 * time.Second
	beatLimit  = time.Second
	queueLimit = 20 * time.Second // of hastyJob
	totalLimit = 10 * time.Second
	simRetries = 4
	fewRetries = 1 // of doomedJob
)

// The rule for the retries of all jobs; the checks reckon with it.
const (
	retryFirst = 1500 * time.Millisecond // doubled each time
	retryMost  = 5 * time.Second
)

func retriesOf(name string) int {
	if name == doomedJob || name == tellingJob {
		return fewRetries
	}
	return simRetries
}

func jobs() map[string]job.Spec {
	duration := func(d time.Duration) *job.Duration { return new(job.Duration(d)) }
	all := map[string]job.Policy{
		plainJob:  {},
		shortJob:  {Timeout: duration(runLimit)},
		steadyJob: {Timeout: duration(steadyRun), OnDisconnect: job.DisconnectContinue},
		limitedJob: {
			Concurrency: &job.Concurrency{Max: keyLimit, Key: "/k"},
		},
		ratedJob:   {Rate: &job.Rate{Max: rateMax, Per: job.Duration(ratePer), Burst: rateBurst}},
		shakyJob:   {},
		doomedJob:  {Compensation: amendsJob},
		amendsJob:  {},
		beatingJob: {HeartbeatTimeout: duration(beatLimit)},
		hastyJob:   {QueueTimeout: duration(queueLimit), TotalTimeout: duration(totalLimit), OnExhausted: job.ExhaustedIgnore},
		tellingJob: {CallbackJob: heardJob},
		heardJob:   {},
		eagerJob:   {Idempotent: new(true)},
		everyJob:   {Route: &job.Route{Strategy: job.Broadcast}},
	}
	out := map[string]job.Spec{}
	for name, p := range all {
		p.Retry = &job.Retry{MaxRetries: new(retriesOf(name)), Initial: job.Duration(retryFirst), Cap: job.Duration(retryMost)}
		if p.Grace == nil && name != steadyJob {
			p.Grace = duration(time.Second)
		}
		out[name] = job.Spec{Executor: job.Executor{Handler: handlerName}, Policy: p}
	}
	return out
}
