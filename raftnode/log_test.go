package raftnode

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"pgregory.net/rapid"

	"github.com/axd-project/axd/fsm"
)

// testLog opens a log store on a directory, unarmed.
func testLog(t *testing.T, dir string) *logStore {
	t.Helper()
	b, err := openBackend(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := newLogStore(b, "me", 1<<10, newGuard(time.Minute, func(code int, err error) { t.Errorf("fatal %d: %v", code, err) }))
	t.Cleanup(func() {
		if err := errors.Join(s.backend.Close(), func() error { s.guard.close(); return nil }()); err != nil {
			t.Error(err)
		}
	})
	if err := s.scan(); err != nil {
		t.Fatal(err)
	}
	return s
}

func entries(from, to, term uint64, size int) []*raft.Log {
	var logs []*raft.Log
	for i := from; i <= to; i++ {
		data := bytes.Repeat([]byte(fmt.Sprintf("entry-%d.", i)), size/8+1)
		logs = append(logs, &raft.Log{Index: i, Term: term, Type: raft.LogCommand, Data: data[:size]})
	}
	return logs
}

func TestLogKeepsWhatWasAppended(t *testing.T) {
	dir := t.TempDir()
	s := testLog(t, dir)
	logs := entries(1, 50, 3, 100)
	if err := s.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	if logs[0].Extensions != nil {
		t.Error("raft's own entry was changed")
	}
	for i := uint64(1); i <= 50; i++ {
		var l raft.Log
		if err := s.GetLog(i, &l); err != nil {
			t.Fatal(err)
		}
		if l.Index != i || l.Term != 3 || !bytes.Equal(l.Data, logs[i-1].Data) {
			t.Fatalf("entry %d came back as %+v", i, l)
		}
		if err := checkSeal(&l, i); err != nil {
			t.Error(err) // a follower checks it again
		}
	}
	var l raft.Log
	if err := s.GetLog(51, &l); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("beyond the end: %v", err)
	}
}

// The index in memory must say what a scan of the file says, after any sequence
// of appends, truncations and compactions.
func TestLogIndexEqualsScan(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "log")
		if err != nil {
			rt.Fatal(err)
		}
		b, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(dir, logFile), NoSync: true})
		if err != nil {
			rt.Fatal(err)
		}
		defer b.Close()
		if err := prepare(b); err != nil {
			rt.Fatal(err)
		}
		g := newGuard(time.Minute, func(int, error) {})
		defer g.close()
		s := newLogStore(b, "me", 300, g)
		next := uint64(1)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			first, last := s.index.bounds()
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0, 1:
				n := uint64(rapid.IntRange(1, 20).Draw(rt, "n"))
				logs := entries(next, next+n-1, next, rapid.IntRange(0, 400).Draw(rt, "size"))
				if rapid.Bool().Draw(rt, "noop") {
					logs[0].Type = raft.LogNoop
				}
				if err := s.StoreLogs(logs); err != nil {
					rt.Fatal(err)
				}
				next += n
			case 2:
				if last > 0 {
					at := rapid.Uint64Range(first, last).Draw(rt, "truncate")
					if err := s.DeleteRange(at, last); err != nil {
						rt.Fatal(err)
					}
					next = at
				}
			case 3:
				if last > 0 {
					if err := s.DeleteRange(first, rapid.Uint64Range(first, last).Draw(rt, "compact")); err != nil {
						rt.Fatal(err)
					}
				}
			}
		}
		fresh := newLogStore(b, "me", 300, g)
		if err := fresh.scan(); err != nil {
			rt.Fatal(err)
		}
		sf, sl := s.index.bounds()
		ff, fl := fresh.index.bounds()
		if sf != ff || sl != fl {
			rt.Fatalf("index says %d..%d, the file %d..%d", sf, sl, ff, fl)
		}
		if len(s.index.passive) != len(fresh.index.passive) {
			rt.Fatalf("passive entries: index has %v, the file %v", s.index.passive, fresh.index.passive)
		}
		got, _ := s.index.bytes(0)
		want, _ := fresh.index.bytes(0)
		if d := got - want; d < -800 || d > 800 {
			rt.Fatalf("index counts %d bytes, the file has %d", got, want)
		}
	})
}

func TestLogDeletesInChunks(t *testing.T) {
	t.Parallel()
	b, err := raftboltdb.New(raftboltdb.Options{Path: filepath.Join(t.TempDir(), logFile), NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	counting := &countingLog{LogBackend: b}
	g := newGuard(time.Minute, func(int, error) {})
	defer g.close()
	s := newLogStore(counting, "me", 1<<10, g)
	const n = 3*deleteChunk + 10
	if err := s.StoreLogs(entries(1, n, 1, 1)); err != nil {
		t.Fatal(err)
	}
	if err := s.DeleteRange(1, 2*deleteChunk+5); err != nil {
		t.Fatal(err)
	}
	if first, err := b.FirstIndex(); err != nil || first != 2*deleteChunk+6 || counting.deletes != 3 {
		t.Errorf("first is %d after %d transactions: %v", first, counting.deletes, err)
	}
	if err := s.wipe(); err != nil {
		t.Fatal(err)
	}
	if first, err := b.FirstIndex(); err != nil || first != tailIndex {
		t.Errorf("first is %d after a wipe: %v", first, err)
	}
}

func TestVoteIsOneWrite(t *testing.T) {
	dir := t.TempDir()
	s := testLog(t, dir)
	for _, k := range []string{keyVoteTerm, keyTerm} {
		if _, err := s.GetUint64([]byte(k)); err == nil || err.Error() != "not found" {
			t.Errorf("%s of an empty store: %v", k, err)
		}
	}
	vote := func(term uint64, to string) {
		t.Helper()
		if err := s.SetUint64([]byte(keyVoteTerm), term); err != nil {
			t.Fatal(err)
		}
		if err := s.Set([]byte(keyVoteCand), []byte(to)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(term uint64, to string) {
		t.Helper()
		gotTerm, err1 := s.GetUint64([]byte(keyVoteTerm))
		gotTo, err2 := s.Get([]byte(keyVoteCand))
		if err1 != nil || err2 != nil || gotTerm != term || string(gotTo) != to {
			t.Errorf("vote is %d %q (%v, %v), want %d %q", gotTerm, gotTo, err1, err2, term, to)
		}
	}
	vote(4, "me")
	check(4, "me")
	vote(5, "you")
	check(5, "you")
	if s.selfVote.Load() != 4 {
		t.Errorf("voted for itself in term %d, want 4", s.selfVote.Load())
	}
	// A crash between raft's two writes keeps the whole old vote.
	if err := s.SetUint64([]byte(keyVoteTerm), 6); err != nil {
		t.Fatal(err)
	}
	check(5, "you")
}

func TestStableValuesAreChecked(t *testing.T) {
	dir := t.TempDir()
	s := testLog(t, dir)
	if err := s.SetUint64([]byte(keyTerm), 7); err != nil {
		t.Fatal(err)
	}
	if got, err := s.GetUint64([]byte(keyTerm)); err != nil || got != 7 {
		t.Fatalf("term %d, %v", got, err)
	}
	if err := s.Set([]byte("Another"), nil); err == nil {
		t.Error("a value that nobody keeps was taken")
	}
	raw, err := s.backend.Get([]byte(keyStable))
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(raw) {
		flipped := bytes.Clone(raw)
		flipped[bit/8] ^= 1 << (bit % 8)
		if _, err := decodeStable(flipped); !errors.Is(err, errDamaged) {
			t.Errorf("flipped bit %d: %v", bit, err)
		}
	}
}

func TestDamagedEntryIsRefused(t *testing.T) {
	dir := t.TempDir()
	b, err := openBackend(dir)
	if err != nil {
		t.Fatal(err)
	}
	g := newGuard(time.Minute, func(int, error) {})
	defer g.close()
	s := newLogStore(b, "me", 1<<10, g)
	if err := errors.Join(s.StoreLogs(entries(1, 20, 1, 200)), b.Close()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, logFile)
	file, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(file, []byte("entry-7.entry-7."))
	if at < 0 {
		t.Fatal("entry 7 is not in the file")
	}
	file[at] ^= 0x40
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	c := newCluster(t, "a")
	m := c.members["a"]
	m.dir = dir
	err = m.open()
	var start *StartError
	if !errors.As(err, &start) || start.Code != ExitCorruptLog {
		t.Fatalf("opened with a damaged entry: %v", err)
	}
	for _, want := range []string{"entry 7", "checksum", "start server a again", dir} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the message lacks %q: %v", want, err)
		}
	}
}

func TestRefusesForeignEntry(t *testing.T) {
	s := testLog(t, t.TempDir())
	l := entries(1, 1, 1, 10)[0]
	l.Extensions = seal(l)
	l.Data[0] ^= 1
	if err := s.StoreLog(l); !errors.Is(err, errDamaged) {
		t.Errorf("an entry that changed on the way: %v", err)
	}
}

func TestSecondProcessIsToldOfTheLock(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testLog(t, dir)
	if _, err := openBackend(dir); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
}

// countingLog counts transactions.
type countingLog struct {
	LogBackend
	deletes int
}

func (f *countingLog) DeleteRange(lo, hi uint64) error {
	f.deletes++
	return f.LogBackend.DeleteRange(lo, hi)
}

func TestGuardEndsTheProcessOnStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		called := make(chan int, 1)
		g := newGuard(5*time.Second, func(code int, _ error) { called <- code })
		g.enter(guardArmed)
		release := make(chan struct{})
		go func() {
			_ = g.do("sync", ExitLogFailed, func() error { <-release; return nil })
		}()
		time.Sleep(5 * time.Second)
		select {
		case <-called:
			t.Error("called at the limit, not after it")
		default:
		}
		time.Sleep(2 * time.Second)
		select {
		case code := <-called:
			if code != ExitLogStalled {
				t.Errorf("code %d", code)
			}
		default:
			t.Error("a hanging call was not noticed")
		}
		close(release)
		g.close()
	})
}

// breakable is a backend whose appends fail or hang once told to.
type breakable struct {
	LogBackend
	tries atomic.Int32
	fail  atomic.Pointer[error]
	hang  atomic.Pointer[chan struct{}]
}

func (b *breakable) StoreLogs(logs []*raft.Log) error {
	b.tries.Add(1)
	if c := b.hang.Load(); c != nil {
		<-*c
	}
	if err := b.fail.Load(); err != nil {
		return *err
	}
	return b.LogBackend.StoreLogs(logs)
}

// The log's first failure ends the process, and nothing is tried on that disk
// again: after a failed sync the kernel takes the pages for clean, and a second
// sync lies. With room on the disk again the server starts on what it has.
func TestLogErrorEndsTheProcess(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		code int
	}{
		"failed sync": {syscall.EIO, ExitLogFailed},
		"full disk":   {syscall.ENOSPC, ExitDiskFull},
		"full quota":  {syscall.EDQUOT, ExitDiskFull},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, "a")
			b := &breakable{}
			c.wrap = func(_ string, inner LogBackend) LogBackend { b.LogBackend = inner; return b }
			c.startAll()
			ids := c.mustSubmit("k", 1, 1)
			failed := fmt.Errorf("write raft.db: %w", tt.err)
			b.fail.Store(&failed)
			m := c.members["a"]
			m.ProposeAsync(encode(t, "x", 1), func(fsm.Result, error) {})
			m.diedWith(tt.code, tt.err.Error())
			b.fail.Store(nil)
			tried := b.tries.Load()
			for range 3 {
				m.ProposeAsync(encode(t, "y", 1), func(fsm.Result, error) {})
			}
			m.stop()
			if n := b.tries.Load() - tried; n > 0 {
				t.Errorf("the disk that failed was written to %d times more", n)
			}
			m.start()
			c.mustSubmit("after", 1, 1)
			if !m.has(ids) {
				t.Error("an acknowledged task is missing after the restart")
			}
		})
	}
}

func TestLogStallEndsTheProcess(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.adjust = func(cfg *Config) { cfg.StallLimit = 500 * time.Millisecond }
	stalls := map[string]*breakable{}
	c.wrap = func(name string, inner LogBackend) LogBackend {
		stalls[name] = &breakable{LogBackend: inner}
		return stalls[name]
	}
	c.startAll()
	c.mustSubmit("k", 1, 1)
	l := c.leader()
	release := make(chan struct{})
	defer close(release)
	stalls[l.name].hang.Store(&release)
	l.ProposeAsync(encode(t, "x", 1), func(fsm.Result, error) {})
	l.diedWith(ExitLogStalled, "stalled")
}

// An acknowledged entry is one on disk, whatever a flag would promise.
func TestLogFileIsSynced(t *testing.T) {
	o := boltOptions()
	if o.NoSync || o.NoGrowSync || !o.NoFreelistSync || o.FreelistType != "hashmap" {
		t.Errorf("%+v", o)
	}
}

// A file of bbolt's never shrinks, so one that is mostly free is an alarm, and its
// size is in the metrics.
func TestGrownLogFileIsTold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		size, free int64
		want       bool
	}{
		{100 << 20, 90 << 20, false},
		{300 << 20, 100 << 20, false},
		{300 << 20, 200 << 20, true},
	} {
		if got := isWasteful(tt.size, tt.free); got != tt.want {
			t.Errorf("%d MiB with %d free: %v", tt.size>>20, tt.free>>20, got)
		}
	}
	c := newCluster(t, "a")
	c.startAll()
	c.mustSubmit("k", 1, 1)
	stats := c.members["a"].Stats()
	if stats["log_file_bytes"] == 0 {
		t.Errorf("no size of the log file: %v", stats)
	}
}
