package fsm

import "encoding/binary"

// checksum keeps the hash chain as of the entry before, with this entry's index, so
// that servers which are at different entries can compare.
func (a *apply) checksum() Result {
	row := binary.BigEndian.AppendUint64(nil, a.at.Index)
	row = binary.BigEndian.AppendUint64(row, a.chain)
	a.set(metaKey(metaSum), row)
	return Result{Changed: true}
}

// readSum returns what the newest Checksum kept; zeros before the first one.
func readSum(r Reader) (index, chain uint64) {
	b, ok := r.Get(metaKey(metaSum))
	if !ok || len(b) != 16 {
		return 0, 0
	}
	return binary.BigEndian.Uint64(b), binary.BigEndian.Uint64(b[8:])
}
