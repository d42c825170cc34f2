package store

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

var errDisk = errors.New("the disk is broken")

// failingFS fails operations that match while it is switched on.
func failingFS(fs vfs.FS, match func(op errorfs.Op) bool) (vfs.FS, *atomic.Bool) {
	on := new(atomic.Bool)
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && match(op) {
			return errDisk
		}
		return nil
	})), on
}

// A read that fails must end the process, not look like an absent row.
func TestFailedReadIsFatal(t *testing.T) {
	fs, failing := failingFS(vfs.NewMem(), func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileReadAt })
	opts := small(t)
	opts.Fatal = func(err error) { panic(err) }
	s, err := openEngine(fs, "state", opts)
	if err != nil {
		t.Fatal(err)
	}
	fill(s, 100)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(r View){
		"get":    func(r View) { r.Get([]byte("key-00000001")) },
		"ascend": func(r View) { r.Ascend(nil, nil, func(_, _ []byte) bool { return true }) },
	} {
		func() {
			v := s.View()
			defer v.Close()
			defer failing.Store(false)
			defer func() {
				if err, _ := recover().(error); !errors.Is(err, errDisk) || !strings.HasPrefix(err.Error(), "read state: ") {
					t.Errorf("%s: fatal got %v", name, err)
				}
			}()
			failing.Store(true)
			read(v)
		}()
	}
	closeAll(t, s)
}

// A flush that fails in the background must end the process: what was
// committed could be lost, and a retried sync lies.
func TestFailedFlushIsFatal(t *testing.T) {
	fs, failing := failingFS(vfs.NewMem(), func(op errorfs.Op) bool {
		return strings.HasSuffix(op.Path, ".sst") && (op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData)
	})
	fatal := make(chan error, 1)
	opts := small(t)
	opts.Fatal = func(err error) {
		failing.Store(false) // in production the process ends here
		fatal <- err
	}
	s, err := openEngine(fs, "state", opts)
	if err != nil {
		t.Fatal(err)
	}
	fill(s, 100)
	failing.Store(true)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := <-fatal; !errors.Is(err, errDisk) {
		t.Errorf("fatal got %v", err)
	}
	closeAll(t, s)
}

// Whichever step of making, receiving or installing a snapshot fails, the error
// comes back, nothing is listed that should not be, and the state stays.
func TestHomeStepsFail(t *testing.T) {
	from := newHome(t, vfs.NewMem())
	defer closeAll(t, from)
	received := fill(from.State(), 50)
	stream := snapshotStream(t, from, SnapshotMeta{Index: 9, Term: 1})
	steps := map[string]func(h *Home) error{
		"adopt": func(h *Home) error {
			c, err := h.Checkpoint(upTo(1))
			if err != nil {
				return err
			}
			sink, err := h.Create(SnapshotMeta{Index: 9, Term: 1})
			if err != nil {
				return errors.Join(err, c.Discard())
			}
			if err := sink.Adopt(c); err != nil {
				return errors.Join(err, sink.Cancel(), c.Discard())
			}
			return sink.Close()
		},
		"install": func(h *Home) error {
			sink, err := h.Create(SnapshotMeta{Index: 9, Term: 1})
			if err != nil {
				return err
			}
			if _, err := sink.Write(stream); err != nil {
				return errors.Join(err, sink.Cancel())
			}
			if err := sink.Close(); err != nil {
				return err
			}
			return h.Install(sink.ID())
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			for n := int64(0); ; n++ {
				if n > 500 {
					t.Fatal("no end of operations that can fail")
				}
				if stepWithFailure(t, n, step, received) {
					t.Logf("%d operations failed one by one", n)
					return
				}
			}
		})
	}
}

// stepWithFailure fails the n-th change that the home makes on disk; it
// reports whether the step has fewer.
func stepWithFailure(t *testing.T, n int64, step func(*Home) error, received map[string]string) (done bool) {
	var left atomic.Int64
	mem := vfs.NewMem()
	fs, failing := failingFS(mem, func(op errorfs.Op) bool {
		// Failures inside the engine end the process, by Fatal or by a panic;
		// here the home's own steps are at stake.
		engine := strings.Contains(op.Path, livePrefix) || strings.HasSuffix(op.Path, tempSuffix) && op.Kind == errorfs.OpFileSync
		tolerated := op.Kind == errorfs.OpFileClose || op.Kind == errorfs.OpRemoveAll || op.Kind == errorfs.OpLink
		if engine || tolerated || op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return false
		}
		return left.Add(-1) == 0
	})
	h := newHome(t, fs)
	want := fill(h.State(), 20)
	left.Store(n + 1)
	failing.Store(true)
	err := step(h)
	failing.Store(false)
	done = left.Load() > 0
	if done != (err == nil) {
		t.Errorf("failure %d: done %v, error %v", n, done, err)
	}
	if err != nil {
		if !errors.Is(err, errDisk) {
			t.Errorf("failure %d: %v", n, err)
		}
		checkRows(t, h.State(), want)
		checkIDs(t, h)
	}
	h = reopen(t, h)
	defer closeAll(t, h)
	v := h.State().View()
	defer v.Close()
	// A failure at the rename's sync may leave either state, but then whole
	// and with its snapshot.
	rows := rowsOf(v)
	if len(rows) == len(received) {
		if len(ids(t, h)) != 1 {
			t.Errorf("failure %d: the received state without its snapshot", n)
		}
	} else if len(rows) != len(want) || (err != nil && len(ids(t, h)) != 0) {
		t.Errorf("failure %d: %d rows, %d snapshots", n, len(rows), len(ids(t, h)))
	}
	return done
}

// A full disk is told from a broken one by its cause, which Pebble's last words
// have only as text.
func TestPebblesEndKeepsItsCause(t *testing.T) {
	var told error
	l := engineLog{Options{Fatal: func(err error) { told = err }}}
	func() {
		defer func() { _ = recover() }() // it must not return
		l.Fatalf("MANIFEST flush failed: %v", errDisk)
		t.Error("Fatalf returned")
	}()
	if !errors.Is(told, errDisk) || told.Error() != "state store: MANIFEST flush failed: "+errDisk.Error() {
		t.Errorf("fatal got %v", told)
	}
}
