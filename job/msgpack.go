package job

import (
	"maps"
	"math"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// The methods below keep rows and frames small. Without them msgpack would take
// the text form of MarshalText: 28 bytes for an ID and 34 for a Token.

// EncodeMsgpack implements msgpack.CustomEncoder: 16 raw bytes.
func (id ID) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeBytes(id[:]) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (id *ID) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeBytesLen()
	if err != nil {
		return err
	}
	if n != len(id) {
		return Errorf(CodeInvalid, "an id must be 16 bytes")
	}
	return dec.ReadFull(id[:])
}

// EncodeMsgpack implements msgpack.CustomEncoder: a map sorted by its keys, since
// msgpack sorts those of maps to strings alone, and replicas must write the same.
func (q Quotas) EncodeMsgpack(enc *msgpack.Encoder) error {
	if err := enc.EncodeMapLen(len(q)); err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(q)) {
		if err := enc.EncodeString(namespace); err != nil {
			return err
		}
		if err := enc.EncodeInt(int64(q[namespace])); err != nil {
			return err
		}
	}
	return nil
}

const tokenFields = 3

// EncodeMsgpack implements msgpack.CustomEncoder: an array of three numbers.
func (t Token) EncodeMsgpack(enc *msgpack.Encoder) error {
	if err := enc.EncodeArrayLen(tokenFields); err != nil {
		return err
	}
	for _, n := range [tokenFields]uint64{uint64(t.Epoch), t.Index, uint64(t.Offset)} {
		if err := enc.EncodeUint(n); err != nil {
			return err
		}
	}
	return nil
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (t *Token) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeArrayLen()
	if err != nil {
		return err
	}
	if n != tokenFields {
		return Errorf(CodeInvalid, "a token must be three numbers")
	}
	var v [tokenFields]uint64
	for i := range v {
		if v[i], err = dec.DecodeUint64(); err != nil {
			return err
		}
	}
	if v[0] > math.MaxUint32 || v[2] > math.MaxUint32 {
		return Errorf(CodeInvalid, "a token's epoch and offset must be at most 2^32-1")
	}
	*t = Token{Epoch: uint32(v[0]), Index: v[1], Offset: uint32(v[2])} //nolint:gosec // compared above
	return nil
}

// EncodeMsgpack implements msgpack.CustomEncoder: a number.
func (p Priority) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeUint(uint64(p)) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (p *Priority) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeUint64()
	if err != nil {
		return err
	}
	if n > uint64(Low) {
		return Errorf(CodeInvalid, "a priority must be at most 3")
	}
	*p = Priority(n)
	return nil
}

// EncodeMsgpack implements msgpack.CustomEncoder: nanoseconds.
func (d Duration) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeInt(int64(d)) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (d *Duration) DecodeMsgpack(dec *msgpack.Decoder) error {
	n, err := dec.DecodeInt64()
	*d = Duration(n)
	return err
}
