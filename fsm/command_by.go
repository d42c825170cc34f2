package fsm

// The codes of the commands about who acts, events, backfills and upstreams.
const (
	CodeBy        Code = 60
	CodeSendEvent Code = 61

	CodePutBackfill    Code = 64
	CodeCancelBackfill Code = 65

	CodeEndJoins   Code = 66
	CodeJudgeJoins Code = 67
)

// newByCommand is newCommand for the codes of this file.
func newByCommand(code Code) Command {
	switch code {
	case CodeBy:
		return &By{}
	case CodeSendEvent:
		return &SendEvent{}
	case CodePutBackfill:
		return &PutBackfill{}
	case CodeCancelBackfill:
		return &CancelBackfill{}
	case CodeEndJoins:
		return &EndJoins{}
	case CodeJudgeJoins:
		return &JudgeJoins{}
	}
	return nil
}

// byCommand is command for those of this file.
func (a *apply) byCommand(c Command) (Result, bool) {
	switch c := c.(type) {
	case *By:
		return a.by(c), true
	case *SendEvent:
		return a.sendEvent(c), true
	case *PutBackfill:
		return a.putBackfill(c), true
	case *CancelBackfill:
		return a.cancelBackfill(c), true
	case *EndJoins:
		return a.endJoins(c), true
	case *JudgeJoins:
		return a.judgeJoins(c), true
	}
	return Result{}, false
}
