package fsm

import (
	"bytes"

	"github.com/google/btree"
)

// memTx is an ordered map as a Tx. The slices it hands out are poisoned at the
// next call, since that is all the contract promises.
type memTx struct {
	tree *btree.BTreeG[memRow]
	out  []byte // the last value handed out
	busy bool   // inside Ascend
	fast bool   // hand out the rows themselves, for benchmarks
	ops  int    // rows read and written
}

type memRow struct{ k, v []byte }

func newMemTx() *memTx {
	return &memTx{tree: btree.NewG(32, func(a, b memRow) bool { return bytes.Compare(a.k, b.k) < 0 })}
}

func (m *memTx) clone() *memTx { return &memTx{tree: m.tree.Clone()} }

func (m *memTx) poison() {
	if m.busy {
		panic("the transaction was used inside Ascend")
	}
	for i := range m.out {
		m.out[i] = 0xc1 // never valid msgpack
	}
	m.out = nil
}

func (m *memTx) Get(k []byte) ([]byte, bool) {
	m.poison()
	m.ops++
	row, ok := m.tree.Get(memRow{k: k})
	if !ok {
		return nil, false
	}
	if m.fast {
		return row.v, true
	}
	m.out = bytes.Clone(row.v)
	return m.out, true
}

func (m *memTx) Ascend(lo, hi []byte, fn func(k, v []byte) bool) {
	m.poison()
	if hi != nil && bytes.Compare(lo, hi) > 0 {
		panic("Ascend with lo > hi")
	}
	m.busy = true
	m.tree.AscendGreaterOrEqual(memRow{k: lo}, func(row memRow) bool {
		if hi != nil && bytes.Compare(row.k, hi) >= 0 {
			return false
		}
		m.ops++
		k, v := bytes.Clone(row.k), bytes.Clone(row.v)
		more := fn(k, v)
		for _, b := range [][]byte{k, v} {
			for i := range b {
				b[i] = 0xc1
			}
		}
		return more
	})
	m.busy = false
}

func (m *memTx) Set(k, v []byte) {
	m.poison()
	m.ops++
	m.tree.ReplaceOrInsert(memRow{bytes.Clone(k), append([]byte{}, v...)})
}

func (m *memTx) Delete(k []byte) {
	m.poison()
	m.ops++
	m.tree.Delete(memRow{k: k})
}
