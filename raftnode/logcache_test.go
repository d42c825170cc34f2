package raftnode

import (
	"testing"

	"github.com/hashicorp/raft"
)

// unreadable is a backend that can't be read.
type unreadable struct{ LogBackend }

func (unreadable) GetLog(uint64, *raft.Log) error { return raft.ErrLogNotFound }

// TestNewestEntriesAreReadFromMemory wants what a leader sends to come from
// memory, and nothing that was truncated.
func TestNewestEntriesAreReadFromMemory(t *testing.T) {
	s := testLog(t, t.TempDir())
	disk := s.backend
	store := func(logs []*raft.Log) {
		t.Helper()
		if err := s.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	store(entries(1, 20, 1, 100))
	store(entries(21, 30, 1, 512<<10)) // more than is kept
	s.backend = unreadable{disk}
	var l raft.Log
	for i := uint64(24); i <= 30; i++ {
		if err := s.GetLog(i, &l); err != nil || l.Index != i || l.Term != 1 || checkSeal(&l, i) != nil {
			t.Errorf("entry %d: %v, index %d", i, err, l.Index)
		}
	}
	if err := s.GetLog(1, &l); err == nil {
		t.Error("the oldest entry is kept in memory too")
	}
	s.backend = disk
	if s.cache.bytes > maxCachedLog {
		t.Errorf("%d bytes are kept", s.cache.bytes)
	}
	if err := s.DeleteRange(25, 30); err != nil {
		t.Fatal(err)
	}
	if err := s.GetLog(25, &l); err == nil {
		t.Error("a truncated entry is still there")
	}
	store(entries(25, 26, 2, 10))
	if err := s.GetLog(25, &l); err != nil || l.Term != 2 {
		t.Errorf("term %d, %v", l.Term, err)
	}
}
