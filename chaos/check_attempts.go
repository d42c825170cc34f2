package chaos

import (
	"slices"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// retryFloor is the least time from a failed attempt to its k-th retry: initial,
// doubled for each before, never above the cap; where the cap would cut what is drawn
// on top, the window slides down, at the lowest to half.
func retryFloor(k int) time.Duration {
	d := retryFirst
	for ; k > 1 && d < retryMost; k-- {
		d *= 2
	}
	d = min(d, retryMost)
	return min(d, max(retryMost-d, d/2))
}

// retries: no task has more attempts than its retries allow, none follows a failure
// that was permanent, and none comes before its back-off has passed.
func (c *check) retries() {
	if len(c.Dumps) == 0 {
		return
	}
	for id, t := range c.Dumps[0].Tasks {
		if c.revived[id] || t.Job == "" {
			continue
		}
		most := retriesOf(t.Job)
		if t.Policy.Retry != nil && t.Policy.Retry.MaxRetries != nil {
			most = *t.Policy.Retry.MaxRetries
		}
		spent := 0
		list := c.Dumps[0].Attempts[id]
		for i := range list {
			o := list[i].Outcome
			if o != job.OutcomeFailed && o != job.OutcomeTimeout && o != job.OutcomeLost {
				continue
			}
			if spent++; spent > most+1 {
				c.broken("task %s of job %s has failed %d times, its retries are %d", id, t.Job, spent, most)
			}
			if o != job.OutcomeLost && i+1 < len(list) && t.Policy.Retry == nil {
				c.backOff(id, spent, &list[i], &list[i+1])
			}
		}
	}
}

// movedByHand tells whether a caller may have given the task another time, which
// stands in place of a retry's.
func (c *check) movedByHand(id string) bool {
	return slices.ContainsFunc(c.Calls, func(r Call) bool { return r.Verb == Reschedule && r.Task == id && r.Code != job.CodeConflict })
}

// backOff judges the pause between two attempts as workers saw them.
func (c *check) backOff(id string, k int, failed, next *fsm.Attempt) {
	var before, after *Attempt
	for i := range c.runs[id] {
		switch a := &c.runs[id][i]; a.Token {
		case failed.Token:
			before = a
		case next.Token:
			after = a
		}
	}
	if before == nil || after == nil || before.End.IsZero() {
		return // one did not reach a handler
	}
	least := retryFloor(k)
	switch {
	case before.Permanent:
		c.broken("task %s: %s followed %s, after which there was to be none", id, after, before)
	case before.RetryIn > 0:
		least = min(before.RetryIn, retryMost)
	}
	if got := after.Start.Sub(before.End); got < least-c.limits.Skew && !before.Frozen && !c.movedByHand(id) {
		c.broken("task %s: %s came %v after %s: its back-off is at least %v", id, after, got, before, least)
	}
}

// slowEnd is how long after its time-out an attempt may still be seen to end.
const slowEnd = 1500 * time.Millisecond

// timeouts: no attempt outlives the time-out of its job, unless its process was
// held, and none begins when the time for all of them has passed.
func (c *check) timeouts() {
	for _, a := range c.Attempts {
		var most time.Duration
		switch {
		case a.Job == shortJob:
			most = runLimit
		case a.Job == steadyJob:
			most = steadyRun
		case a.Job == beatingJob && a.Silent:
			most = beatLimit + beatLimit/8
		}
		if long := a.End.Sub(a.Start); most > 0 && !a.Frozen && !a.End.IsZero() && long > most+slowEnd {
			c.broken("task %s: %s ran for %v: its time-out is %v", a.Task, a, long, most)
		}
		if len(c.Dumps) == 0 || a.Job != hastyJob || c.revived[a.Task] {
			continue
		}
		if by := c.Dumps[0].Tasks[a.Task].EndBy; by != 0 && a.Start.Sub(time.UnixMilli(by)) > c.limits.Skew+slowEnd {
			c.broken("task %s: %s began after the time for all of its attempts had passed at %s", a.Task, a, clock(time.UnixMilli(by)))
		}
	}
}

// guarded: a resource that keeps the highest token of a task takes what the task's
// result says was done, and nothing with a lower token after it.
func (c *check) guarded() {
	kept := map[string]job.Token{}
	for _, w := range c.Writes {
		if w.Taken && w.Token.Compare(kept[w.Task]) < 0 {
			c.broken("task %s: token %s was let through after %s", w.Task, w.Token, kept[w.Task])
		}
		if w.Taken {
			kept[w.Task] = w.Token
			continue
		}
		if len(c.Dumps) > 0 {
			if t := c.Dumps[0].Tasks[w.Task]; t.State == job.Success && t.LastToken == w.Token {
				c.broken("task %s is a success by token %s, which the guarded resource has refused", w.Task, w.Token)
			}
		}
	}
}

// deadLetters: what has failed for good is a dead letter until somebody replays or
// discards it, nothing else is one, and each end of a job with a compensation has made
// one.
func (c *check) deadLetters() {
	if len(c.Dumps) == 0 {
		return
	}
	discarded, amends := map[string]bool{}, map[string]int{}
	for _, call := range c.Calls {
		if call.Verb == Discard && (call.Code != "" && call.Code != job.CodeConflict || call.Object == "done") {
			discarded[call.Task] = true
		}
		if call.Verb == Replay && call.Object == "done" && call.Task != "" && !c.revived[call.Task] && len(c.ends) > 0 {
			c.broken("dead letter %s was acknowledged as replayed and has not run again", call.Task)
		}
	}
	tasks := c.Dumps[0].Tasks
	for _, t := range tasks {
		if !t.Compensates.IsZero() {
			amends[t.Compensates.String()]++
		}
	}
	for id, t := range tasks {
		failed := t.State == job.Failed || t.State == job.TimedOut
		_, part := t.Parent() // of a broadcast, which is one itself
		stands := standsIn(&t) && !t.IsBroadcast()
		want := c.failures(id)
		if part {
			want = 0
		}
		switch {
		case t.Dead && part:
			c.broken("task %s is a part of a broadcast and a dead letter", id)
		case t.Dead && !failed:
			c.broken("task %s is %s and a dead letter", id, t.State)
		case t.Dead && t.Job == hastyJob:
			c.broken("task %s is a dead letter, which its job does not want", id)
		case failed && !t.Dead && t.Job != hastyJob && !discarded[id] && !stands && !part:
			c.broken("task %s of job %s has failed for good, is no dead letter and was not discarded", id, t.Job)
		}
		if t.Job == doomedJob && len(c.ends) > 0 && !stands && amends[id] != want {
			c.broken("task %s has %d compensations: by its failures for good it has %d", id, amends[id], want)
		}
	}
}

// failures counts how often a task has failed for good.
func (c *check) failures(id string) (n int) {
	for _, e := range c.ends[id] {
		if e.state == job.Failed || e.state == job.TimedOut {
			n++
		}
	}
	return n
}
