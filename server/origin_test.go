package server

import (
	"testing"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
)

// What made a task goes to its worker, and costs one that was submitted nothing.
func TestDispatchItemTellsOrigin(t *testing.T) {
	run := job.NewID(1, 2, 3)
	d := scheduler.Dispatch{Task: fsm.Task{Run: run, Step: "clean"}, Schedule: "nightly", Nominal: 5}
	if got := dispatchItem(&d, nil).Origin; got == nil || *got != (rpc.Origin{Run: run, Step: "clean", Schedule: "nightly", NominalMS: 5}) {
		t.Errorf("%+v", got)
	}
	if got := dispatchItem(&scheduler.Dispatch{}, nil).Origin; got != nil {
		t.Errorf("%+v", got)
	}
}
