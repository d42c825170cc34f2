package worker

import (
	"testing"

	"github.com/axd-project/axd/rpc"
)

// What was given back, and acknowledged, has a dead token: a second copy of
// its dispatch (a resend after the leader's inbox overflowed, or settle beside
// the event) that comes late must not run.
func TestALateDispatchOfWhatWasGivenBackIsDropped(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	running := []rpc.DispatchItem{l.item(handler("wait")), l.item(handler("wait"))}
	l.dispatch(running...)
	item := l.item(handler("echo"))
	l.dispatch(item)
	receive(t, l.giveBacks, patience)
	eventually(t, patience, "the give-back is acknowledged", func() bool { return w.Stats().Owed == 0 })
	for _, r := range running {
		l.kill(r.Ref, rpc.KillCancel)
		receive(t, l.finished, patience)
	}
	eventually(t, patience, "slots are free", func() bool { return w.Stats().Free == 2 })
	l.dispatch(item) // the second copy
	eventually(t, patience, "it is judged", func() bool { s := w.Stats(); return s.Duplicates > 0 || s.Started > 2 })
	if s := w.Stats(); s.Started != 2 {
		t.Errorf("an attempt that was given back ran all the same: %+v", s)
	}
}

// At the deadline of a drain what runs is ended and given back: it has no result, and
// what has come to an end before keeps its own.
func TestWhatADrainEndsIsGivenBack(t *testing.T) {
	t.Parallel()
	l := newLeader(t)
	w, _ := startWorker(t, l)
	item := l.item(handler("wait"))
	l.dispatch(item)
	eventually(t, patience, "it runs", func() bool { return w.Stats().Started == 1 })
	l.kill(item.Ref, rpc.KillDrain)
	back := receive(t, l.giveBacks, patience)
	if len(back.Refs) != 1 || back.Refs[0] != item.Ref {
		t.Errorf("given back: %+v", back)
	}
	eventually(t, patience, "nothing is owed", func() bool { return w.Stats().Owed == 0 })
	select {
	case f := <-l.finished:
		t.Errorf("it has a result: %+v", f)
	default:
	}
}
