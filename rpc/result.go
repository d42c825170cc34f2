package rpc

// AttemptResult is what a worker knows of an attempt that ended: the content of
// Finished.Result. Its encoding equals fsm.AttemptResult's, which can't be named
// here, since rpc imports none of axd's packages.
type AttemptResult struct {
	Outcome   uint8  `msgpack:"o"`           // a job.Outcome
	ExitCode  *int   `msgpack:"c,omitempty"` // exit code (128+n after signal n), or HTTP status
	Error     string `msgpack:"e,omitempty"`
	Started   int64  `msgpack:"s,omitempty"` // Unix ms by the cluster's clock; 0: never started
	Ended     int64  `msgpack:"d,omitempty"` // Unix ms by the cluster's clock
	Stdout    []byte `msgpack:"O,omitempty"` // last bytes
	Stderr    []byte `msgpack:"E,omitempty"` // last bytes
	Output    []byte `msgpack:"u,omitempty"` // what the job returned
	LateStart int64  `msgpack:"l,omitempty"` // ms between due and start as the worker measured it
}

// The limits of what an attempt leaves behind, in bytes; fsm holds the same.
const (
	MaxErrorBytes  = 1 << 10
	MaxTailBytes   = 4 << 10
	MaxOutputBytes = 16 << 10
)
