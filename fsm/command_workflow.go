package fsm

import "github.com/axd-project/axd/job"

// The codes of the commands about workflows and runs.
const (
	CodePutWorkflow    Code = 70
	CodeDeleteWorkflow Code = 71
	CodeStartRun       Code = 72
	CodeCancelRun      Code = 73
	CodeRerunRun       Code = 74
	CodeForceSuccess   Code = 75
	CodeSkipStep       Code = 76
	CodeContinueRun    Code = 77
	CodeTimeOutRun     Code = 78
)

// PutWorkflow creates a workflow or gives it a new version; an equal definition
// changes nothing but, perhaps, the file set.
type PutWorkflow struct {
	Namespace string           `msgpack:"n"`
	Name      string           `msgpack:"N"`
	Spec      job.WorkflowSpec `msgpack:"s"`
	Actor     string           `msgpack:"a,omitempty"`
	FileSet   string           `msgpack:"f,omitempty"` // empty: stays as it is
}

// DeleteWorkflow removes a workflow. Its runs go on with the versions they have.
type DeleteWorkflow struct {
	Namespace string `msgpack:"n"`
	Name      string `msgpack:"N"`
	Actor     string `msgpack:"a,omitempty"`
}

// StartRun starts a run of a workflow's newest version.
type StartRun struct {
	Namespace string       `msgpack:"n"`
	Workflow  string       `msgpack:"w"`
	Params    []byte       `msgpack:"p,omitempty"` // JSON object, kept as it is
	Priority  job.Priority `msgpack:"P,omitempty"` // of its tasks, where their steps and jobs say nothing else
	Trigger   RunTrigger   `msgpack:"t"`
	// Key makes a repeated StartRun of the same content answer with the first run,
	// for job.DefaultIdempotencyWindow. Empty: none.
	Key string `msgpack:"k,omitempty"`
}

// RunRef names a run.
type RunRef struct {
	Namespace string `msgpack:"n"`
	ID        job.ID `msgpack:"i"`
}

// CancelRun cancels what has not ended of a run. Its finally steps still run.
type CancelRun struct {
	Ref    RunRef `msgpack:"r"`
	Reason string `msgpack:"y,omitempty"`
	Actor  string `msgpack:"a,omitempty"`
}

// RerunMode tells which steps a RerunRun runs again.
type RerunMode uint8

// The modes of a rerun.
const (
	RerunFailed RerunMode = 1 // those that failed, and what depends on them
	RerunFrom   RerunMode = 2 // the named one and all that depend on it, however they ended
	RerunOne    RerunMode = 3 // the named one alone
)

// RerunRun runs steps of a run again, that have ended.
type RerunRun struct {
	Ref   RunRef    `msgpack:"r"`
	Mode  RerunMode `msgpack:"m"`
	Step  string    `msgpack:"s,omitempty"` // of RerunFrom and RerunOne
	Actor string    `msgpack:"a,omitempty"`
}

// ForceSuccess makes a step count as success that waits, or has ended otherwise.
type ForceSuccess struct {
	Ref    RunRef `msgpack:"r"`
	Step   string `msgpack:"s"`
	Reason string `msgpack:"y,omitempty"`
	Actor  string `msgpack:"a,omitempty"`
}

// SkipStep makes a step count as skipped that waits, or has failed.
type SkipStep struct {
	Ref    RunRef `msgpack:"r"`
	Step   string `msgpack:"s"`
	Reason string `msgpack:"y,omitempty"`
	Actor  string `msgpack:"a,omitempty"`
}

// ContinueRun goes on with what a run owes. The leader asks for it.
type ContinueRun struct {
	Ref RunRef `msgpack:"r"`
}

// TimeOutRun ends a run whose time-out has passed. The leader decides it.
type TimeOutRun struct {
	Term uint64 `msgpack:"t"`
	Ref  RunRef `msgpack:"r"`
}

// Code is CodePutWorkflow.
func (PutWorkflow) Code() Code { return CodePutWorkflow }

// Code is CodeDeleteWorkflow.
func (DeleteWorkflow) Code() Code { return CodeDeleteWorkflow }

// Code is CodeStartRun.
func (StartRun) Code() Code { return CodeStartRun }

// Code is CodeCancelRun.
func (CancelRun) Code() Code { return CodeCancelRun }

// Code is CodeRerunRun.
func (RerunRun) Code() Code { return CodeRerunRun }

// Code is CodeForceSuccess.
func (ForceSuccess) Code() Code { return CodeForceSuccess }

// Code is CodeSkipStep.
func (SkipStep) Code() Code { return CodeSkipStep }

// Code is CodeContinueRun.
func (ContinueRun) Code() Code { return CodeContinueRun }

// Code is CodeTimeOutRun.
func (TimeOutRun) Code() Code { return CodeTimeOutRun }

// newRunCommand is newCommand for the codes above.
func newRunCommand(code Code) Command {
	switch code {
	case CodePutWorkflow:
		return &PutWorkflow{}
	case CodeDeleteWorkflow:
		return &DeleteWorkflow{}
	case CodeStartRun:
		return &StartRun{}
	case CodeCancelRun:
		return &CancelRun{}
	case CodeRerunRun:
		return &RerunRun{}
	case CodeForceSuccess:
		return &ForceSuccess{}
	case CodeSkipStep:
		return &SkipStep{}
	case CodeContinueRun:
		return &ContinueRun{}
	case CodeTimeOutRun:
		return &TimeOutRun{}
	}
	return newStepCommand(code)
}

// runCommand applies the commands above; false: it is another one.
func (a *apply) runCommand(c Command) (Result, bool) {
	switch c := c.(type) {
	case *PutWorkflow:
		return a.putWorkflow(c), true
	case *DeleteWorkflow:
		return a.deleteWorkflow(c), true
	case *StartRun:
		return a.startRunCommand(c), true
	case *CancelRun:
		return a.cancelRun(c), true
	case *RerunRun:
		return a.rerunRun(c), true
	case *ForceSuccess:
		return a.forceSuccess(c), true
	case *SkipStep:
		return a.skipStep(c), true
	case *ContinueRun:
		return a.continueRun(c), true
	case *TimeOutRun:
		return a.timeOutRun(c), true
	}
	return a.stepCommand(c)
}
