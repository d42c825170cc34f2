package fsm

import (
	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/internal/mutant"
)

// The sizes of the filter over idempotency keys.
const (
	filterBitsPerKey  = 12      // about one needless look in two hundred
	filterKeysAtFirst = 1 << 16 // then four times as many whenever they are passed
	maxFilterBytes    = 16 << 20
	filterScan        = 2000 // rows that one entry reads to build a filter
)

// bloom is a split block Bloom filter: each key sets one bit in each word of one
// block. Source: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom
// Filters", 2007; the salts are those of the Apache Parquet format.
type bloom struct {
	blocks []bloomBlock
	limit  int // keys that it is made for
	keys   int // added
}

type bloomBlock [8]uint32

var bloomSalts = bloomBlock{
	0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d, 0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31,
}

func newBloom(keys int) *bloom {
	const blockBytes = 8 * 4
	bytes := min(keys*filterBitsPerKey/8, maxFilterBytes)
	return &bloom{blocks: make([]bloomBlock, bytes/blockBytes), limit: keys}
}

// place returns a hash's block, and the bits of it in that block's words.
func (f *bloom) place(hash uint64) (*bloomBlock, bloomBlock) {
	const wordShift = 32 - 5
	var bits bloomBlock
	for i, salt := range bloomSalts {
		bits[i] = 1 << (uint32(hash) * salt >> wordShift) //nolint:gosec // the low half
	}
	return &f.blocks[(hash>>32)*uint64(len(f.blocks))>>32], bits
}

func (f *bloom) add(hash uint64) {
	block, bits := f.place(hash)
	for i := range block {
		block[i] |= bits[i]
	}
	f.keys++
}

func (f *bloom) mayHold(hash uint64) bool {
	block, bits := f.place(hash)
	for i := range block {
		if block[i]&bits[i] == 0 {
			return false
		}
	}
	return true
}

// full tells whether the filter holds more than it is made for and could be larger.
func (f *bloom) full() bool {
	return f.keys > f.limit && len(f.blocks)*len(bloomBlock{})*4 < maxFilterBytes*3/4
}

// keyFilter tells of most idempotency keys that tableKeys has no row of them, so
// that apply needn't look there: a look for what isn't there costs more than the
// rest of a submit. It never says so of a key that has a row. It is built from the
// table a few rows with each entry; until it is complete, everything is looked up.
type keyFilter struct {
	ready   *bloom // of all rows; nil until the first is complete
	next    *bloom // being built; nil: none
	from    key    // the scan goes on here
	deleted int    // rows deleted since ready was begun
}

func (f *keyFilter) mayHold(k key) bool {
	return f.ready == nil || f.ready.mayHold(xxhash.Sum64(k))
}

// add notes a key whose row is written.
func (f *keyFilter) add(k key) {
	hash := xxhash.Sum64(k)
	if f.ready != nil {
		f.ready.add(hash)
	}
	if f.next != nil {
		f.next.add(hash)
	}
}

// stale tells whether a new filter should be built: there is none, it is too small,
// or most of what it holds is gone.
func (f *keyFilter) stale() bool {
	return f.ready == nil || f.ready.full() || f.deleted > max(f.ready.keys/2, filterKeysAtFirst)
}

// grow goes on building a filter, or begins one where that is needed.
func (f *keyFilter) grow(r Reader) {
	if f.next == nil {
		if !f.stale() {
			return
		}
		limit := filterKeysAtFirst
		if f.ready != nil {
			for limit < f.ready.keys-f.deleted {
				limit *= 4
			}
		}
		f.next, f.from, f.deleted = newBloom(limit), key{tableKeys}, 0
	}
	n, complete := 0, true
	r.Ascend(f.from, tableEnd(tableKeys), func(k, _ []byte) bool {
		if n == filterScan {
			f.from, complete = append(key{}, k...), false
			return false
		}
		n++
		if mutant.KeyLost {
			return true
		}
		f.next.add(xxhash.Sum64(k))
		return true
	})
	if complete {
		f.ready, f.next = f.next, nil
	}
}
