package raftnode

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// The state has no log of its own: after a power loss it is what was flushed
// last, and Raft's log brings the rest back.
func TestPowerLossReplaysTheLog(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	m := c.members["a"]
	disk := vfs.NewCrashableMem()
	m.fs = disk
	c.startAll()
	first := c.mustSubmit("k", 10, 100)
	if err := m.snapshotter.take(); err != nil {
		t.Fatal(err)
	}
	second := c.mustSubmit("l", 10, 100)
	hash := m.hash()
	m.fs = disk.CrashClone(vfs.CrashCloneCfg{})
	m.stop()
	m.start()
	c.until("the log replayed", func() bool { return m.hash() == hash })
	if !m.has(first) || !m.has(second) {
		t.Error("an acknowledged task is missing")
	}
	c.mustSubmit("m", 1, 1)
}

// grow makes a stopped single server with a snapshot, a log and a state.
func grow(t *testing.T) (*cluster, *member) {
	t.Helper()
	c := newCluster(t, "a")
	c.startAll()
	c.mustSubmit("k", 10, 100)
	m := c.members["a"]
	if err := m.snapshotter.take(); err != nil {
		t.Fatal(err)
	}
	c.mustSubmit("l", 10, 100)
	m.stop()
	return c, m
}

// deleteEntries takes entries out of a stopped server's log.
func deleteEntries(t *testing.T, dir string, choose func(first, last uint64) (from, to uint64)) {
	t.Helper()
	b, err := openBackend(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newLogStore(b, "", 1<<10, newGuard(time.Minute, func(int, error) {}))
	defer s.guard.close()
	if err := s.scan(); err != nil {
		t.Fatal(err)
	}
	from, to := choose(s.index.bounds())
	if err := errors.Join(s.DeleteRange(from, to), b.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestStartRefusesWhatLostData(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		damage func(t *testing.T, m *member)
		want   string
	}{
		"log removed": {func(t *testing.T, m *member) {
			if err := os.Remove(filepath.Join(m.dir, logFile)); err != nil {
				t.Fatal(err)
			}
		}, "no Raft log"},
		"log shorter than the state": {func(t *testing.T, m *member) {
			deleteEntries(t, m.dir, func(first, last uint64) (uint64, uint64) { return first + 15, last })
		}, "log and snapshots end at"},
		"gap between snapshot and log": {func(t *testing.T, m *member) {
			deleteEntries(t, m.dir, func(first, last uint64) (uint64, uint64) { return first, last - 2 })
		}, "the log begins at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, m := grow(t)
			tt.damage(t, m)
			err := m.open()
			var start *StartError
			if !errors.As(err, &start) || start.Code != ExitCorruptLog || !strings.Contains(err.Error(), tt.want) ||
				!strings.Contains(err.Error(), "start server a again") {
				t.Errorf("started with: %v", err)
			}
		})
	}
}

func TestFullDiskIsSaidClearly(t *testing.T) {
	err := CheckFree("/data", 12<<20)
	var start *StartError
	if !errors.As(err, &start) || start.Code != ExitDiskFull {
		t.Errorf("got %v", err)
	}
	if !errors.Is(err, &job.Error{Code: job.CodeDiskFull}) || !strings.Contains(err.Error(), "/data has 12 MiB free") {
		t.Errorf("got %v", err)
	}
	if err := CheckFree("/data", 1<<30); err != nil {
		t.Error(err)
	}
}

// sendSnapshot makes a state of n tasks elsewhere and sends it as a snapshot.
func sendSnapshot(t *testing.T, to *snapshots, index, term uint64) {
	t.Helper()
	from, err := store.OpenHome(vfs.NewMem(), "from", store.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	entry, err := fsm.EncodeEntry(fsm.Entry{At: 1, Commands: [][]byte{encode(t, "k", 10)}})
	if err != nil {
		t.Fatal(err)
	}
	batch := from.State().Batch()
	if _, _, err := fsm.NewMachine().Apply(batch, fsm.Meta{Index: index, Term: term}, entry); err != nil {
		t.Fatal(err)
	}
	batch.Commit()
	source := &snapshots{home: from}
	local, err := source.Create(1, index, term, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join((&checkpoint{a: &applier{home: from}}).Persist(local), local.Close()); err != nil {
		t.Fatal(err)
	}
	meta, stream, err := source.Open(local.ID())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	sink, err := to.Create(meta.Version, meta.Index, meta.Term, meta.Configuration, meta.ConfigurationIndex, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(sink, stream); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if list, err := to.List(); err != nil || len(list) != 0 {
		t.Errorf("a received snapshot is listed before it is restored: %v %v", list, err)
	}
}

// A snapshot inside a log that conflicts with it is installed, then the log
// goes and the process ends; without that raft asks for snapshots for ever.
func TestRestoreOntoLogs(t *testing.T) {
	for name, tt := range map[string]struct {
		log      []*raft.Log
		code     int // of Fatal; 0: none
		logAfter uint64
	}{
		"empty log":       {nil, 0, 0},
		"shorter log":     {entries(1, 5, 2, 10), 0, 0},
		"same entries":    {entries(1, 20, 3, 10), 0, 20},
		"conflicting log": {entries(1, 20, 2, 10), ExitReseed, 0},
	} {
		t.Run(name, func(t *testing.T) {
			home, err := store.OpenHome(vfs.NewMem(), "to", store.Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			defer home.Close()
			log := testLog(t, t.TempDir())
			if err := log.StoreLogs(tt.log); err != nil {
				t.Fatal(err)
			}
			var code int
			restored := false
			a := &applier{
				home: home, machine: fsm.NewMachine(), snaps: &snapshots{home: home}, log: log, guard: log.guard,
				fatal: func(c int, _ error) { code = c }, restored: func() { restored = true }, applied: &watermark{},
			}
			sendSnapshot(t, a.snaps, 10, 3)
			if err := a.Restore(nil); (err != nil) != (tt.code != 0) {
				t.Error(err)
			}
			_, last := log.index.bounds()
			if code != tt.code || last != tt.logAfter || a.applied.get() != 10 || restored != (code == 0) {
				t.Errorf("exit code %d, log ends at %d, applied %d, restored %v", code, last, a.applied.get(), restored)
			}
			if got := a.snaps.latest(); got.Index != 10 || got.Applied != 10 {
				t.Errorf("newest snapshot: %+v", got)
			}
		})
	}
}

func TestUnknownCommandEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a")
	c.startAll()
	m := c.members["a"]
	c.until("a leader", func() bool { return m.raft.State() == raft.Leader })
	m.ProposeAsync([]byte{0xff, 0xff, 0xff}, func(fsm.Result, error) {})
	m.diedWith(ExitUnknownVerb, "newer axd")
}

func TestRaftLogIsQuiet(t *testing.T) {
	var m muter
	m.seen = map[string]*muted{}
	now := time.Now()
	passed := 0
	for i := range 100 {
		if ok, _ := m.pass("failed to heartbeat to", now.Add(time.Duration(i)*100*time.Millisecond)); ok {
			passed++
		}
	}
	if passed != 2 {
		t.Errorf("%d of 100 messages within 10 s were logged", passed)
	}
	if ok, suppressed := m.pass("failed to heartbeat to", now.Add(time.Minute)); !ok || suppressed != 49 {
		t.Errorf("then: %v, %d suppressed", ok, suppressed)
	}
}
