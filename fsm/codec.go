package fsm

import (
	"bytes"
	"errors"
	"fmt"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/internal/packshape"
)

// codec is an encoder and a decoder with their buffers. Encoding is a function
// of the value alone: integers are compact and map keys sorted.
type codec struct {
	buf bytes.Buffer
	enc *msgpack.Encoder
	in  bytes.Reader
	dec *msgpack.Decoder

	texts map[string]string // see intern
}

func newCodec() *codec {
	c := &codec{texts: map[string]string{}}
	c.enc = msgpack.NewEncoder(&c.buf)
	c.enc.UseCompactInts(true)
	c.enc.SetSortMapKeys(true)
	c.dec = msgpack.NewDecoder(&c.in)
	c.dec.DisallowUnknownFields(true)
	return c
}

// encode appends the encoding of v to the codec's buffer after prefix. The
// slice is valid until the next call.
func (c *codec) encode(prefix []byte, v any) ([]byte, error) {
	c.buf.Reset()
	c.buf.Write(prefix)
	if err := c.enc.Encode(v); err != nil {
		return nil, err
	}
	return c.buf.Bytes(), nil
}

// decode reads one value into v, which must be zero, and nothing may follow it.
func (c *codec) decode(b []byte, v any) error {
	if err := packshape.Check(b); err != nil {
		return err
	}
	r := rowReader{c: c, b: b}
	switch v := v.(type) {
	case *Task:
		r.task(v)
	case *Attempt:
		r.attempt(v)
	case *Body:
		r.body(v)
	case *Submit:
		r.submit(v)
	case *Assign:
		r.assign(v)
	case *Result:
		r.result(v)
	default:
		return c.decodeTagged(b, v)
	}
	return r.err
}

// decodeTagged decodes through the struct tags, from bytes that were checked.
func (c *codec) decodeTagged(b []byte, v any) error {
	c.in.Reset(b)
	c.dec.ResetReader(&c.in)
	return c.dec.Decode(v)
}

var codecs = sync.Pool{New: func() any { return newCodec() }}

func encode(prefix []byte, v any) ([]byte, error) {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	b, err := c.encode(prefix, v)
	return bytes.Clone(b), err
}

func decode(b []byte, v any) error {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	return c.decode(b, v)
}

// EncodeCommand encodes a command with its code: what Propose takes and an
// Entry holds.
func EncodeCommand(c Command) ([]byte, error) {
	k := codecs.Get().(*codec)
	defer codecs.Put(k)
	head := []byte{byte(c.Code())}
	if b, ok := k.appendVerb(head, c); ok {
		return b, nil
	}
	b, err := k.encode(head, c)
	b = bytes.Clone(b)
	if err != nil {
		return nil, fmt.Errorf("encode command %d: %w", c.Code(), err)
	}
	return b, nil
}

// known reports whether this build applies the command's code.
func known(b []byte) bool { return newCommand(CodeOf(b)) != nil }

// decodeCommand reads what EncodeCommand wrote. An unknown code is an error.
func decodeCommand(c *codec, b []byte) (Command, error) {
	if !known(b) {
		return nil, fmt.Errorf("unknown command %x: it needs a newer axd", b[:min(len(b), 1)])
	}
	target := newCommand(Code(b[0]))
	if err := c.decode(b[1:], target); err != nil {
		return nil, fmt.Errorf("decode command %d: %w", b[0], err)
	}
	return target, nil
}

// newCommand returns a pointer to the zero command of a code, nil for a code
// that this build doesn't know.
func newCommand(code Code) Command {
	switch code {
	case CodeConfigure:
		return &Configure{}
	case CodePutJob:
		return &PutJob{}
	case CodeDeleteJob:
		return &DeleteJob{}
	case CodePauseJob:
		return &PauseJob{}
	case CodeSubmit:
		return &Submit{}
	case CodeTimeOut:
		return &TimeOut{}
	case CodeSubmitNow:
		return &SubmitNow{}
	case CodeAssign:
		return &Assign{}
	case CodeStarted:
		return &Started{}
	case CodeFinished:
		return &Finished{}
	case CodeGiveBack:
		return &GiveBack{}
	case CodeLoseAttempts:
		return &LoseAttempts{}
	case CodeCancel:
		return &Cancel{}
	case CodeReschedule:
		return &Reschedule{}
	case CodeRegisterWorker:
		return &RegisterWorker{}
	case CodeWorkerState:
		return &WorkerState{}
	case CodeForgetWorker:
		return &ForgetWorker{}
	case CodeExpire:
		return &Expire{}
	case CodeChecksum:
		return &Checksum{}
	case CodeDrainWorker:
		return &DrainWorker{}
	case CodePutAlert:
		return &PutAlert{}
	case CodeEndAlert:
		return &EndAlert{}
	case CodeCallbackTried:
		return &CallbackTried{}
	case CodeRedeliver:
		return &Redeliver{}
	case CodePutSecret:
		return &PutSecret{}
	case CodeDeleteSecret:
		return &DeleteSecret{}
	}
	for _, of := range []func(Code) Command{newDeadCommand, newRunCommand, newCalendarCommand, newBroadcastCommand, newByCommand} {
		if c := of(code); c != nil {
			return c
		}
	}
	return newScheduleCommand(code)
}

// EncodeEntry encodes an entry.
func EncodeEntry(e Entry) ([]byte, error) {
	b, err := encode(nil, &e)
	if err != nil {
		return nil, fmt.Errorf("encode entry: %w", err)
	}
	return b, nil
}

// DecodeEntry reads what EncodeEntry wrote. The commands are slices of b, which
// must not change as long as they are used.
func DecodeEntry(b []byte) (Entry, error) {
	e, err := decodeEntry(b)
	if err != nil {
		return Entry{}, fmt.Errorf("decode entry: %w", err)
	}
	return e, nil
}

func decodeEntry(b []byte) (e Entry, err error) {
	if err := packshape.Check(b); err != nil {
		return e, err
	}
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	c.in.Reset(b)
	c.dec.ResetReader(&c.in)
	fields, err := c.dec.DecodeMapLen()
	if err != nil {
		return e, err
	}
	for range fields {
		name, err := c.dec.DecodeString()
		if err != nil {
			return e, err
		}
		switch name {
		case "a":
			e.At, err = c.dec.DecodeInt64()
		case "c":
			e.Commands, err = sliceCommands(c, b)
		case "w":
			e.Attest = &Attestation{}
			err = c.dec.Decode(e.Attest)
		default:
			err = fmt.Errorf("unknown field %q", name)
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// sliceCommands reads an array of byte strings without copying them.
func sliceCommands(c *codec, b []byte) ([][]byte, error) {
	n, err := c.dec.DecodeArrayLen()
	if err != nil || n <= 0 {
		return nil, err
	}
	commands := make([][]byte, n)
	for i := range commands {
		size, err := c.dec.DecodeBytesLen()
		if err != nil {
			return nil, err
		}
		size = max(size, 0) // nil
		at := len(b) - c.in.Len()
		if size > c.in.Len() {
			return nil, errors.New("the encoding is cut short")
		}
		commands[i] = b[at : at+size : at+size]
		c.in.Reset(b[at+size:])
	}
	return commands, nil
}

// EncodeResult and DecodeResult carry a result to the server that forwarded
// the command.
func EncodeResult(r Result) []byte {
	c := codecs.Get().(*codec)
	defer codecs.Put(c)
	return c.appendResult(nil, &r)
}

// DecodeResult reads what EncodeResult wrote.
func DecodeResult(b []byte) (Result, error) {
	var r Result
	if err := decode(b, &r); err != nil {
		return Result{}, fmt.Errorf("decode result: %w", err)
	}
	return r, nil
}
