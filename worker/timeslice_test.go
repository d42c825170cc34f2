package worker

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/internal/timeslice"
)

// A command that computes must not come before others because axd does.
func TestCommandsHaveTheUsualTimeSlice(t *testing.T) {
	slice := func(pid int) uint64 {
		attr, err := unix.SchedGetAttr(pid, 0)
		if err != nil || attr.Runtime == 0 {
			t.Skipf("this kernel doesn't tell of slices: %v", err)
		}
		return attr.Runtime
	}
	usual := slice(os.Getpid())
	b := newBench(t)
	s := b.start("sleep 60 & wait")
	<-s.started
	if got := slice(b.link.cmd.Process.Pid); time.Duration(got) != timeslice.Short {
		t.Errorf("the supervisor has a slice of %d ns", got)
	}
	for _, pid := range b.processes() {
		if got := slice(pid); got != usual {
			t.Errorf("process %d of the command has a slice of %d ns, others have %d", pid, got, usual)
		}
	}
}
