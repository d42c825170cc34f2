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
	results := make([]*job.Error, len(c.Attempts))
	for i, ref := range c.Attempts {
		old, err := a.held(ref)
		if err != nil {
			results[i] = err
			continue
		}
		a.endAttempt(old, AttemptResult{Outcome: c.Outcome, Error: cut(c.Reason)})
	}
	return Result{Attempts: results}
}
