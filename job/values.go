package job

import (
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// Values are JSON values by name.
type Values map[string]JSON

var _ msgpack.CustomEncoder = Values{}

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
