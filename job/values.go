package job

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// Values are JSON values by name.
type Values map[string]JSON

var _ msgpack.CustomEncoder = Values{}

// JSON writes the values as an object, in the order of their names; nothing where
// there are none.
func (v Values) JSON() JSON {
	if len(v) == 0 {
		return nil
	}
	b := []byte{'{'}
	for i, name := range slices.Sorted(maps.Keys(v)) {
		if i > 0 {
			b = append(b, ',')
		}
		quoted, _ := json.Marshal(name) // a string
		b = append(append(append(b, quoted...), ':'), v[name]...)
	}
	return append(b, '}')
}

// EncodeMsgpack implements msgpack.CustomEncoder: in the order of the names, so that
// equal values are equal bytes.
func (v Values) EncodeMsgpack(e *msgpack.Encoder) error {
	if err := e.EncodeMapLen(len(v)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if err := e.EncodeString(name); err != nil {
			return err
		}
		if err := e.EncodeBytes(v[name]); err != nil {
			return err
		}
	}
	return nil
}
