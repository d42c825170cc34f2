package worker

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"

	"github.com/axd-project/axd/rpc"
)

// A record of the journal is a frame: two bytes that mark its beginning, the
// body's length and CRC-32C, four bytes each, and the body. The body is the kind,
// and its fields: numbers as varints, texts and bytes behind their length.
const (
	recordHeader  = 10
	maxRecordBody = 256 << 10
)

var (
	recordMark = []byte{0xA7, 0xD1}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// The kinds of records; values are part of the format.
const (
	recordEntry   = 1 // an attempt's result or give-back
	recordRunning = 2 // an attempt of this process runs
	recordSettled = 3 // entries that are acknowledged
)

// record is one record, decoded.
type record struct {
	kind     byte
	size     int64 // with its header
	seq      uint64
	ref      rpc.Ref
	result   []byte
	giveBack string
	settled  []uint64
}

func appendEntry(b []byte, r record) []byte {
	b, at := beginRecord(b, r.kind)
	b = binary.AppendUvarint(b, r.seq)
	b = appendText(b, r.ref.Namespace)
	b = append(b, r.ref.ID[:]...)
	b = binary.AppendUvarint(b, uint64(r.ref.Attempt))
	b = append(b, r.ref.Token[:]...)
	if r.kind == recordEntry {
		b = appendText(b, r.giveBack)
		b = append(b, r.result...)
	}
	return endRecord(b, at)
}

const settledMost = 8192 // numbers in one record: below maxRecordBody

func appendSettled(b []byte, seqs []uint64) []byte {
	for len(seqs) > 0 {
		part := seqs[:min(len(seqs), settledMost)]
		seqs = seqs[len(part):]
		var at int
		b, at = beginRecord(b, recordSettled)
		for _, seq := range part {
			b = binary.AppendUvarint(b, seq)
		}
		b = endRecord(b, at)
	}
	return b
}

func beginRecord(b []byte, kind byte) (_ []byte, at int) {
	at = len(b)
	b = append(b, recordMark...)
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0, kind), at
}

func endRecord(b []byte, at int) []byte {
	body := b[at+recordHeader:]
	binary.BigEndian.PutUint32(b[at+2:], uint32(len(body))) //nolint:gosec // a result is bounded
	binary.BigEndian.PutUint32(b[at+6:], crc32.Checksum(body, castagnoli))
	return b
}

func appendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// readJournal gives every record that is whole, in order, and counts the bytes
// that are damaged: those before which and after which there are whole records.
// What follows the last whole record was being written when the process or the
// machine ended, and nobody was told that it is durable.
func readJournal(b []byte, each func(record)) (damaged int64) {
	skipped := int64(0)
	for len(b) > 0 {
		r, ok := parseRecord(b)
		if ok {
			damaged, skipped = damaged+skipped, 0
			each(r)
			b = b[r.size:]
			continue
		}
		next := bytes.Index(b[1:], recordMark)
		if next < 0 {
			break
		}
		skipped += int64(next + 1)
		b = b[next+1:]
	}
	return damaged
}

// parseRecord reads the record that b begins with.
func parseRecord(b []byte) (r record, ok bool) {
	if len(b) < recordHeader || !bytes.HasPrefix(b, recordMark) {
		return r, false
	}
	n := int(binary.BigEndian.Uint32(b[2:]))
	if n == 0 || n > maxRecordBody || n > len(b)-recordHeader {
		return r, false
	}
	body := b[recordHeader : recordHeader+n]
	if crc32.Checksum(body, castagnoli) != binary.BigEndian.Uint32(b[6:]) {
		return r, false
	}
	r = record{kind: body[0], size: int64(recordHeader + n)}
	p := parser{body[1:], true}
	switch r.kind {
	case recordEntry, recordRunning:
		r.seq = p.number()
		r.ref.Namespace = string(p.bytes(p.number()))
		copy(r.ref.ID[:], p.bytes(uint64(len(r.ref.ID))))
		r.ref.Attempt = uint32(p.number()) //nolint:gosec // written from one
		copy(r.ref.Token[:], p.bytes(uint64(len(r.ref.Token))))
		if r.kind == recordEntry {
			r.giveBack = string(p.bytes(p.number()))
			r.result = p.bytes(uint64(len(p.rest)))
		}
	case recordSettled:
		for p.ok && len(p.rest) > 0 {
			r.settled = append(r.settled, p.number())
		}
	}
	return r, p.ok
}

// parser reads a body. Once something is missing, ok is false for good.
type parser struct {
	rest []byte
	ok   bool
}

func (p *parser) number() uint64 {
	v, n := binary.Uvarint(p.rest)
	if n <= 0 {
		p.rest, p.ok = nil, false
		return 0
	}
	p.rest = p.rest[n:]
	return v
}

func (p *parser) bytes(n uint64) []byte {
	if n > uint64(len(p.rest)) {
		p.rest, p.ok = nil, false
		return nil
	}
	b := p.rest[:n:n]
	p.rest = p.rest[n:]
	return b
}
