package rpc

import "github.com/vmihailenco/msgpack/v5"

// AttemptResult is what a worker knows of an attempt that ended: the content of
// FinishedResult.Result. fsm.DecodeAttemptResult reads it into a type of its own,
// which can't be named here, since rpc imports none of axd's packages.
type AttemptResult struct {
	Outcome   uint8  // a job.Outcome
	ExitCode  *int   // exit code (128+n after signal n), or HTTP status
	Error     string // at most MaxErrorBytes
	Started   int64  // Unix ms by the cluster's clock; 0: never started
	Ended     int64  // Unix ms by the cluster's clock
	Stdout    []byte // last bytes
	Stderr    []byte // last bytes
	Output    []byte // what the job returned
	LateStart int64  // ms between due and start as the worker measured it

	Class   string // of the error, for the job's retry filter
	RetryMS int64  // when the next attempt should start, from the end; 0: by the job's rule; below 0: never
}

// The limits of what an attempt leaves behind, in bytes; fsm holds the same.
const (
	MaxErrorBytes  = 1 << 10
	MaxTailBytes   = 4 << 10
	MaxOutputBytes = 16 << 10
)

const resultFields = 11

var (
	_ msgpack.CustomEncoder = AttemptResult{}
	_ msgpack.CustomDecoder = (*AttemptResult)(nil)
)

// EncodeMsgpack implements msgpack.CustomEncoder.
func (a AttemptResult) EncodeMsgpack(e *msgpack.Encoder) error {
	w := writer{e: e}
	w.array(resultFields)
	w.uint(uint64(a.Outcome))
	switch {
	case a.ExitCode != nil:
		w.int(int64(*a.ExitCode))
	case w.err == nil:
		w.err = e.EncodeNil()
	}
	w.text(a.Error)
	w.int(a.Started)
	w.int(a.Ended)
	w.bytes(a.Stdout)
	w.bytes(a.Stderr)
	w.bytes(a.Output)
	w.int(a.LateStart)
	w.text(a.Class)
	w.int(a.RetryMS)
	return w.err
}

// DecodeMsgpack implements msgpack.CustomDecoder.
func (a *AttemptResult) DecodeMsgpack(d *msgpack.Decoder) error {
	r := reader{d: d}
	r.array(resultFields)
	a.Outcome = uint8(r.uint()) //nolint:gosec // written from one
	a.ExitCode = r.optional()
	a.Error = r.text()
	a.Started = r.int()
	a.Ended = r.int()
	a.Stdout = r.bytes()
	a.Stderr = r.bytes()
	a.Output = r.bytes()
	a.LateStart = r.int()
	a.Class = r.text()
	a.RetryMS = r.int()
	return r.err
}
