// Package packshape checks that msgpack is well formed before it is decoded, so
// that hostile bytes cost no more memory than they hold. The state machine and
// rpc decode through it.
package packshape

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// The limits of what is accepted, which nothing that axd writes exceeds.
const (
	maxDepth    = 16      // nesting of arrays and maps
	maxElements = 1 << 16 // of one array or map
)

var (
	errTruncated = errors.New("the encoding is cut short")
	errTrailing  = errors.New("bytes follow the encoded value")
	errShape     = fmt.Errorf("arrays and maps must be nested at most %d deep and hold at most %d elements", maxDepth, maxElements)
	errCode      = errors.New("the encoding uses a type that axd never writes")
)

// Check walks an encoded value without decoding it. The msgpack library
// allocates an array of the length that the header claims, so five bytes could
// ask for gigabytes; here every length is compared with what is there.
func Check(b []byte) error {
	n, err := Size(b)
	if err == nil && n < len(b) {
		return errTrailing
	}
	return err
}

// Size is Check for the first value of b, whatever follows it; it returns the
// value's length in bytes.
func Size(b []byte) (int, error) {
	whole := len(b)
	var open [maxDepth + 1]int // values still to come, per level
	depth := 0
	open[0] = 1
	for {
		for open[depth] == 0 {
			if depth == 0 {
				return whole - len(b), nil
			}
			depth--
		}
		open[depth]--
		elements, skip, err := header(b)
		if err != nil {
			return 0, err
		}
		if skip > len(b) || elements > len(b)-skip {
			return 0, errTruncated
		}
		b = b[skip:]
		if elements == 0 {
			continue
		}
		if depth == maxDepth || elements > maxElements {
			return 0, errShape
		}
		depth++
		open[depth] = elements
	}
}

// header reads the first value's head: how many values it holds, and how many
// bytes to skip for its head and, unless it holds values, its body.
func header(b []byte) (elements, skip int, err error) {
	if len(b) == 0 {
		return 0, 0, errTruncated
	}
	c := b[0]
	switch {
	case msgpcode.IsFixedNum(c), c == msgpcode.Nil, c == msgpcode.False, c == msgpcode.True:
		return 0, 1, nil
	case msgpcode.IsFixedString(c):
		return 0, 1 + int(c&msgpcode.FixedStrMask), nil
	case msgpcode.IsFixedMap(c):
		return 2 * int(c&msgpcode.FixedMapMask), 1, nil
	case msgpcode.IsFixedArray(c):
		return int(c & msgpcode.FixedArrayMask), 1, nil
	}
	switch c {
	case msgpcode.Uint8, msgpcode.Int8:
		return 0, 2, nil
	case msgpcode.Uint16, msgpcode.Int16:
		return 0, 3, nil
	case msgpcode.Uint32, msgpcode.Int32, msgpcode.Float:
		return 0, 5, nil
	case msgpcode.Uint64, msgpcode.Int64, msgpcode.Double:
		return 0, 9, nil
	}
	return longHeader(c, b)
}

// longHeader is header for the types whose length follows in bytes of its own.
func longHeader(c byte, b []byte) (elements, skip int, err error) {
	var width int
	switch c {
	case msgpcode.Str8, msgpcode.Bin8:
		width = 1
	case msgpcode.Str16, msgpcode.Bin16, msgpcode.Array16, msgpcode.Map16:
		width = 2
	case msgpcode.Str32, msgpcode.Bin32, msgpcode.Array32, msgpcode.Map32:
		width = 4
	default:
		return 0, 0, errCode
	}
	if len(b) < 1+width {
		return 0, 0, errTruncated
	}
	var wide [4]byte
	copy(wide[4-width:], b[1:1+width])
	n := int(binary.BigEndian.Uint32(wide[:]))
	switch c {
	case msgpcode.Array16, msgpcode.Array32:
		return n, 1 + width, nil
	case msgpcode.Map16, msgpcode.Map32:
		return 2 * n, 1 + width, nil
	}
	return 0, 1 + width + n, nil
}
