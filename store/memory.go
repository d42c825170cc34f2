package store

import (
	"bytes"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/btree"
)

// Memory is the in-memory twin of the store on disk: the same behaviour,
// without durability.
type Memory struct {
	mu    sync.Mutex
	rows  *btree.BTreeG[row] // committed; changed only by replacing it
	views int
}

type row struct{ key, value []byte }

// memoryDegree trades copying against depth; 16 to 64 make no difference.
const memoryDegree = 32

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{rows: btree.NewG(memoryDegree, func(a, b row) bool { return bytes.Compare(a.key, b.key) < 0 })}
}

// clone is O(1): the trees share nodes until one of them writes.
func (m *Memory) clone() *btree.BTreeG[row] {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.rows.Clone()
}

// View opens a reader of the state as of the last commit.
func (m *Memory) View() View {
	m.mu.Lock()
	m.views++
	m.mu.Unlock()
	return &memoryView{memoryReader: memoryReader{rows: m.clone()}, m: m}
}

// Batch opens a transaction.
func (m *Memory) Batch() Batch {
	return &memoryBatch{memoryReader: memoryReader{rows: m.clone()}, m: m}
}

// Flush does nothing.
func (m *Memory) Flush() error { return nil }

// Checkpoint writes the state to dir on disk, in the form of the store there.
func (m *Memory) Checkpoint(dir string) error {
	if _, err := vfs.Default.Stat(dir); err == nil {
		return fmt.Errorf("checkpoint state to %s: the directory exists", dir)
	}
	disk, err := openEngine(vfs.Default, dir, Options{Create: true})
	if err != nil {
		return err
	}
	b := disk.Batch()
	m.clone().Ascend(func(r row) bool {
		b.Set(r.key, r.value)
		return true
	})
	b.Commit()
	return disk.Close()
}

// Metrics returns the number of rows and of open views.
func (m *Memory) Metrics() map[string]float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return map[string]float64{"rows": float64(m.rows.Len()), "views": float64(m.views)}
}

// Close does nothing.
func (m *Memory) Close() error { return nil }

// memoryReader hands out a copy that the next call overwrites, so that a
// caller who keeps a value too long fails in tests as it would on disk.
type memoryReader struct {
	rows *btree.BTreeG[row]
	buf  []byte
}

func (r *memoryReader) Get(key []byte) ([]byte, bool) {
	clear(r.buf)
	found, ok := r.rows.Get(row{key: key})
	if !ok {
		return nil, false
	}
	r.buf = append(r.buf[:0], found.value...)
	return r.buf, true
}

func (r *memoryReader) Ascend(lo, hi []byte, fn func(key, value []byte) bool) {
	r.rows.AscendGreaterOrEqual(row{key: lo}, func(found row) bool {
		if hi != nil && bytes.Compare(found.key, hi) >= 0 {
			return false
		}
		return fn(found.key, found.value)
	})
}

type memoryView struct {
	memoryReader
	m *Memory
}

// Close ends the view; a second call does nothing.
func (v *memoryView) Close() {
	if v.m == nil {
		return
	}
	v.m.mu.Lock()
	defer v.m.mu.Unlock()
	v.m.views--
	v.m = nil
}

type memoryBatch struct {
	memoryReader
	m *Memory // nil once committed or discarded
}

func (b *memoryBatch) Set(key, value []byte) {
	b.rows.ReplaceOrInsert(row{key: bytes.Clone(key), value: bytes.Clone(value)})
}

func (b *memoryBatch) Delete(key []byte) { b.rows.Delete(row{key: key}) }

func (b *memoryBatch) Commit() {
	b.m.mu.Lock()
	defer b.m.mu.Unlock()
	b.m.rows = b.rows
	b.m, b.rows = nil, nil
}

func (b *memoryBatch) Discard() { b.m, b.rows = nil, nil }
