package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"
	bbolterrors "go.etcd.io/bbolt/errors"
)

const (
	logFile  = "raft.db"
	lockWait = 2 * time.Second // for the file's lock, held by another process
	// deleteChunk bounds the entries that one transaction deletes, so that a
	// compaction of a few hundred thousand neither blocks appends nor looks
	// like a stalled disk.
	deleteChunk = 4096
	// sealVersion is the first byte of an entry's seal; the checksum follows.
	sealVersion = 1
	sealSize    = 1 + 8
)

// Raft's keys in the stable store, and ours for both halves of a vote.
const (
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
	keyTerm     = "CurrentTerm"
	keyVote     = "axd.Vote"
)

// errDamaged says that what was read is not what was written.
var errDamaged = errors.New("checksum mismatch")

// LogBackend keeps Raft's log and its few values, as raft-boltdb does: what a
// call has written is durable when it returns. Get of an absent key is an error
// whose text is "not found".
type LogBackend interface {
	raft.LogStore
	Get(key []byte) ([]byte, error)
	Set(key, value []byte) error
	Close() error
}

// logStore is Raft's log and stable store: raft-boltdb behind a checksum per
// entry and value, one transaction per vote, and a guard. The seal travels in
// the entry's Extensions, so what a leader computed when it appended an entry
// is checked by each server that receives, stores or reads it.
type logStore struct {
	*guard
	backend LogBackend
	self    string
	index   *logIndex
	grown   chan struct{} // signalled when the log has grown by a grain

	voteTerm uint64        // first half of a vote, until the second arrives
	selfVote atomic.Uint64 // newest term in which this server voted for itself
}

// openBackend opens raft.db. The freelist isn't written with each commit: it is
// rebuilt at open, which costs a scan of a file bounded by the log's size.
func openBackend(dir string) (*raftboltdb.BoltStore, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, logFile)
	_, statErr := os.Stat(path)
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{
		Timeout:        lockWait,
		NoFreelistSync: true,
		FreelistType:   bbolt.FreelistMapType,
	}})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is locked: another process uses this data directory", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if os.IsNotExist(statErr) {
		// bbolt syncs the file, not its directory: without this a power loss
		// could take the file, and with it votes already given.
		if err := syncDir(dir); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, nil
}

// openReadOnly opens raft.db for a look; it must exist.
func openReadOnly(dir string) (*raftboltdb.BoltStore, error) {
	path := filepath.Join(dir, logFile)
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("the Raft log: %w", err)
	}
	b, err := raftboltdb.New(raftboltdb.Options{Path: path, BoltOptions: &bbolt.Options{Timeout: lockWait, ReadOnly: true}})
	if errors.Is(err, bbolterrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is locked: another process uses this data directory", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return b, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func newLogStore(b LogBackend, self string, grain int64, g *guard) *logStore {
	return &logStore{guard: g, backend: b, self: self, index: newLogIndex(grain), grown: make(chan struct{}, 1)}
}

// scan reads the whole log, checks that it has no gap and that each entry is
// what was written, and fills the index. A damaged server must not vote with a
// shorter log, so the caller refuses to start.
func (s *logStore) scan() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector under mmap
	first, err := s.backend.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.backend.LastIndex()
	if err != nil {
		return err
	}
	for i := first; i <= last && i > 0; i++ {
		var l raft.Log
		if err := recovered(func() error { return s.backend.GetLog(i, &l) }); err != nil {
			return fmt.Errorf("entry %d: %w", i, err)
		}
		if err := checkSeal(&l, i); err != nil {
			return err
		}
		s.index.appended(&l)
	}
	if vote, err := s.vote(); err == nil && string(vote[8:]) == s.self {
		s.selfVote.Store(binary.BigEndian.Uint64(vote))
	}
	return nil
}

// wipe deletes the whole log.
func (s *logStore) wipe() error {
	first, last := s.index.bounds()
	if last == 0 {
		return nil
	}
	return s.DeleteRange(first, last)
}

// conflicts reports whether the log has another entry at index than one of
// term. Entries that aren't there don't conflict.
func (s *logStore) conflicts(index, term uint64) (bool, error) {
	first, last := s.index.bounds()
	if index == 0 || index < first || index > last {
		return false, nil
	}
	var l raft.Log
	if err := s.GetLog(index, &l); err != nil {
		return false, err
	}
	return l.Term != term, nil
}

// FirstIndex returns the first index, 0 for an empty log.
func (s *logStore) FirstIndex() (uint64, error) {
	first, _ := s.index.bounds()
	return first, nil
}

// LastIndex returns the last index, 0 for an empty log.
func (s *logStore) LastIndex() (uint64, error) {
	_, last := s.index.bounds()
	return last, nil
}

// GetLog reads an entry and checks it.
func (s *logStore) GetLog(index uint64, l *raft.Log) error {
	if first, last := s.index.bounds(); index == 0 || index < first || index > last {
		return raft.ErrLogNotFound
	}
	var missing bool
	err := s.do(fmt.Sprintf("read log entry %d", index), ExitCorruptLog, func() error {
		*l = raft.Log{}
		if err := s.backend.GetLog(index, l); err != nil {
			// A concurrent compaction may have taken it since the look at the bounds.
			missing = errors.Is(err, raft.ErrLogNotFound)
			if missing {
				return nil
			}
			return err
		}
		return checkSeal(l, index)
	})
	if missing {
		return raft.ErrLogNotFound
	}
	return err
}

// StoreLog appends one entry.
func (s *logStore) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs appends entries in one transaction.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		c := *l // raft goes on using its own
		if len(c.Extensions) == 0 {
			c.Extensions = seal(&c)
		} else if err := checkSeal(&c, c.Index); err != nil {
			return s.fail("append log entry", ExitCorruptLog, err)
		}
		sealed[i] = &c
	}
	err := s.do("append to the log", ExitLogFailed, func() error { return s.backend.StoreLogs(sealed) })
	if err != nil {
		return err
	}
	if s.index.appended(sealed...) {
		select {
		case s.grown <- struct{}{}:
		default:
		}
	}
	return nil
}

// DeleteRange deletes entries, in an order that leaves no gap whenever the
// process ends: from the front when compacting, from the back when truncating.
func (s *logStore) DeleteRange(lo, hi uint64) error {
	first, last := s.index.bounds()
	lo, hi = max(lo, first), min(hi, last)
	if last == 0 || lo > hi {
		return nil
	}
	if hi == last {
		return s.deleteSuffix(lo, hi)
	}
	for from := lo; from <= hi; from += deleteChunk {
		to := min(from+deleteChunk-1, hi)
		if err := s.deleteChunk(from, to); err != nil {
			return err
		}
		s.index.deletedPrefix(to)
	}
	return nil
}

func (s *logStore) deleteSuffix(lo, hi uint64) error {
	for {
		from := lo
		if hi-lo >= deleteChunk {
			from = hi - deleteChunk + 1
		}
		if err := s.deleteChunk(from, hi); err != nil {
			return err
		}
		s.index.deletedSuffix(from)
		if from == lo {
			return nil
		}
		hi = from - 1
	}
}

func (s *logStore) deleteChunk(lo, hi uint64) error {
	return s.do("delete from the log", ExitLogFailed, func() error { return s.backend.DeleteRange(lo, hi) })
}

// seal returns the extension that protects an entry.
func seal(l *raft.Log) []byte {
	return binary.BigEndian.AppendUint64([]byte{sealVersion}, checksum(l))
}

// checkSeal reports whether an entry is the one that was written at index.
func checkSeal(l *raft.Log, index uint64) error {
	if len(l.Extensions) != sealSize || l.Extensions[0] != sealVersion {
		return fmt.Errorf("entry %d: %w: it carries no seal of this version", index, errDamaged)
	}
	if l.Index != index || binary.BigEndian.Uint64(l.Extensions[1:]) != checksum(l) {
		return fmt.Errorf("entry %d: %w", index, errDamaged)
	}
	return nil
}

func checksum(l *raft.Log) uint64 {
	var head [17]byte
	binary.BigEndian.PutUint64(head[0:], l.Index)
	binary.BigEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	var d xxhash.Digest
	d.Reset()
	d.Write(head[:]) // a Digest never fails
	d.Write(l.Data)
	return d.Sum64()
}
