package raftnode

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
	"github.com/hashicorp/raft"
)

const (
	// deleteChunk bounds the entries that one transaction deletes, so that a
	// compaction of a few hundred thousand neither blocks appends nor looks
	// like a stalled disk.
	deleteChunk = 4096
	// sealVersion is the first byte of an entry's seal; the checksum follows.
	sealVersion = 1
	sealSize    = 1 + 8
	// tailIndex is the key of the tail mark, behind every entry.
	tailIndex = math.MaxUint64
)

// errDamaged says that what was read is not what was written.
var errDamaged = errors.New("checksum mismatch")

// LogBackend keeps Raft's log and its few values, as raft-boltdb does: what a
// call has written is durable when it returns. Get of an absent key is an error
// whose text is "not found". Entries are kept by index; the one at MaxUint64 is a
// record of where the log ends, written in the same call as the last of them.
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
//
// A damaged page may hide whole entries, and no checksum misses what isn't
// there. So behind the last entry, and written with it, lies the tail mark,
// which says where the log ends.
type logStore struct {
	*guard
	backend LogBackend
	self    string
	index   *logIndex
	cache   logCache
	grown   chan struct{} // signalled when the log has grown by a grain
	rest    uint64        // from here on the file may hold what a truncation has left

	appender *appender
	// ahead tells whether what this server appends as leader may be sent before it
	// is durable: where it alone is no quorum. Nil: never.
	ahead func() bool

	stable   stable        // as stored; used by raft's main loop alone
	voteTerm uint64        // first half of a vote, until the second arrives
	selfVote atomic.Uint64 // newest term in which this server voted for itself
}

func newLogStore(b LogBackend, self string, grain int64, g *guard) *logStore {
	s := &logStore{guard: g, backend: b, self: self, index: newLogIndex(grain), grown: make(chan struct{}, 1)}
	s.appender = newAppender(s.append)
	return s
}

// load is scan for whoever is going to append.
func (s *logStore) load() error {
	if err := s.scan(); err != nil {
		return err
	}
	return recovered(s.endTruncation)
}

// scan reads the whole log, checks that it has no gap, that it ends where its
// tail mark says and that each entry is what was written, and fills the index. A
// damaged server must not vote with a shorter log, so the caller refuses to start.
func (s *logStore) scan() (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // a bad sector under mmap
	return recovered(func() error {
		if err := s.loadStable(); err != nil {
			return err
		}
		first, err := s.backend.FirstIndex()
		if err != nil {
			return err
		}
		last, err := s.readTail()
		if err != nil {
			return err
		}
		if last > 0 && first > last {
			return fmt.Errorf("entry %d: %w", last, raft.ErrLogNotFound)
		}
		for i := first; i <= last; i++ {
			var l raft.Log
			if err := s.backend.GetLog(i, &l); err != nil {
				return fmt.Errorf("entry %d: %w", i, err)
			}
			if err := checkSeal(&l, i); err != nil {
				return err
			}
			s.index.appended(&l)
		}
		s.rest = max(first, last+1)
		return nil
	})
}

// tailMark returns the record that a log ends at an index. It is kept as an
// entry behind all others, so that it goes into the transaction that appends.
func tailMark(last uint64) *raft.Log {
	l := &raft.Log{Index: tailIndex, Type: raft.LogNoop, Data: binary.BigEndian.AppendUint64(nil, last)}
	l.Extensions = seal(l)
	return l
}

// readTail returns where the log must end, 0 for one that never had an entry.
func (s *logStore) readTail() (uint64, error) {
	var l raft.Log
	err := s.backend.GetLog(tailIndex, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return 0, fmt.Errorf("%w: the log has no end mark", errDamaged)
	}
	if err != nil {
		return 0, fmt.Errorf("the end mark: %w", err)
	}
	if err := checkSeal(&l, tailIndex); err != nil || len(l.Data) != 8 {
		return 0, fmt.Errorf("the end mark: %w", errDamaged)
	}
	return binary.BigEndian.Uint64(l.Data), nil
}

// endTruncation removes what lies behind the tail mark: entries that conflicted
// with the leader's, whose removal a crash interrupted.
func (s *logStore) endTruncation() error {
	var l raft.Log
	if s.rest == tailIndex {
		return nil
	}
	err := s.backend.GetLog(s.rest, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", s.rest, err)
	}
	return s.backend.DeleteRange(s.rest, tailIndex-1)
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

// ownEntries are the entries that this server has, with those in its snapshots.
type ownEntries struct {
	*logStore
	snaps *snapshots
}

// covers implements ownLog. Of two logs that have an entry of one term in common,
// all before it is the same, and what a snapshot holds was committed.
func (o ownEntries) covers(index, term uint64) bool {
	if o.snaps.latest().Index >= index {
		return true
	}
	if first, last := o.index.bounds(); index < first || index > last {
		return false
	}
	conflict, err := o.conflicts(index, term)
	return err == nil && !conflict
}

// compacted implements ownLog.
func (o ownEntries) compacted() uint64 {
	snapshot := o.snaps.latest().Index
	if first, _ := o.index.bounds(); first > 0 {
		return min(first-1, snapshot)
	}
	return snapshot
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
	if cached, ok := s.cache.get(index); ok {
		*l = *cached
		return nil
	}
	if fresh, ok := s.appender.get(index); ok {
		*l = *fresh
		return nil
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

// StoreLogs appends entries. They are durable when it returns, unless this server
// made them as leader: then the appender writes them.
func (s *logStore) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	sealed := make([]*raft.Log, len(logs))
	own := true
	for i, l := range logs {
		c := *l // raft goes on using its own
		if len(c.Extensions) == 0 {
			c.Extensions = seal(&c)
		} else if err := checkSeal(&c, c.Index); err != nil {
			return s.fail("append log entry", ExitCorruptLog, err)
		} else {
			own = false
		}
		// A configuration may make this server a quorum by itself.
		own = own && c.Type != raft.LogConfiguration
		sealed[i] = &c
	}
	if own && s.ahead != nil && s.ahead() {
		s.appender.add(sealed)
	} else if err := s.storeNow(sealed); err != nil {
		return err
	}
	s.cache.add(sealed)
	if s.index.appended(sealed...) {
		select {
		case s.grown <- struct{}{}:
		default:
		}
	}
	return nil
}

func (s *logStore) storeNow(sealed []*raft.Log) error {
	if err := s.appender.drain(); err != nil {
		return s.fail("append to the log", ExitLogFailed, err)
	}
	return s.append(sealed)
}

// append writes entries and where the log ends with them in one transaction.
func (s *logStore) append(sealed []*raft.Log) error {
	marked := append(slices.Clone(sealed), tailMark(sealed[len(sealed)-1].Index))
	return s.do("append to the log", ExitLogFailed, func() error { return s.backend.StoreLogs(marked) })
}

// durable returns once every entry up to an index is. An error ends the process.
func (s *logStore) durable(index uint64) error { return s.appender.await(index) }

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
	if err := s.appender.drain(); err != nil {
		return s.fail("truncate the log", ExitLogFailed, err)
	}
	s.cache.clear()
	end := lo - 1
	if first, _ := s.index.bounds(); lo == first {
		end = 0 // nothing is left
	}
	mark := []*raft.Log{tailMark(end)} // first, so that a crash in between is no damage
	if err := s.do("truncate the log", ExitLogFailed, func() error { return s.backend.StoreLogs(mark) }); err != nil {
		return err
	}
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
