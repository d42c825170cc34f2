package fsm

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"

	"github.com/axd-project/axd/job"
)

// Every attempt ends with one Finished, so it has an encoding of its own, an array
// of its fields in their order, in place of reflection. A worker's result comes
// over the wire in the same form.

const (
	finishedFields = 4
	resultFields   = 11
)

var (
	_ msgpack.CustomEncoder = Finished{}
	_ msgpack.CustomDecoder = (*Finished)(nil)
)

// EncodeMsgpack implements msgpack.CustomEncoder.
func (f Finished) EncodeMsgpack(e *msgpack.Encoder) error {
	if err := e.EncodeArrayLen(finishedFields); err != nil {
		return err
	}
	if err := e.EncodeString(f.Ref.Namespace); err != nil {
		return err
	}
	if err := f.Ref.ID.EncodeMsgpack(e); err != nil {
		return err
	}
	if err := f.Token.EncodeMsgpack(e); err != nil {
		return err
	}
	return encodeResultFields(e, &f.Result)
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (f *Finished) DecodeMsgpack(d *msgpack.Decoder) (err error) {
	if err := arrayOf(d, finishedFields); err != nil {
		return err
	}
	if f.Ref.Namespace, err = d.DecodeString(); err != nil {
		return err
	}
	if err := f.Ref.ID.DecodeMsgpack(d); err != nil {
		return err
	}
	if err := f.Token.DecodeMsgpack(d); err != nil {
		return err
	}
	return decodeResultFields(d, &f.Result)
}

// DecodeAttemptResult reads a result as a worker sends it: rpc.AttemptResult as
// msgpack.
func DecodeAttemptResult(b []byte) (AttemptResult, error) {
	var r reported
	err := decode(b, &r)
	return AttemptResult(r), err
}

// reported is an AttemptResult in the form of the wire. That of rows is another.
type reported AttemptResult

var _ msgpack.CustomDecoder = (*reported)(nil)

// DecodeMsgpack implements msgpack.CustomDecoder.
func (r *reported) DecodeMsgpack(d *msgpack.Decoder) error {
	return decodeResultFields(d, (*AttemptResult)(r))
}

func encodeResultFields(e *msgpack.Encoder, r *AttemptResult) error {
	err := e.EncodeArrayLen(resultFields)
	integer := func(n int64) {
		if err == nil {
			err = e.EncodeInt(n)
		}
	}
	bytes := func(b []byte) {
		if err == nil {
			err = e.EncodeBytes(b)
		}
	}
	integer(int64(r.Outcome))
	switch {
	case err != nil:
	case r.ExitCode == nil:
		err = e.EncodeNil()
	default:
		integer(int64(*r.ExitCode))
	}
	if err == nil {
		err = e.EncodeString(r.Error)
	}
	integer(r.Started)
	integer(r.Ended)
	bytes(r.Stdout)
	bytes(r.Stderr)
	bytes(r.Output)
	integer(r.LateStart)
	if err == nil {
		err = e.EncodeString(r.Class)
	}
	integer(r.RetryMS)
	return err
}

func decodeResultFields(d *msgpack.Decoder, r *AttemptResult) error {
	err := arrayOf(d, resultFields)
	integer := func() (n int64) {
		if err == nil {
			n, err = d.DecodeInt64()
		}
		return n
	}
	bytes := func() (b []byte) {
		if err == nil {
			b, err = d.DecodeBytes()
		}
		return b
	}
	r.Outcome = job.Outcome(integer()) //nolint:gosec // apply judges what it is
	if err == nil {
		r.ExitCode, err = decodeExitCode(d)
	}
	if err == nil {
		r.Error, err = d.DecodeString()
	}
	r.Started, r.Ended = integer(), integer()
	r.Stdout, r.Stderr, r.Output = bytes(), bytes(), bytes()
	r.LateStart = integer()
	if err == nil {
		r.Class, err = d.DecodeString()
	}
	r.RetryMS = integer()
	return err
}

func decodeExitCode(d *msgpack.Decoder) (*int, error) {
	code, err := d.PeekCode()
	if err != nil {
		return nil, err
	}
	if code == msgpcode.Nil {
		return nil, d.DecodeNil()
	}
	n, err := d.DecodeInt()
	return &n, err
}

func arrayOf(d *msgpack.Decoder, want int) error {
	n, err := d.DecodeArrayLen()
	if err == nil && n != want {
		err = fmt.Errorf("an array of %d elements where %d belong", n, want)
	}
	return err
}
