package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

func (a *apply) loseAttempts(c *LoseAttempts) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	if c.Outcome != job.OutcomeLost && c.Outcome != job.OutcomeTimeout {
		return rejected(job.Invalid("outcome", "must be lost or timeout", strconv.Itoa(int(c.Outcome))))
	}
	results := make([]*job.Error, 0, len(c.Attempts)+len(c.Unstarted))
	for _, ref := range c.Attempts {
		old, err := a.held(ref)
		if err == nil {
			a.lose(old, c)
		}
		results = append(results, err)
	}
	for _, ref := range c.Unstarted {
		old, err := a.held(ref)
		switch {
		case err != nil:
		case old.State == job.Running:
			err = stale("attempt", "has started", ref.Ref.ID.String())
		default:
			a.undo(old, c.Reason)
		}
		results = append(results, err)
	}
	return Result{Attempts: results}
}

// lose ends an attempt for the leader. A task that was lost with its worker has
// waited for the end of the lease and is due again at once.
func (a *apply) lose(old *Task, c *LoseAttempts) {
	a.endAttempt(old, AttemptResult{Outcome: c.Outcome, Error: cut(c.Reason)}, c.Outcome == job.OutcomeLost)
}
