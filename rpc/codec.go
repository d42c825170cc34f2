package rpc

import (
	"fmt"

	"github.com/vmihailenco/msgpack/v5"
	"github.com/vmihailenco/msgpack/v5/msgpcode"
)

// What a worker's session sends for every attempt has an encoding of its own: an
// array of the fields in their order. Reflection would cost more than the rest of
// an attempt's way through rpc.

// The numbers of fields.
const (
	refFields  = 4
	headFields = 3
	itemFields = 16
	fromFields = 4
	pairFields = 2
	endFields  = 3
)

// roomFirst is for how many elements there is room at once; a longer array's
// memory grows as its elements are read.
const roomFirst = 1024

var (
	_ msgpack.CustomEncoder = Ref{}
	_ msgpack.CustomDecoder = (*Ref)(nil)
	_ msgpack.CustomEncoder = Dispatch{}
	_ msgpack.CustomDecoder = (*Dispatch)(nil)
	_ msgpack.CustomEncoder = Finished{}
	_ msgpack.CustomDecoder = (*Finished)(nil)
	_ msgpack.CustomEncoder = Started{}
	_ msgpack.CustomDecoder = (*Started)(nil)
)

// writer encodes until something fails.
type writer struct {
	e   *msgpack.Encoder
	err error
}

func (w *writer) array(n int) {
	if w.err == nil {
		w.err = w.e.EncodeArrayLen(n)
	}
}

func (w *writer) int(n int64) {
	if w.err == nil {
		w.err = w.e.EncodeInt(n)
	}
}

func (w *writer) uint(n uint64) {
	if w.err == nil {
		w.err = w.e.EncodeUint(n)
	}
}

func (w *writer) text(s string) {
	if w.err == nil {
		w.err = w.e.EncodeString(s)
	}
}

func (w *writer) bytes(b []byte) {
	if w.err == nil {
		w.err = w.e.EncodeBytes(b)
	}
}

func (w *writer) bool(b bool) {
	if w.err == nil {
		w.err = w.e.EncodeBool(b)
	}
}

func (w *writer) ref(r *Ref) {
	w.array(refFields)
	w.text(r.Namespace)
	w.bytes(r.ID[:])
	w.uint(uint64(r.Attempt))
	w.bytes(r.Token[:])
}

// reader decodes until something fails.
type reader struct {
	d   *msgpack.Decoder
	err error
}

// array reads the head of an array. Where want is not negative it must have so
// many elements. The lengths of what comes from outside were checked before.
func (r *reader) array(want int) int {
	if r.err != nil {
		return 0
	}
	n, err := r.d.DecodeArrayLen()
	if err == nil && want >= 0 && n != want {
		err = fmt.Errorf("an array of %d elements where %d belong", n, want)
	}
	r.err = err
	if err != nil {
		return 0
	}
	return max(n, 0)
}

func (r *reader) int() (n int64) {
	if r.err == nil {
		n, r.err = r.d.DecodeInt64()
	}
	return n
}

func (r *reader) uint() (n uint64) {
	if r.err == nil {
		n, r.err = r.d.DecodeUint64()
	}
	return n
}

func (r *reader) text() (s string) {
	if r.err == nil {
		s, r.err = r.d.DecodeString()
	}
	return s
}

func (r *reader) bytes() (b []byte) {
	if r.err == nil {
		b, r.err = r.d.DecodeBytes()
	}
	return b
}

func (r *reader) bool() (b bool) {
	if r.err == nil {
		b, r.err = r.d.DecodeBool()
	}
	return b
}

// optional reads a number or nothing.
func (r *reader) optional() *int {
	if r.err != nil {
		return nil
	}
	code, err := r.d.PeekCode()
	if err == nil && code == msgpcode.Nil {
		r.err = r.d.DecodeNil()
		return nil
	}
	r.err = err
	n := int(r.int())
	return &n
}

// fixed fills b, which must be just as long as what was written.
func (r *reader) fixed(b []byte) {
	if r.err != nil {
		return
	}
	n, err := r.d.DecodeBytesLen()
	if err == nil && n != len(b) {
		err = fmt.Errorf("%d bytes where %d belong", n, len(b))
	}
	if err == nil {
		err = r.d.ReadFull(b)
	}
	r.err = err
}

func (r *reader) ref(ref *Ref) {
	r.array(refFields)
	ref.Namespace = r.text()
	r.fixed(ref.ID[:])
	ref.Attempt = uint32(r.uint()) //nolint:gosec // written from one
	r.fixed(ref.Token[:])
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (r Ref) EncodeMsgpack(e *msgpack.Encoder) error {
	w := writer{e: e}
	w.ref(&r)
	return w.err
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (r *Ref) DecodeMsgpack(d *msgpack.Decoder) error {
	in := reader{d: d}
	in.ref(r)
	return in.err
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (m Dispatch) EncodeMsgpack(e *msgpack.Encoder) error {
	w := writer{e: e}
	w.array(headFields)
	w.uint(m.Term)
	w.int(m.NowUS)
	w.array(len(m.Items))
	for i := range m.Items {
		w.item(&m.Items[i])
	}
	return w.err
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (m *Dispatch) DecodeMsgpack(d *msgpack.Decoder) error {
	r := reader{d: d}
	r.array(headFields)
	m.Term = r.uint()
	m.NowUS = r.int()
	n := r.array(-1)
	m.Items = make([]DispatchItem, 0, min(n, roomFirst))
	for range n {
		var i DispatchItem
		if r.item(&i); r.err != nil {
			return r.err
		}
		m.Items = append(m.Items, i)
	}
	return r.err
}

func (w *writer) item(i *DispatchItem) {
	w.array(itemFields)
	w.ref(&i.Ref)
	w.text(i.Job)
	w.uint(i.JobVersion)
	w.bytes(i.Executor)
	w.bytes(i.Payload)
	w.int(i.DueMS)
	w.int(i.TimeoutMS)
	w.int(i.EndByMS)
	w.int(i.HeartbeatMS)
	w.int(i.GraceMS)
	w.array(len(i.SuccessCodes))
	for _, code := range i.SuccessCodes {
		w.int(int64(code))
	}
	w.bool(i.Continue)
	w.int(int64(i.MaxRetries))
	w.bool(i.Lesser)
	w.int(int64(i.MostLesser))
	w.origin(i.Origin)
}

// origin writes an array without elements where there is none.
func (w *writer) origin(o *Origin) {
	if o == nil {
		w.array(0)
		return
	}
	w.array(fromFields)
	w.bytes(o.Run[:])
	w.text(o.Step)
	w.text(o.Schedule)
	w.int(o.NominalMS)
}

func (r *reader) origin() *Origin {
	switch n := r.array(-1); {
	case n == 0 || r.err != nil:
		return nil
	case n != fromFields:
		r.err = fmt.Errorf("an array of %d elements where %d belong", n, fromFields)
		return nil
	}
	o := &Origin{}
	r.fixed(o.Run[:])
	o.Step = r.text()
	o.Schedule = r.text()
	o.NominalMS = r.int()
	return o
}

func (r *reader) item(i *DispatchItem) {
	r.array(itemFields)
	r.ref(&i.Ref)
	i.Job = r.text()
	i.JobVersion = r.uint()
	i.Executor = r.bytes()
	i.Payload = r.bytes()
	i.DueMS = r.int()
	i.TimeoutMS = r.int()
	i.EndByMS = r.int()
	i.HeartbeatMS = r.int()
	i.GraceMS = r.int()
	i.SuccessCodes = nil
	for range r.array(-1) {
		i.SuccessCodes = append(i.SuccessCodes, int(r.int()))
	}
	i.Continue = r.bool()
	i.MaxRetries = int(r.int())
	i.Lesser = r.bool()
	i.MostLesser = int(r.int())
	i.Origin = r.origin()
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (f Finished) EncodeMsgpack(e *msgpack.Encoder) error {
	w := writer{e: e}
	w.array(len(f.Results))
	for i := range f.Results {
		w.array(endFields)
		w.ref(&f.Results[i].Ref)
		w.bytes(f.Results[i].Result)
		w.bool(f.Results[i].Patient)
	}
	return w.err
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (f *Finished) DecodeMsgpack(d *msgpack.Decoder) error {
	r := reader{d: d}
	n := r.array(-1)
	f.Results = make([]FinishedResult, 0, min(n, roomFirst))
	for range n {
		var result FinishedResult
		r.array(endFields)
		r.ref(&result.Ref)
		result.Result = r.bytes()
		result.Patient = r.bool()
		if r.err != nil {
			return r.err
		}
		f.Results = append(f.Results, result)
	}
	return r.err
}

// EncodeMsgpack implements msgpack.CustomEncoder.
func (s Started) EncodeMsgpack(e *msgpack.Encoder) error {
	w := writer{e: e}
	w.array(len(s.Items))
	for i := range s.Items {
		w.array(pairFields)
		w.ref(&s.Items[i].Ref)
		w.int(s.Items[i].AtMS)
	}
	return w.err
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (s *Started) DecodeMsgpack(d *msgpack.Decoder) error {
	r := reader{d: d}
	n := r.array(-1)
	s.Items = make([]StartedItem, 0, min(n, roomFirst))
	for range n {
		var item StartedItem
		r.array(pairFields)
		r.ref(&item.Ref)
		item.AtMS = r.int()
		if r.err != nil {
			return r.err
		}
		s.Items = append(s.Items, item)
	}
	return r.err
}
