package worker_test

import (
	"bytes"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// The leader decodes a worker's result as its own type: both must look the same
// on the wire, and the limits must agree.
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
				Stdout: []byte("o"), Stderr: []byte("r"), Output: []byte("u"), LateStart: 4,
			},
			fsm.AttemptResult{
				Outcome: job.OutcomeTimeout, ExitCode: &code, Error: "e", Started: 1, Ended: 2,
				Stdout: []byte("o"), Stderr: []byte("r"), Output: []byte("u"), LateStart: 4,
			},
		},
	} {
		wire, err := msgpack.Marshal(c.wire)
		if err != nil {
			t.Fatal(err)
		}
		state, err := msgpack.Marshal(c.state)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(wire, state) {
			t.Errorf("wire  %x\nstate %x", wire, state)
		}
	}
	if rpc.MaxErrorBytes != fsm.MaxErrorBytes || rpc.MaxTailBytes != fsm.MaxTailBytes || rpc.MaxOutputBytes != fsm.MaxOutputBytes {
		t.Error("the limits differ")
	}
}
