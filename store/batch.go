package store

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
)

// maxSpareBytes bounds what a finished batch leaves for the next one to reuse.
const maxSpareBytes = 8 << 20

// engineBatch is a transaction on Pebble. It keeps its writes by table, the
// first byte of a key, and hands them to Pebble in the order of their keys: the
// memtable takes sorted rows several times faster, and a row that is written
// again and again, as a counter is, goes in once. Reads look at the writes first.
type engineBatch struct {
	reader // of what was committed before
	e      *engine
	w      *writes // nil once committed or discarded
}

// writes are the rows that a batch has written.
type writes struct {
	arena  []byte // keys, each with its value behind it
	tables [256]tableWrites
}

type tableWrites struct {
	rows []written // in the order of writing
	// index holds the place of each key's last write, for Get: of the first
	// indexed ones, since most tables are only written.
	index   map[string]int
	indexed int
}

// written is where a row lies in the arena.
type written struct {
	at      int
	key     int // bytes
	value   int // bytes
	deleted bool
}

const writtenBytes = 32 // of a written

func (w *writes) add(key, value []byte, deleted bool) {
	t := &w.tables[firstByte(key)]
	t.rows = append(t.rows, written{at: len(w.arena), key: len(key), value: len(value), deleted: deleted})
	w.arena = append(append(w.arena, key...), value...)
}

func firstByte(key []byte) byte {
	if len(key) == 0 {
		return 0
	}
	return key[0]
}

func (w *writes) key(r written) []byte { return w.arena[r.at : r.at+r.key : r.at+r.key] }

func (w *writes) value(r written) []byte {
	end := r.at + r.key + r.value
	return w.arena[r.at+r.key : end : end]
}

// last finds the last write of a key.
func (w *writes) last(key []byte) (written, bool) {
	t := &w.tables[firstByte(key)]
	if len(t.rows) == 0 {
		return written{}, false
	}
	if t.index == nil {
		t.index = make(map[string]int)
	}
	for ; t.indexed < len(t.rows); t.indexed++ {
		t.index[string(w.key(t.rows[t.indexed]))] = t.indexed
	}
	i, ok := t.index[string(key)]
	if !ok {
		return written{}, false
	}
	return t.rows[i], true
}

// sorted orders rows by key and leaves the last write of each.
func (w *writes) sorted(rows []written) []written {
	slices.SortFunc(rows, func(a, b written) int {
		if c := bytes.Compare(w.key(a), w.key(b)); c != 0 {
			return c
		}
		return cmp.Compare(a.at, b.at)
	})
	n := 0
	for i, r := range rows {
		if i+1 < len(rows) && bytes.Equal(w.key(r), w.key(rows[i+1])) {
			continue
		}
		rows[n] = r
		n++
	}
	return rows[:n]
}

// within returns the last writes of the keys from lo to hi, sorted.
func (w *writes) within(lo, hi []byte) []written {
	last := len(w.tables) - 1
	if hi != nil {
		last = int(firstByte(hi))
	}
	var found []written
	for t := int(firstByte(lo)); t <= last; t++ {
		for _, r := range w.tables[t].rows {
			if k := w.key(r); bytes.Compare(k, lo) >= 0 && (hi == nil || bytes.Compare(k, hi) < 0) {
				found = append(found, r)
			}
		}
	}
	return w.sorted(found)
}

// reset empties w; it reports whether w is small enough to be used again.
func (w *writes) reset() bool {
	size := cap(w.arena)
	for i := range w.tables {
		t := &w.tables[i]
		size += cap(t.rows) * writtenBytes
		t.rows, t.indexed = t.rows[:0], 0
		t.index = nil
	}
	w.arena = w.arena[:0]
	return size <= maxSpareBytes
}

func (b *engineBatch) Set(key, value []byte) { b.w.add(key, value, false) }

func (b *engineBatch) Delete(key []byte) { b.w.add(key, nil, true) }

func (b *engineBatch) Get(key []byte) ([]byte, bool) {
	if r, ok := b.w.last(key); ok {
		return b.w.value(r), !r.deleted
	}
	return b.reader.Get(key)
}

// Ascend merges the rows of the state with those that the batch has written.
func (b *engineBatch) Ascend(lo, hi []byte, fn func(key, value []byte) bool) {
	own := b.w.within(lo, hi)
	more := true
	// pass hands out the batch's rows before a key.
	pass := func(before []byte) {
		for more && len(own) > 0 && (before == nil || bytes.Compare(b.w.key(own[0]), before) < 0) {
			if !own[0].deleted {
				more = fn(b.w.key(own[0]), b.w.value(own[0]))
			}
			own = own[1:]
		}
	}
	b.reader.Ascend(lo, hi, func(key, value []byte) bool {
		pass(key)
		if !more {
			return false
		}
		if len(own) > 0 && bytes.Equal(b.w.key(own[0]), key) {
			return true // passed with the next key
		}
		more = fn(key, value)
		return more
	})
	pass(nil)
}

// Commit makes the writes visible at once.
func (b *engineBatch) Commit() {
	b.reader.close()
	out := b.e.db.NewBatchWithSize(len(b.w.arena) + len(b.w.arena)/4)
	for i := range b.w.tables {
		t := &b.w.tables[i]
		for _, r := range b.w.sorted(t.rows) {
			var err error
			if r.deleted {
				err = out.Delete(b.w.key(r), nil)
			} else {
				err = out.Set(b.w.key(r), b.w.value(r), nil)
			}
			if err != nil {
				b.fatal(fmt.Errorf("write state: %w", err))
			}
		}
	}
	if err := out.Commit(pebble.NoSync); err != nil {
		b.fatal(fmt.Errorf("commit state: %w", err))
	}
	if err := out.Close(); err != nil {
		b.fatal(fmt.Errorf("close batch: %w", err))
	}
	b.end()
}

// Discard drops the writes.
func (b *engineBatch) Discard() {
	if b.w == nil {
		return
	}
	b.reader.close()
	b.end()
}

func (b *engineBatch) end() {
	b.e.keep(b.w)
	b.w = nil
	b.e.release()
}
