package fsm

import (
	"bytes"
	"strconv"

	"github.com/axd-project/axd/job"
)

// maxLate is how many refused reports an attempt keeps; the first ones.
const maxLate = 3

func (a *apply) finished(c *Finished) Result {
	switch c.Result.Outcome {
	case job.OutcomeSuccess, job.OutcomeFailed, job.OutcomeTimeout, job.OutcomeLost, job.OutcomeCancelled:
	default:
		return rejected(job.Invalid("outcome", "must be success, failed, timeout, lost or cancelled",
			strconv.Itoa(int(c.Result.Outcome))))
	}
	bound(&c.Result)
	old, err := a.held(c.AttemptRef)
	if err != nil {
		if old != nil {
			return a.late(old, c, err)
		}
		return rejected(err)
	}
	return Result{Task: a.endAttempt(old, c.Result, false)}
}

// late answers a report whose token is no longer the current one. The same
// report again, since its answer was lost, is confirmed; any other is refused
// and kept as evidence with the attempt, where that is still known.
func (a *apply) late(t *Task, c *Finished, refusal *job.Error) Result {
	at := a.attemptOf(t, c.Token)
	if at == nil {
		return rejected(refusal)
	}
	report := appendAttemptResult(nil, &c.Result)
	if bytes.Equal(report, appendAttemptResult(nil, &at.Result)) {
		return Result{Task: t}
	}
	if len(at.Late) < maxLate {
		at.Late = append(at.Late, LateResult{At: a.now, Outcome: c.Result.Outcome, Error: c.Result.Error})
		a.putAttempt(t.Ref(), at)
	}
	return rejected(refusal)
}

// attemptOf finds the kept attempt that a token was given to.
func (a *apply) attemptOf(t *Task, token job.Token) *Attempt {
	if token.IsZero() {
		return nil
	}
	for n := t.Attempt; n > 0 && n+MaxAttempts > t.Attempt; n-- {
		if at, ok := a.attempt(t.Ref(), n); ok && at.Token == token {
			return at
		}
	}
	return nil
}
