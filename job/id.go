package job

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"

	"github.com/oklog/ulid/v2"
)

// ID names a task (later a run): a ULID of the command's millisecond, the log
// index that created it and the offset inside that entry. Being a function of
// the log it is the same on every server, and it sorts by creation.
type ID [16]byte

// NewID builds an ID. ms is Unix milliseconds (48 bits are kept), index the log
// index (48 bits are kept), offset the running number of the object within the
// log entry.
func NewID(ms int64, index uint64, offset uint32) ID {
	var id ID
	putUint48(id[0:6], uint64(ms)) //nolint:gosec // 48 bits by design
	putUint48(id[6:12], index)
	binary.BigEndian.PutUint32(id[12:16], offset)
	return id
}

func putUint48(b []byte, v uint64) {
	var w [8]byte
	binary.BigEndian.PutUint64(w[:], v)
	copy(b, w[2:])
}

// ParseID reads the 26-character Crockford base32 form, in either case. What
// does not fit 128 bits (a first character above 7) is refused.
func ParseID(s string) (ID, error) {
	u, err := ulid.ParseStrict(s)
	if err != nil {
		return ID{}, Invalid("id", "must be a ULID of 26 characters", s)
	}
	return ID(u), nil
}

// String returns the 26-character form.
func (id ID) String() string { return ulid.ULID(id).String() }

// IsZero reports whether id is unset.
func (id ID) IsZero() bool { return id == ID{} }

// Time returns the creation time in Unix milliseconds.
func (id ID) Time() int64 { return int64(ulid.ULID(id).Time()) } //nolint:gosec // 48 bits

// MarshalText implements encoding.TextMarshaler.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// Token fences one attempt. Of one task's attempts only the one whose token
// equals the task's current token is valid. Tokens of one task strictly
// increase; tokens of different tasks must not be compared.
type Token struct {
	Epoch  uint32 // restore epoch: raised by every operator's restore
	Index  uint64 // log index of the assign
	Offset uint32 // offset within the log entry
}

// IsZero reports whether the token is unset.
func (t Token) IsZero() bool { return t == Token{} }

// Compare orders two tokens of one task: -1, 0 or +1.
func (t Token) Compare(o Token) int {
	return cmp.Or(cmp.Compare(t.Epoch, o.Epoch), cmp.Compare(t.Index, o.Index), cmp.Compare(t.Offset, o.Offset))
}

// String returns 32 hexadecimal digits whose lexical order is the tokens' order,
// so that a guarded resource can compare them as text.
func (t Token) String() string { return fmt.Sprintf("%08x%016x%08x", t.Epoch, t.Index, t.Offset) }

// Bytes returns the 16 bytes that String writes as digits.
func (t Token) Bytes() (b [16]byte) {
	binary.BigEndian.PutUint32(b[0:4], t.Epoch)
	binary.BigEndian.PutUint64(b[4:12], t.Index)
	binary.BigEndian.PutUint32(b[12:16], t.Offset)
	return b
}

// TokenOf is the token of what Bytes returns.
func TokenOf(b [16]byte) Token {
	return Token{
		Epoch:  binary.BigEndian.Uint32(b[0:4]),
		Index:  binary.BigEndian.Uint64(b[4:12]),
		Offset: binary.BigEndian.Uint32(b[12:16]),
	}
}

// MarshalText implements encoding.TextMarshaler.
func (t Token) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Token) UnmarshalText(b []byte) (err error) {
	*t, err = ParseToken(string(b))
	return err
}

// ParseToken reads the form that String writes.
func ParseToken(s string) (Token, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != 16 {
		return Token{}, Invalid("token", "must be 32 hexadecimal digits", s)
	}
	return TokenOf([16]byte(b)), nil
}
