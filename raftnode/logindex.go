package raftnode

import (
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// entryOverhead is what an entry costs in the log beyond its data, roughly:
// key, field names, checksum, page headers.
const entryOverhead = 96

// logIndex is what is remembered of the log in memory: its bounds, how many
// bytes lie where, and which entries never reach the state. It is bounded by
// the log's bytes, not its entries.
type logIndex struct {
	grain int64 // bytes between two marks

	mu          sync.Mutex
	first, last uint64 // 0 when the log is empty
	total       int64  // bytes appended since start, the scan included
	base        int64  // of which were deleted again
	marks       []mark // ascending
	// passive holds the entries that raft keeps to itself: no-ops, barriers,
	// configurations. They are rare: leader changes and membership changes.
	passive map[uint64]struct{}
	noop    position // the first no-op of the newest term: its leader's first entry
}

// mark says that total bytes had been appended with the entry at index.
type mark struct {
	index uint64
	total int64
}

type position struct{ term, index uint64 }

func newLogIndex(grain int64) *logIndex {
	return &logIndex{grain: grain, passive: make(map[uint64]struct{})}
}

// appended records entries; it reports whether a mark was set, which is often
// enough to look whether a snapshot is due.
func (x *logIndex) appended(logs ...*raft.Log) (marked bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range logs {
		if x.first == 0 {
			x.first = l.Index
		}
		x.last = l.Index
		x.total += int64(len(l.Data)) + entryOverhead
		if l.Type != raft.LogCommand {
			x.passive[l.Index] = struct{}{}
		}
		if l.Type == raft.LogNoop && l.Term > x.noop.term {
			x.noop = position{l.Term, l.Index}
		}
		if len(x.marks) == 0 || x.total-x.marks[len(x.marks)-1].total >= x.grain {
			x.marks = append(x.marks, mark{l.Index, x.total})
			marked = true
		}
	}
	return marked
}

// deletedPrefix records that entries up to and including index are gone.
func (x *logIndex) deletedPrefix(index uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.base = x.totalAt(index)
	x.marks = slices.DeleteFunc(x.marks, func(m mark) bool { return m.index <= index })
	for i := range x.passive {
		if i <= index {
			delete(x.passive, i)
		}
	}
	x.first = index + 1
	if index >= x.last {
		x.first, x.last, x.base = 0, 0, x.total
	}
}

// deletedSuffix records that entries from index on are gone.
func (x *logIndex) deletedSuffix(index uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.total = max(x.totalAt(index-1), x.base)
	x.marks = slices.DeleteFunc(x.marks, func(m mark) bool { return m.index >= index })
	for i := range x.passive {
		if i >= index {
			delete(x.passive, i)
		}
	}
	if x.noop.index >= index {
		x.noop = position{}
	}
	x.last = index - 1
	if index <= x.first {
		x.first, x.last = 0, 0
	}
}

// totalAt returns the bytes appended up to index, rounded down to a mark.
func (x *logIndex) totalAt(index uint64) int64 {
	i, found := slices.BinarySearchFunc(x.marks, index, func(m mark, i uint64) int {
		switch {
		case m.index < i:
			return -1
		case m.index > i:
			return 1
		}
		return 0
	})
	if found {
		return x.marks[i].total
	}
	if i == 0 {
		return x.base
	}
	return x.marks[i-1].total
}

// bounds returns the first and last index, 0 and 0 when the log is empty.
func (x *logIndex) bounds() (first, last uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.first, x.last
}

// bytes returns the size of the log and of its part behind index.
func (x *logIndex) bytes(index uint64) (all, behind int64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.total - x.base, x.total - max(x.totalAt(index), x.base)
}

// trailing converts an amount of log into a number of entries, by the sizes of
// the newest ones.
func (x *logIndex) trailing(bytes int64) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, m := range slices.Backward(x.marks) {
		if x.total-m.total >= bytes {
			return x.last - m.index
		}
	}
	if x.last == 0 {
		return 0
	}
	return x.last - x.first + 1
}

// command returns the newest entry at or below index that reaches the state,
// looking no further down than floor.
func (x *logIndex) command(index, floor uint64) uint64 {
	x.mu.Lock()
	defer x.mu.Unlock()
	for index > floor {
		if _, passive := x.passive[index]; !passive {
			break
		}
		index--
	}
	return index
}

// leaderStart returns the term and index of the newest leader's first entry.
func (x *logIndex) leaderStart() (term, index uint64) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.noop.term, x.noop.index
}
