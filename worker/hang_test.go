package worker

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/axd-project/axd/job"
)

// A supervisor that hangs can't end its commands, and a worker that is cut off is
// not told by renewals that it does. Both at once must not let a command outlast the
// lease by more than the leader waits.
func TestASupervisorThatHangsDoesNotOutlastTheLease(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	l.with(func() { l.ttl = shortTTL })
	dir := t.TempDir()
	w, _ := startWorker(t, l, withExec(dir))
	item := l.item(sh("sleep 300 & sleep 300"))
	l.dispatch(item)
	receive(t, l.started, patience)
	link := w.super.current
	l.with(func() { l.deaf = true })
	if err := unix.Kill(link.cmd.Process.Pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	eventually(t, shortTTL+slop, "all of the command is dead", func() bool { return len(marked(dir, item)) == 0 })
	l.with(func() { l.deaf = false })
	if f := receive(t, l.finished, patience); f.Ref != item.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
}
