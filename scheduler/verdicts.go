package scheduler

import (
	"context"
	"time"

	"github.com/axd-project/axd/fsm"
)

// judge computes what steps wait for: whether they run, and with what. It has a
// goroutine of its own, since an expression may take a tenth of a second and the
// loop's turns must not. Which steps wait is state; a hint only says when to look.
type judge struct {
	*Scheduler
	term    uint64
	compute computer
}

// The bounds of one round.
const (
	maxVerdicts  = 128             // computed in one view of the state, and in flight
	judgeTime    = 2 * time.Second // of computing in one view, which holds it open
	judgeRetry   = 200 * time.Millisecond
	judgeLook    = 5 * time.Second // between looks without a hint, since hints may be lost
	maxGraphs    = 32              // versions of workflows that are remembered
	maxCompiled  = 4096            // steps of them that are compiled
	maxRunOutput = 1 << 20         // bytes of outputs that one step may read
)

// wakeJudge has the wanted steps looked at.
func (s *Scheduler) wakeJudge() {
	select {
	case s.wanted <- struct{}{}:
	default:
	}
}

// runJudge answers until ctx ends.
func (s *Scheduler) runJudge(ctx context.Context, term uint64) {
	j := &judge{Scheduler: s, term: term}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wanted:
		case <-timer.C:
		}
		wait := judgeLook
		if !j.answerAll(ctx) {
			wait = judgeRetry
		}
		timer.Reset(wait)
	}
}

// answerAll goes once through the steps that wait; false: some are to be tried again.
func (j *judge) answerAll(ctx context.Context) (settled bool) {
	settled = true
	var after *fsm.WantedStep
	for ctx.Err() == nil {
		verdicts, last := j.verdicts(after)
		if last == nil {
			return settled
		}
		after = last
		settled = j.propose(ctx, verdicts) && settled
	}
	return false
}

// verdicts computes a page of them; a nil last means that there are no more.
func (j *judge) verdicts(after *fsm.WantedStep) (made []fsm.StepVerdict, last *fsm.WantedStep) {
	r, release := j.cfg.State.Read()
	defer release()
	end := j.cfg.Mono() + judgeTime
	for _, w := range fsm.ListWantedSteps(r, after, maxVerdicts) {
		if v, ok := j.compute.verdict(r, w); ok {
			v.Term = j.term
			made = append(made, v)
		}
		if last = &w; j.cfg.Mono() > end {
			break
		}
	}
	return made, last
}

// propose commits verdicts and waits for the answers; false: one was not committed.
// One that is refused is stale: the step has gone back, or waits for another.
func (j *judge) propose(ctx context.Context, verdicts []fsm.StepVerdict) (all bool) {
	answers := make(chan error, len(verdicts))
	for _, v := range verdicts {
		j.cfg.Log.ProposeAsync(v, func(_ fsm.Result, err error) { answers <- err })
	}
	all = true
	for range verdicts {
		select {
		case err := <-answers:
			all = all && err == nil
		case <-ctx.Done():
			return false
		}
	}
	return all
}
