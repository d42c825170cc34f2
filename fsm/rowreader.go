package fsm

import (
	"encoding/binary"
	"errors"

	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/axd-project/axd/internal/packshape"
	"github.com/axd-project/axd/job"
)

var errForeign = errors.New("the encoding is not one of this record")

// rowReader reads what rowWriter wrote, or the struct tags describe, from bytes
// that packshape has found to be well formed. It remembers that something did
// not fit, so that the caller checks once.
type rowReader struct {
	c   *codec
	b   []byte
	err error
}

func (r *rowReader) fail() {
	if r.err == nil {
		r.err = errForeign
	}
	r.b = nil
}

// take returns the next n bytes, zeros after a failure.
func (r *rowReader) take(n int) []byte {
	if n > len(r.b) {
		r.fail()
		var none [8]byte
		return none[:min(n, len(none))]
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

func (r *rowReader) head() byte { return r.take(1)[0] }

// wide reads a big-endian number of 1, 2, 4 or 8 bytes.
func (r *rowReader) wide(n int) uint64 {
	b := r.take(n)
	if r.err != nil {
		return 0
	}
	switch n {
	case 1:
		return uint64(b[0])
	case 2:
		return uint64(binary.BigEndian.Uint16(b))
	case 4:
		return uint64(binary.BigEndian.Uint32(b))
	}
	return binary.BigEndian.Uint64(b)
}

func (r *rowReader) mapLen() int {
	switch c := r.head(); {
	case msgpcode.IsFixedMap(c):
		return int(c & msgpcode.FixedMapMask)
	case c == msgpcode.Map16:
		return int(r.wide(2)) //nolint:gosec // two bytes
	case c != msgpcode.Nil:
		r.fail()
	}
	return 0
}

// arrayLen is the number of elements, which packshape has bounded by the bytes.
func (r *rowReader) arrayLen() int {
	switch c := r.head(); {
	case msgpcode.IsFixedArray(c):
		return int(c & msgpcode.FixedArrayMask)
	case c == msgpcode.Array16:
		return int(r.wide(2)) //nolint:gosec // two bytes
	case c == msgpcode.Array32:
		return int(r.wide(4)) //nolint:gosec // four bytes
	case c != msgpcode.Nil:
		r.fail()
	}
	return 0
}

// fields calls fn with the name of each field of a map; fn reads the value.
func (r *rowReader) fields(fn func(name byte)) {
	for n := r.mapLen(); n > 0 && r.err == nil; n-- {
		if r.head() != msgpcode.FixedStrLow|1 {
			r.fail()
			return
		}
		fn(r.head())
	}
}

// raw returns the bytes of a string or byte string, a part of the input.
func (r *rowReader) raw() []byte {
	n := 0
	switch c := r.head(); {
	case msgpcode.IsFixedString(c):
		n = int(c & msgpcode.FixedStrMask)
	case c == msgpcode.Str8, c == msgpcode.Bin8:
		n = int(r.wide(1)) //nolint:gosec // one byte
	case c == msgpcode.Str16, c == msgpcode.Bin16:
		n = int(r.wide(2)) //nolint:gosec // two bytes
	case c == msgpcode.Str32, c == msgpcode.Bin32:
		n = int(r.wide(4)) //nolint:gosec // four bytes
	case c != msgpcode.Nil:
		r.fail()
	}
	if r.err != nil || n > len(r.b) {
		r.fail()
		return nil
	}
	return r.take(n)
}

func (r *rowReader) str() string { return string(r.raw()) }

// name reads a string of which there are few: it is kept once.
func (r *rowReader) name() string { return r.c.intern(r.raw()) }

// bytes copies; nothing stays nil.
func (r *rowReader) bytes() []byte {
	b := r.raw()
	if len(b) == 0 {
		return nil
	}
	return append([]byte(nil), b...)
}

func (r *rowReader) int() int64 {
	switch c := r.head(); c {
	case msgpcode.Uint8:
		return int64(r.wide(1)) //nolint:gosec // one byte
	case msgpcode.Uint16:
		return int64(r.wide(2)) //nolint:gosec // two bytes
	case msgpcode.Uint32:
		return int64(r.wide(4)) //nolint:gosec // four bytes
	case msgpcode.Uint64, msgpcode.Int64:
		return int64(r.wide(8)) //nolint:gosec // two's complement
	case msgpcode.Int8:
		return int64(int8(r.wide(1))) //nolint:gosec // two's complement
	case msgpcode.Int16:
		return int64(int16(r.wide(2))) //nolint:gosec // two's complement
	case msgpcode.Int32:
		return int64(int32(r.wide(4))) //nolint:gosec // two's complement
	case msgpcode.Nil:
		return 0
	default:
		if !msgpcode.IsFixedNum(c) {
			r.fail()
		}
		return int64(int8(c)) //nolint:gosec // two's complement
	}
}

func (r *rowReader) uint() uint64 { return uint64(r.int()) } //nolint:gosec // two's complement

// within is uint for a narrower field; what it can't hold does not fit.
func (r *rowReader) within(limit uint64) uint64 {
	n := r.uint()
	if n > limit {
		r.fail()
		return 0
	}
	return n
}

func (r *rowReader) intPtr() *int {
	n := int(r.int())
	return &n
}

func (r *rowReader) duration() *job.Duration {
	d := job.Duration(r.int())
	return &d
}

func (r *rowReader) bool() bool {
	switch r.head() {
	case msgpcode.True:
		return true
	case msgpcode.False, msgpcode.Nil:
	default:
		r.fail()
	}
	return false
}

func (r *rowReader) id() (id job.ID) {
	if b := r.raw(); len(b) == len(id) {
		copy(id[:], b)
	} else {
		r.fail()
	}
	return id
}

func (r *rowReader) token() (t job.Token) {
	if r.arrayLen() != 3 {
		r.fail()
		return t
	}
	t.Epoch = uint32(r.within(1<<32 - 1)) //nolint:gosec // bounded
	t.Index = r.uint()
	t.Offset = uint32(r.within(1<<32 - 1)) //nolint:gosec // bounded
	return t
}

// tagged reads a value through its tags.
func (r *rowReader) tagged(v any) {
	n, err := packshape.Size(r.b)
	if err == nil {
		err = r.c.decodeTagged(r.take(n), v)
	}
	if err != nil && r.err == nil {
		r.err, r.b = err, nil
	}
}

// maxTexts bounds what intern remembers.
const maxTexts = 1 << 10

// intern returns a string of these bytes, the same one each time as far as there
// is room: names of namespaces, jobs, handlers and workers are few.
func (c *codec) intern(b []byte) string {
	if s, ok := c.texts[string(b)]; ok {
		return s
	}
	if len(c.texts) >= maxTexts {
		clear(c.texts)
	}
	s := string(b)
	c.texts[s] = s
	return s
}
