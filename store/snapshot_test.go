package store

import (
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func TestReap(t *testing.T) {
	h := newHome(t, vfs.NewMem())
	fill(h.State(), 100)
	var made []string
	for i := range uint64(5) {
		made = append(made, takeSnapshot(t, h, 10+i, 1))
	}
	_, pinned, err := h.Open(made[1])
	if err != nil {
		t.Fatal(err)
	}
	reap := func(keep int) {
		t.Helper()
		if err := h.Reap(keep); err != nil {
			t.Fatal(err)
		}
	}
	reap(2)
	checkIDs(t, h, made[4], made[3], made[1])
	if _, err := io.Copy(io.Discard, pinned); err != nil {
		t.Errorf("a pinned snapshot can't be read: %v", err)
	}
	closeAll(t, pinned, pinned)
	reap(2)
	checkIDs(t, h, made[4], made[3])
	reap(0) // never the newest
	checkIDs(t, h, made[4])
	checkNothingLeft(t, h, made[4])
	h = reopen(t, h)
	checkIDs(t, h, made[4])
	closeAll(t, h)
}

// Reap spares a received snapshot that waits for its Install, un-names the
// installed one in CURRENT before it removes it, and Install drops the one
// before.
func TestReapReceived(t *testing.T) {
	from, to := newHome(t, vfs.NewMem()), newHome(t, vfs.NewMem())
	want := fill(from.State(), 100)
	stream := snapshotStream(t, from, SnapshotMeta{Index: 80, Term: 4})
	install := func(index uint64) string {
		id := receive(t, to, SnapshotMeta{Index: index, Term: 4}, stream)
		if err := to.Reap(1); err != nil {
			t.Fatal(err)
		}
		if err := to.Install(id); err != nil {
			t.Fatal(err)
		}
		return id
	}
	install(80)
	second := install(90)
	checkIDs(t, to, second)
	checkNothingLeft(t, to, second)
	own := takeSnapshot(t, to, 100, 4)
	if err := to.Reap(1); err != nil {
		t.Fatal(err)
	}
	checkIDs(t, to, own)
	to = reopen(t, to)
	checkIDs(t, to, own)
	checkNothingLeft(t, to, own)
	checkRows(t, to.State(), want)
	closeAll(t, from, to)
}

// Raft ends a sink in any order and more than once.
func TestSinkOrder(t *testing.T) {
	h := newHome(t, vfs.NewMem())
	fill(h.State(), 10)
	sink := func() *Sink {
		s, err := h.Create(SnapshotMeta{Index: 1, Term: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	checkpoint := func() *Checkpoint {
		c, err := h.Checkpoint(upTo(1))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for name, use := range map[string]func() error{
		"cancel, close": func() error { s := sink(); return cmpErr(s.Cancel(), s.Close()) },
		"adopt, cancel, cancel": func() error {
			s := sink()
			return cmpErr(s.Adopt(checkpoint()), s.Cancel(), s.Cancel())
		},
		"write, cancel": func() error { s := sink(); _, err := s.Write([]byte("x")); return cmpErr(err, s.Cancel()) },
		"discard":       func() error { c := checkpoint(); return cmpErr(c.Discard(), c.Discard()) },
	} {
		if err := use(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		checkNothingLeft(t, h)
	}
	for name, use := range map[string]func() error{
		"close":                func() error { return sink().Close() },
		"write after cancel":   func() error { s := sink(); s.Cancel(); _, err := s.Write([]byte("x")); return err },
		"adopt after cancel":   func() error { s := sink(); s.Cancel(); c := checkpoint(); defer c.Discard(); return s.Adopt(c) },
		"adopt after discard":  func() error { s := sink(); defer s.Cancel(); c := checkpoint(); c.Discard(); return s.Adopt(c) },
		"write after adopt":    func() error { s := sink(); defer s.Cancel(); s.Adopt(checkpoint()); _, err := s.Write(nil); return err },
		"open of what is none": func() error { _, _, err := h.Open("1-1-1"); return err },
	} {
		if err := use(); err == nil {
			t.Errorf("%s: no error", name)
		}
		checkNothingLeft(t, h)
	}
	s := sink()
	if err := cmpErr(s.Adopt(checkpoint()), s.Close(), s.Cancel(), s.Close()); err != nil {
		t.Error(err)
	}
	checkIDs(t, h, s.ID())
	closeAll(t, h)
}

func cmpErr(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
