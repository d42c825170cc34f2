package rpc

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/internal/packshape"
)

// The limits of frames, in bytes.
const (
	MaxFrame = 4 << 20   // a frame without its length
	MaxChunk = 256 << 10 // a stream's chunk, so that StreamWindow chunks stay small

	maxHello    = 4 << 10
	maxMethod   = 64
	maxKeepBuf  = 64 << 10 // larger encode buffers aren't pooled
	firstAlloc  = 64 << 10 // a longer frame's memory grows as its bytes arrive
	frameLength = 4
)

// The kinds of frames; values are part of the protocol.
const (
	kindHello  = 1  // body: Hello
	kindRefuse = 2  // body: Error; the connection closes
	kindCall   = 3  // request for one reply
	kindNotify = 4  // request without an answer
	kindStream = 5  // request for chunks
	kindReply  = 6  // answers a call
	kindError  = 7  // answers a call or ends a stream; body: Error
	kindChunk  = 8  // one chunk of a stream
	kindEnd    = 9  // ends a stream
	kindCancel = 10 // the caller no longer waits
	kindCredit = 11 // the caller took chunks; body: how many
	kindPing   = 12 // the sender lives
)

// frame is a decoded frame. The body aliases the bytes it was read from.
type frame struct {
	kind   uint8
	id     uint64
	method string
	body   []byte
}

var errFrame = errors.New("malformed frame")

var bufPool = sync.Pool{New: func() any { return new(bytes.Buffer) }}

func putBuf(b *bytes.Buffer) {
	if b.Cap() <= maxKeepBuf {
		bufPool.Put(b)
	}
}

// encodeFrame returns the frame with its length in front; none is the absence
// of a body. The caller gives the buffer back with putBuf once it is written.
func encodeFrame(kind uint8, id uint64, method string, msg any) (*bytes.Buffer, error) {
	if len(method) > maxMethod {
		return nil, fmt.Errorf("a method name is at most %d bytes, not %d", maxMethod, len(method))
	}
	b := bufPool.Get().(*bytes.Buffer)
	b.Reset()
	b.Write(make([]byte, frameLength))
	enc := msgpack.GetEncoder()
	defer msgpack.PutEncoder(enc)
	enc.Reset(b)
	enc.UseCompactInts(true)
	err := errors.Join(enc.EncodeArrayLen(3), enc.EncodeUint(uint64(kind)), enc.EncodeUint(id), enc.EncodeString(method))
	if err == nil && msg != nil {
		err = enc.Encode(msg)
	}
	if err != nil {
		putBuf(b)
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	n := b.Len() - frameLength
	if limit := frameLimit(kind); n > limit {
		return nil, &Error{Code: codeTooLarge, Text: fmt.Sprintf("a message of %d bytes is over the limit of %d", n, limit), Field: method}
	}
	binary.BigEndian.PutUint32(b.Bytes(), uint32(n)) //nolint:gosec // below the limit
	return b, nil
}

func frameLimit(kind uint8) int {
	switch kind {
	case kindHello, kindRefuse:
		return maxHello
	case kindChunk:
		return MaxChunk
	}
	return MaxFrame
}

// readFrame reads one frame of at most limit bytes.
func readFrame(r *bufio.Reader, limit int) (frame, error) {
	var head [frameLength]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if int64(n) > int64(limit) {
		return frame{}, fmt.Errorf("%w: %d bytes are over the limit of %d", errFrame, n, limit)
	}
	raw := make([]byte, min(int(n), firstAlloc))
	if _, err := io.ReadFull(r, raw); err != nil {
		return frame{}, unexpected(err)
	}
	if rest := int64(n) - int64(len(raw)); rest > 0 {
		b := bytes.NewBuffer(raw)
		if _, err := io.CopyN(b, r, rest); err != nil {
			return frame{}, unexpected(err)
		}
		raw = b.Bytes()
	}
	return decodeFrame(raw)
}

// unexpected turns the end of a connection within a frame into an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// decodeFrame splits a frame without its length.
func decodeFrame(raw []byte) (frame, error) {
	r := bytes.NewReader(raw)
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(r)
	if n, err := dec.DecodeArrayLen(); err != nil || n != 3 {
		return frame{}, fmt.Errorf("%w: no header", errFrame)
	}
	kind, err := dec.DecodeUint8()
	if err != nil || kind < kindHello || kind > kindPing {
		return frame{}, fmt.Errorf("%w: kind %d", errFrame, kind)
	}
	id, err := dec.DecodeUint64()
	if err != nil {
		return frame{}, fmt.Errorf("%w: no call id", errFrame)
	}
	// The length is looked at before the string is made of it.
	n, err := dec.DecodeBytesLen()
	if err != nil || n < 0 || n > maxMethod || n > r.Len() {
		return frame{}, fmt.Errorf("%w: method", errFrame)
	}
	at := len(raw) - r.Len()
	f := frame{kind: kind, id: id, method: string(raw[at : at+n]), body: raw[at+n:]}
	if len(raw) > frameLimit(kind) {
		return frame{}, fmt.Errorf("%w: %d bytes are too many for kind %d", errFrame, len(raw), kind)
	}
	return f, nil
}

// decodeBody reads a message. A nil target skips it.
func decodeBody(body []byte, into any) error {
	if into == nil {
		return nil
	}
	if err := packshape.Check(body); err != nil {
		return err
	}
	dec := msgpack.GetDecoder()
	defer msgpack.PutDecoder(dec)
	dec.Reset(bytes.NewReader(body))
	return dec.Decode(into)
}
