package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// finishedTime is how long results of one message may take to be committed before
// it is answered for those that are.
const finishedTime = 5 * time.Second

// onStarted records that attempts run; a lost report is made good by the finished
// one.
func (s *Server) onStarted(r *rpc.Request) (any, error) {
	var m rpc.Started
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	for _, item := range m.Items {
		s.proposePatiently(fsm.Started{AttemptRef: attemptRef(item.Ref), At: item.AtMS}, func(fsm.Result, error) {})
	}
	return nil, nil
}

// onFinished commits results; the worker forgets each only when answered. They
// are proposed together, so most are committed by one entry.
func (s *Server) onFinished(ctx context.Context, r *rpc.Request) (any, error) {
	var m rpc.Finished
	if err := r.Decode(&m); err != nil {
		return nil, err
	}
	v := newVerdicts(len(m.Results))
	for i := range m.Results {
		c := fsm.Finished{AttemptRef: attemptRef(m.Results[i].Ref), Result: readResult(m.Results[i].Result)}
		propose := s.proposeAsync
		if m.Results[i].Patient {
			propose = s.proposePatiently
		}
		propose(c, func(res fsm.Result, err error) { v.decide(i, res, err) })
	}
	reply, err := v.wait(ctx)
	if err != nil {
		return nil, s.notLeading(err)
	}
	return reply, nil
}

// readResult reads what a worker says of an attempt's end. What can't be read fails
// the attempt: the worker holds it no more, so refused it would wait for ever.
func readResult(b []byte) fsm.AttemptResult {
	result, err := fsm.DecodeAttemptResult(b)
	if err == nil {
		switch result.Outcome {
		case job.OutcomeSuccess, job.OutcomeFailed, job.OutcomeTimeout, job.OutcomeLost, job.OutcomeCancelled:
			return result
		}
		err = fmt.Errorf("it has the unknown outcome %d", result.Outcome)
	}
	return fsm.AttemptResult{
		Outcome: job.OutcomeFailed, Error: "the worker's result can't be read, which may be of another axd: " + err.Error(),
	}
}

// verdicts gathers what becomes of the results of one message.
type verdicts struct {
	done chan struct{} // closed when all are decided

	mu       sync.Mutex
	left     int
	decided  []bool
	reply    rpc.FinishedReply
	noLeader error
}

func newVerdicts(n int) *verdicts {
	v := &verdicts{done: make(chan struct{}), left: n, decided: make([]bool, n)}
	if n == 0 {
		close(v.done)
	}
	return v
}

func (v *verdicts) decide(i int, res fsm.Result, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case err != nil:
		v.reply.Again = append(v.reply.Again, rpc.Refusal{At: i, Why: err.Error()})
		if errors.Is(err, job.ErrNoLeader) {
			v.noLeader = err
		}
	case res.Err != nil:
		v.reply.Refused = append(v.reply.Refused, rpc.Refusal{At: i, Why: res.Err.Error()})
	}
	v.settle(i)
}

func (v *verdicts) settle(i int) {
	v.decided[i] = true
	if v.left--; v.left == 0 {
		close(v.done)
	}
}

// wait returns when all are decided, or for those that are after finishedTime:
// one that is slow must not hold up the others. Where this server does not lead
// any more, the worker must know, and sends all again to the one that does.
func (v *verdicts) wait(ctx context.Context) (rpc.FinishedReply, error) {
	timer := time.NewTimer(finishedTime)
	defer timer.Stop()
	select {
	case <-v.done:
	case <-timer.C:
	case <-ctx.Done():
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	reply := rpc.FinishedReply{
		Refused: append([]rpc.Refusal(nil), v.reply.Refused...),
		Again:   append([]rpc.Refusal(nil), v.reply.Again...),
	}
	for i, decided := range v.decided {
		if !decided {
			reply.Again = append(reply.Again, rpc.Refusal{At: i, Why: "it was not committed in time"})
		}
	}
	return reply, v.noLeader
}
