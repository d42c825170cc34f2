package server

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// Each result of a message has its own verdict, and the slow ones don't hold the
// others up for ever.
func TestVerdictsOfOneMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := newVerdicts(5)
		v.decide(0, fsm.Result{}, nil)
		v.decide(1, fsm.Result{Err: job.Errorf(job.CodeStale, "nonsense")}, nil)
		v.decide(2, fsm.Result{Err: job.Errorf(job.CodeConflict, "late")}, nil)
		v.decide(3, fsm.Result{}, errors.New("queue full"))
		began := time.Now()
		reply, err := v.wait(t.Context())
		if err != nil || time.Since(began) != finishedTime {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if len(reply.Refused) != 2 || reply.Refused[0] != (rpc.Refusal{At: 1, Why: "nonsense"}) || reply.Refused[1].At != 2 {
			t.Errorf("refused: %+v", reply.Refused)
		}
		if len(reply.Again) != 2 || reply.Again[0] != (rpc.Refusal{At: 3, Why: "queue full"}) || reply.Again[1].At != 4 {
			t.Errorf("again: %+v", reply.Again)
		}
		v.decide(4, fsm.Result{}, nil) // does no harm
	})
}

func TestVerdictsAreAnsweredOnceAllAreDecided(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if reply, err := newVerdicts(0).wait(t.Context()); err != nil || len(reply.Again) != 0 || time.Since(began) != 0 {
			t.Errorf("of none: %+v, %v", reply, err)
		}
		v := newVerdicts(2)
		go func() {
			v.decide(0, fsm.Result{}, nil)
			time.Sleep(time.Second)
			v.decide(1, fsm.Result{}, job.ErrNoLeader)
		}()
		if _, err := v.wait(t.Context()); !errors.Is(err, job.ErrNoLeader) || time.Since(began) != time.Second {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if reply, _ := newVerdicts(1).wait(ctx); len(reply.Again) != 1 {
			t.Errorf("for a connection that has ended: %+v", reply)
		}
	})
}

// A result that can't be read still ends its attempt, whose worker holds it no more.
func TestAResultThatCannotBeReadFailsItsAttempt(t *testing.T) {
	encode := func(o job.Outcome) []byte {
		b, err := msgpack.Marshal(rpc.AttemptResult{Outcome: uint8(o)})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, tt := range map[string]struct {
		result []byte
		want   job.Outcome
	}{
		"a success":           {encode(job.OutcomeSuccess), job.OutcomeSuccess},
		"lost":                {encode(job.OutcomeLost), job.OutcomeLost},
		"no worker's outcome": {encode(job.OutcomeRefused), job.OutcomeFailed},
		"of a later axd":      {encode(99), job.OutcomeFailed},
		"nonsense":            {[]byte("nonsense"), job.OutcomeFailed},
		"nothing":             {nil, job.OutcomeFailed},
	} {
		got := readResult(tt.result)
		if got.Outcome != tt.want || (got.Error == "") == (tt.want == job.OutcomeFailed) {
			t.Errorf("%s: read as %v, %q", name, got.Outcome, got.Error)
		}
	}
}
