package worker_test

import (
	"reflect"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// The leader decodes a worker's result into its own type, and the limits must
// agree.
func TestResultIsTheStateMachines(t *testing.T) {
	code := 3
	for _, c := range []struct {
		wire  rpc.AttemptResult
		state fsm.AttemptResult
	}{
		{},
		{
			rpc.AttemptResult{
				Outcome: uint8(job.OutcomeTimeout), ExitCode: &code, Error: "e", Started: 1, Ended: 2,
				Stdout: []byte("o"), Stderr: []byte("r"), Output: []byte("u"), LateStart: 4, Class: "c", RetryMS: -1,
			},
			fsm.AttemptResult{
				Outcome: job.OutcomeTimeout, ExitCode: &code, Error: "e", Started: 1, Ended: 2,
				Stdout: []byte("o"), Stderr: []byte("r"), Output: []byte("u"), LateStart: 4, Class: "c", RetryMS: -1,
			},
		},
	} {
		b, err := msgpack.Marshal(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := fsm.DecodeAttemptResult(b); err != nil || !reflect.DeepEqual(got, c.state) {
			t.Errorf("got %+v, %v, want %+v", got, err, c.state)
		}
		var back rpc.AttemptResult
		if err := msgpack.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(back, c.wire) {
			t.Errorf("got %+v, %v, want %+v", back, err, c.wire)
		}
	}
	if rpc.MaxErrorBytes != fsm.MaxErrorBytes || rpc.MaxTailBytes != fsm.MaxTailBytes || rpc.MaxOutputBytes != fsm.MaxOutputBytes {
		t.Error("the limits differ")
	}
}
