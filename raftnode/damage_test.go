package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// writtenLog makes a log file of a few levels of pages, with entries of all
// sizes, a compacted front, a truncated end and a vote, and returns its bytes.
func writtenLog(t *testing.T) (file []byte, first, last uint64) {
	t.Helper()
	dir := t.TempDir()
	s := testLog(t, dir)
	for i := uint64(1); i <= 300; i += 50 {
		if err := s.StoreLogs(entries(i, i+49, 3, 20+int(i*7)%400)); err != nil {
			t.Fatal(err)
		}
	}
	big := entries(301, 303, 3, 20_000)
	steps := []error{
		s.StoreLogs(big), s.DeleteRange(1, 70), s.DeleteRange(302, 303), s.StoreLogs(entries(302, 302, 4, 30)),
		s.SetUint64([]byte(keyTerm), 5), s.SetUint64([]byte(keyVoteTerm), 5), s.Set([]byte(keyVoteCand), []byte("me")),
	}
	if err := errors.Join(steps...); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, logFile))
	if err != nil {
		t.Fatal(err)
	}
	return file, 71, 302
}

// reopen opens a log file of these bytes, as a start does.
func reopen(dir string, file []byte) (first, last uint64, vote stable, err error) {
	if err := os.WriteFile(filepath.Join(dir, logFile), file, 0o600); err != nil {
		return 0, 0, vote, err
	}
	b, err := openBackend(dir)
	if err != nil {
		return 0, 0, vote, err
	}
	defer b.Close()
	g := newGuard(time.Minute, func(int, error) {})
	defer g.close()
	s := newLogStore(b, "me", 1<<10, g)
	if err := s.load(); err != nil {
		return 0, 0, vote, err
	}
	first, last = s.index.bounds()
	return first, last, s.stable, nil
}

// Whatever the damage to its file, a log opens with all that was confirmed and
// the vote that was given, or not at all.
func TestDamagedLogOpensWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	const scale = 1 // 100 tries each
	file, first, last := writtenLog(t)
	refused := 0
	try := func(what string, damage func(b []byte) []byte) {
		f, l, v, err := reopen(t.TempDir(), damage(bytes.Clone(file)))
		switch {
		case err != nil:
			refused++
		case f != first || l != last || v != stable{term: 5, voteTerm: 5, candidate: "me"}:
			t.Errorf("%s: opened with entries %d to %d of %d to %d and %+v", what, f, l, first, last, v)
		}
	}
	flip := func(at, bit int) {
		try(fmt.Sprintf("bit %d of byte %d flipped", bit, at), func(b []byte) []byte { b[at] ^= 1 << bit; return b })
	}
	rng := rand.New(rand.NewPCG(7, 40))
	for range scale * 40 { // anywhere
		flip(rng.IntN(len(file)), rng.IntN(8))
	}
	for range scale * 40 { // in a page's header or its first elements
		flip(rng.IntN(len(file)/4096)*4096+rng.IntN(64), rng.IntN(8))
	}
	for range scale * 15 {
		at, n := rng.IntN(len(file)), []int{512, 4096}[rng.IntN(2)]
		at -= at % n
		try(fmt.Sprintf("%d bytes at %d never written", n, at), func(b []byte) []byte { clear(b[at : at+n]); return b })
	}
	for range scale * 5 {
		n := rng.IntN(len(file))
		try(fmt.Sprintf("torn after %d bytes", n), func(b []byte) []byte { return b[:n] })
	}
	if refused < scale*15 {
		t.Errorf("only %d damages were refused", refused)
	}
	if f, l, _, err := reopen(t.TempDir(), file); err != nil || f != first || l != last {
		t.Errorf("the undamaged log opens with %d to %d: %v", f, l, err)
	}
}

// A crash may interrupt a truncation once its mark is written: what was to go is
// what conflicted with the leader's log, and goes at the next start.
func TestInterruptedTruncationIsEnded(t *testing.T) {
	for mark, want := range map[uint64][2]uint64{12: {5, 12}, 0: {0, 0}} {
		s := testLog(t, t.TempDir())
		err := errors.Join(s.StoreLogs(entries(1, 20, 3, 10)), s.DeleteRange(1, 4), s.backend.StoreLogs([]*raft.Log{tailMark(mark)}))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			again := newLogStore(s.backend, "me", 1<<10, s.guard)
			err := again.load()
			if first, last := again.index.bounds(); err != nil || first != want[0] || last != want[1] {
				t.Errorf("with a mark at %d it opens with entries %d to %d: %v", mark, first, last, err)
			}
		}
		var l raft.Log
		if err := s.backend.GetLog(13, &l); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("with a mark at %d entry 13 is still there: %v", mark, err)
		}
	}
}

// Entries that are missing without a trace leave nothing whose checksum is wrong.
func TestLogThatEndsEarlyIsRefused(t *testing.T) {
	for name, damage := range map[string]func(s *logStore) error{
		"its last entries are gone":   func(s *logStore) error { return s.backend.DeleteRange(15, 20) },
		"all entries are gone":        func(s *logStore) error { return s.backend.DeleteRange(1, 20) },
		"an entry in between is gone": func(s *logStore) error { return s.backend.DeleteRange(7, 7) },
		"its end mark is gone":        func(s *logStore) error { return s.backend.DeleteRange(tailIndex, tailIndex) },
		"its end mark has a flipped bit": func(s *logStore) error {
			mark := tailMark(20)
			mark.Data[7] ^= 4 // 16: a shorter log that looks whole
			return s.backend.StoreLogs([]*raft.Log{mark})
		},
		"its end mark is another's":    func(s *logStore) error { return s.backend.StoreLogs([]*raft.Log{tailMark(30)}) },
		"its term and vote are absurd": func(s *logStore) error { return s.backend.Set([]byte(keyStable), []byte("x")) },
	} {
		t.Run(name, func(t *testing.T) {
			s := testLog(t, t.TempDir())
			if err := errors.Join(s.StoreLogs(entries(1, 20, 3, 10)), damage(s)); err != nil {
				t.Fatal(err)
			}
			again := newLogStore(s.backend, "me", 1<<10, s.guard)
			if err := again.scan(); err == nil {
				first, last := again.index.bounds()
				t.Errorf("opened with entries %d to %d", first, last)
			}
		})
	}
}
