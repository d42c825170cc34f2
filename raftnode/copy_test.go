package raftnode

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/store"
)

// bare is an applier without raft.
func bare(t *testing.T) *applier {
	t.Helper()
	home, err := store.OpenHome(vfs.NewMem(), "state", store.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { home.Close() })
	log := testLog(t, t.TempDir())
	return &applier{
		home: home, machine: fsm.NewMachine(), snaps: &snapshots{home: home}, log: log, guard: log.guard,
		fatal: func(code int, err error) { t.Errorf("the process would end with %d: %v", code, err) }, applied: &watermark{},
	}
}

// submits are entries of a task each.
func submits(t *testing.T, from, to uint64) []*raft.Log {
	t.Helper()
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		data, err := fsm.EncodeEntry(fsm.Entry{At: int64(i), Commands: [][]byte{encode(t, fmt.Sprintf("k%d-", i), 1)}})
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, &raft.Log{Index: i, Term: 3, Type: raft.LogCommand, Data: data})
	}
	return logs
}

func (a *applier) hash() uint64 {
	v := a.home.State().View()
	defer v.Close()
	return fsm.StateHash(v)
}

// persist finishes a snapshot of raft's index.
func persist(t *testing.T, a *applier, snap raft.FSMSnapshot, index uint64) error {
	t.Helper()
	sink, err := a.snaps.Create(1, index, 3, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := snap.Persist(sink); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// A snapshot may hold more than the entry that raft thinks it ends with. Where it
// is installed, the log between the two changes nothing.
func TestSnapshotHoldsWhatWasAppliedMeanwhile(t *testing.T) {
	a := bare(t)
	a.ApplyBatch(submits(t, 1, 10))
	snap, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	a.ApplyBatch(submits(t, 11, 15))
	if err := persist(t, a, snap, 10); err != nil {
		t.Fatal(err)
	}
	made := a.snaps.latest()
	if made.Index != 10 || made.Applied != 15 {
		t.Fatalf("the snapshot: %+v", made)
	}
	_, stream, err := a.snaps.Open(made.ID)
	if err != nil {
		t.Fatal(err)
	}
	b := bare(t)
	sink, err := b.snaps.Create(1, 10, 3, raft.Configuration{}, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(sink, stream); errors.Join(err, stream.Close(), sink.Close()) != nil {
		t.Fatal(err)
	}
	if err := b.Restore(nil); err != nil {
		t.Fatal(err)
	}
	if got := b.applied.get(); got != 15 {
		t.Errorf("applied up to %d, the state has 15", got)
	}
	for i, answer := range b.ApplyBatch(submits(t, 11, 16)) {
		if results, _ := answer.([]fsm.Result); (results != nil) != (i == 5) {
			t.Errorf("entry %d: results %v", 11+i, results)
		}
	}
	a.ApplyBatch(submits(t, 16, 16))
	if a.hash() != b.hash() || b.applied.get() != 16 {
		t.Error("the states differ")
	}
}

// A copy of a state that was replaced since the snapshot was begun would pass for
// the old state, or the new one under an old index.
func TestReplacedStateIsNotCopied(t *testing.T) {
	a := bare(t)
	a.ApplyBatch(submits(t, 1, 3))
	snap, err := a.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	sendSnapshot(t, a.snaps, 10, 3)
	if err := a.Restore(nil); err != nil {
		t.Fatal(err)
	}
	if err := persist(t, a, snap, 3); !errors.Is(err, errReplaced) {
		t.Errorf("persisted: %v", err)
	}
	if list := a.home.List(); len(list) != 1 || list[0].Index != 10 {
		t.Errorf("snapshots: %+v", list)
	}
	a.close()
	if _, err := a.checkpoint(1); !errors.Is(err, raft.ErrRaftShutdown) {
		t.Errorf("copied after the end: %v", err)
	}
}
