package job

import (
	"maps"
	"slices"

	"github.com/vmihailenco/msgpack/v5"
)

// Values are JSON values by name.
type Values map[string]JSON

// EncodeMsgpack implements msgpack.CustomEncoder: a map sorted by its keys, which
// msgpack does for maps to strings alone, and replicas must write the same.
func (v Values) EncodeMsgpack(enc *msgpack.Encoder) error {
	if err := enc.EncodeMapLen(len(v)); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if err := enc.EncodeString(name); err != nil {
			return err
		}
		if err := enc.EncodeBytes(v[name]); err != nil {
			return err
		}
	}
	return nil
}
