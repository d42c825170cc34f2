package fsm

// The codes of the commands about steps that the leader computes something for.
const (
	CodeStepVerdict Code = 90
)

// StepVerdict tells what was computed for a step that waits for it. The leader
// decides it; see Step.Want for the version that it saw.
type StepVerdict struct {
	Term uint64 `msgpack:"t"`
	Ref  RunRef `msgpack:"r"`
	Step uint32 `msgpack:"s"`
	Want uint64 `msgpack:"w"`

	Skip string `msgpack:"k,omitempty"` // why it is skipped
	Fail string `msgpack:"f,omitempty"` // why it fails

	// Payload of its task, where the step's own holds expressions.
	Payload []byte `msgpack:"p,omitempty"`

	// Params are those of the run that the step is, a JSON object.
	Params []byte `msgpack:"P,omitempty"`

	// Of a step that fans out: how many items there are, and the payloads of the next
	// of them, which come after those that the step has.
	Total uint32   `msgpack:"n,omitempty"`
	Made  uint32   `msgpack:"m,omitempty"`
	Items [][]byte `msgpack:"i,omitempty"`
}

// Code implements Command.
func (StepVerdict) Code() Code { return CodeStepVerdict }

// newStepCommand is newCommand for the codes above.
func newStepCommand(code Code) Command {
	if code == CodeStepVerdict {
		return &StepVerdict{}
	}
	return nil
}

// stepCommand applies the commands above; false: it is another one.
func (a *apply) stepCommand(c Command) (Result, bool) {
	if c, ok := c.(*StepVerdict); ok {
		return a.stepVerdict(c), true
	}
	return Result{}, false
}
