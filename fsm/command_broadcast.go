package fsm

// The codes of commands about broadcasts.
const (
	CodeBroadcast         Code = 113
	CodeContinueBroadcast Code = 114
	CodeEndParts          Code = 115
)

// Broadcast makes a pending task that goes to every worker that fits into a task for
// each. The leader decides which those are.
type Broadcast struct {
	Term    uint64   `msgpack:"t"`
	Ref     TaskRef  `msgpack:"r"`
	Version uint64   `msgpack:"v"`
	Workers []string `msgpack:"w,omitempty"` // by name
	Total   int      `msgpack:"n,omitempty"` // how many fit, where they are more than job.MaxBroadcast: then it fails
}

// ContinueBroadcast goes on with a broadcast that has more parts to make or cancel
// than one command may.
type ContinueBroadcast struct {
	Ref TaskRef `msgpack:"r"`
}

// EndParts ends parts of broadcasts that wait for a worker which was forgotten.
type EndParts struct {
	Term  uint64        `msgpack:"t"`
	Parts []TaskVersion `msgpack:"i"`
}

// Code implements Command.
func (Broadcast) Code() Code { return CodeBroadcast }

// Code implements Command.
func (ContinueBroadcast) Code() Code { return CodeContinueBroadcast }

// Code implements Command.
func (EndParts) Code() Code { return CodeEndParts }

// newBroadcastCommand is newCommand for the codes of this file and of once.go.
func newBroadcastCommand(code Code) Command {
	switch code {
	case CodeRecordDone:
		return &RecordDone{}
	case CodeBroadcast:
		return &Broadcast{}
	case CodeContinueBroadcast:
		return &ContinueBroadcast{}
	case CodeEndParts:
		return &EndParts{}
	}
	return nil
}

// broadcastCommand is command for those.
func (a *apply) broadcastCommand(c Command) (Result, bool) {
	switch c := c.(type) {
	case *RecordDone:
		return a.recordDone(c), true
	case *Broadcast:
		return a.broadcast(c), true
	case *ContinueBroadcast:
		return a.continueBroadcast(c), true
	case *EndParts:
		return a.endParts(c), true
	}
	return Result{}, false
}
