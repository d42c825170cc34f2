package job

import (
	"time"

	"github.com/vmihailenco/msgpack/v5"
)

// Timestamp is a time in Unix milliseconds that JSON and YAML write as RFC 3339;
// 0 is unset.
type Timestamp int64

// Std returns the time as the standard library's type, in UTC.
func (t Timestamp) Std() time.Time { return time.UnixMilli(int64(t)).UTC() }

// String writes the form that ParseTime reads; an unset time is empty.
func (t Timestamp) String() string {
	if t == 0 {
		return ""
	}
	return t.Std().Format(time.RFC3339Nano)
}

// MarshalText implements encoding.TextMarshaler.
func (t Timestamp) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Timestamp) UnmarshalText(b []byte) error {
	ms, err := ParseTime(string(b))
	*t = Timestamp(ms)
	return err
}

// EncodeMsgpack implements msgpack.CustomEncoder: a number.
func (t Timestamp) EncodeMsgpack(enc *msgpack.Encoder) error { return enc.EncodeInt(int64(t)) }

// DecodeMsgpack implements msgpack.CustomDecoder.
func (t *Timestamp) DecodeMsgpack(dec *msgpack.Decoder) error {
	ms, err := dec.DecodeInt64()
	*t = Timestamp(ms)
	return err
}
