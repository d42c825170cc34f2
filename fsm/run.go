package fsm

import (
	"cmp"
	"slices"

	"github.com/axd-project/axd/job"
)

// Run is one execution of a workflow, by the version that it started with. Times
// are Unix milliseconds by the cluster's clock; 0 means: not yet.
type Run struct {
	Namespace       string       `msgpack:"n"`
	ID              job.ID       `msgpack:"i"`
	Version         uint64       `msgpack:"v"` // +1 with each entry that changes it
	State           job.RunState `msgpack:"s"`
	Workflow        string       `msgpack:"w"`
	WorkflowVersion uint64       `msgpack:"V"`
	Trigger         RunTrigger   `msgpack:"t"`
	Priority        job.Priority `msgpack:"p,omitempty"`
	HasParams       bool         `msgpack:"P,omitempty"` // see RunParams
	Key             string       `msgpack:"k,omitempty"`
	KeyExpiry       int64        `msgpack:"K,omitempty"`

	Created int64 `msgpack:"c"`
	Ended   int64 `msgpack:"e,omitempty"`
	EndBy   int64 `msgpack:"T,omitempty"` // until when it must have ended, while it runs

	Steps  int       `msgpack:"N"` // of the workflow
	Counts RunCounts `msgpack:"C"` // its tasks, by state
	// Open are the steps by section that have not ended; Failed those that make the
	// run fail.
	Open   [sections]uint32 `msgpack:"o"`
	Failed uint32           `msgpack:"f,omitempty"`
	Dead   uint32           `msgpack:"d,omitempty"` // dead letters among its tasks
	Ready  uint32           `msgpack:"R,omitempty"` // rows of tableStepReady

	// Phase is the section whose time has come; OnFailure tells that the steps of
	// on_failure are to run.
	Phase     uint8 `msgpack:"h,omitempty"`
	OnFailure bool  `msgpack:"O,omitempty"`
	// Stop is how the run is to end before its time: cancelled or timed out. The
	// sections before StopTo begin nothing any more.
	Stop   job.RunState `msgpack:"x,omitempty"`
	StopTo uint8        `msgpack:"X,omitempty"`
	Error  string       `msgpack:"E,omitempty"` // who or what stopped it
	// Touched: somebody has changed by hand what became of a step.
	Touched bool   `msgpack:"m,omitempty"`
	Act     RunAct `msgpack:"a,omitempty"`
	Owes    bool   `msgpack:"W,omitempty"` // it has rows of tableStepOwed
	Wants   uint64 `msgpack:"J,omitempty"` // numbers the waits of its steps for a verdict
	Items   uint32 `msgpack:"I,omitempty"` // tasks of items of its steps
	Depth   uint32 `msgpack:"D,omitempty"` // how many runs it is within
}

// RunTrigger tells what started a run.
type RunTrigger struct {
	Kind     string `msgpack:"k,omitempty"` // manual (also when empty), schedule, event, run
	Actor    string `msgpack:"a,omitempty"`
	Schedule string `msgpack:"s,omitempty"`
	Nominal  int64  `msgpack:"n,omitempty"` // of the schedule's fire, Unix ms
	Event    string `msgpack:"e,omitempty"`
	Run      job.ID `msgpack:"r"` // whose step this run is
	Step     string `msgpack:"S,omitempty"`
	Item     uint32 `msgpack:"I,omitempty"` // of a step that fans out
}

// RunCounts are numbers of tasks by stored state. Pending stands for dispatched and
// running too, so that their changes cost a run nothing.
type RunCounts [job.UpstreamFailed + 1]uint32

// countedState is the place of a state in RunCounts.
func countedState(s job.State) job.State {
	if s.Active() {
		return job.Pending
	}
	return s
}

// RunAct is a change to many steps that goes on, step by step, until it has come to
// the last.
type RunAct struct {
	Kind ActKind   `msgpack:"k,omitempty"`
	At   uint32    `msgpack:"a,omitempty"` // the next step
	Mode RerunMode `msgpack:"m,omitempty"`
	From uint32    `msgpack:"f,omitempty"` // of a rerun: the step
	Item uint32    `msgpack:"i,omitempty"` // of a stop: items of the step that were cancelled
}

// ActKind tells what a RunAct does.
type ActKind uint8

// The acts. Values are part of the row format: append, never reorder.
const (
	ActCreate ActKind = 1 // the steps' tasks
	ActOpen   ActKind = 2 // the section whose time has come
	ActRerun  ActKind = 3
	ActStop   ActKind = 4
	ActDelete ActKind = 5 // the run with all its tasks, after its retention
)

// Step is what a run knows of one of its steps beside its task.
type Step struct {
	Task  job.ID    `msgpack:"t"`
	Phase StepPhase `msgpack:"p,omitempty"`
	// Met are the steps that it needs by the outcome that it has counted of them.
	Met [UpstreamOutcome + 1]uint32 `msgpack:"c"`
	Now StepOutcome                 `msgpack:"n,omitempty"` // by the state of its task
	// Counted is the outcome that those have counted that need it. While Moving, the
	// first At of them have counted To instead.
	Counted StepOutcome `msgpack:"o,omitempty"`
	Moving  bool        `msgpack:"m,omitempty"`
	To      StepOutcome `msgpack:"g,omitempty"`
	At      uint32      `msgpack:"a,omitempty"`
	// Fixed: its state is not to follow from its needs, since somebody has set it.
	Fixed bool `msgpack:"x,omitempty"`
	// Alone: what needs it and has ended is to stay as it is.
	Alone bool `msgpack:"l,omitempty"`

	Want   uint64 `msgpack:"w,omitempty"` // of the latest wait for a verdict; see Run.Wants
	Judged bool   `msgpack:"j,omitempty"` // a verdict was given, and what it needs is as it was then
	Fan    *Fan   `msgpack:"F,omitempty"` // of a step that fans out, since it did for the first time
	Child  job.ID `msgpack:"C"`           // the run that it is; zero: none, or it has not begun
}

// StepPhase tells how far a step has come that has not ended.
type StepPhase uint8

// The phases of a step. Values are part of the row format: append, never reorder.
const (
	StepWaits  StepPhase = 0 // for what it needs, or for the time of its section
	StepReady  StepPhase = 1 // for the run's max_parallel
	StepWanted StepPhase = 2 // for a verdict of the leader
	StepBegun  StepPhase = 3 // its task was pending at least once
)

// StepOutcome is what a step's end counts as for those that need it.
type StepOutcome uint8

// The outcomes. Values are part of the row format: append, never reorder.
const (
	NoOutcome       StepOutcome = 0 // it has not ended
	SuccessOutcome  StepOutcome = 1
	FailedOutcome   StepOutcome = 2 // failed, timeout, cancelled
	SkippedOutcome  StepOutcome = 3
	UpstreamOutcome StepOutcome = 4
)

func outcomeOf(s job.State) StepOutcome {
	switch s {
	case job.Success:
		return SuccessOutcome
	case job.Failed, job.TimedOut, job.Cancelled:
		return FailedOutcome
	case job.Skipped:
		return SkippedOutcome
	case job.UpstreamFailed:
		return UpstreamOutcome
	}
	return NoOutcome
}

func (o StepOutcome) failed() bool { return o == FailedOutcome || o == UpstreamOutcome }

// Ref names the run.
func (r *Run) Ref() RunRef { return RunRef{r.Namespace, r.ID} }

// retainFrom is when the retention of an ended run begins; it outlives its key, and
// that of a run with dead letters is theirs.
func (r *Run) retainFrom() int64 {
	if r.Dead > 0 {
		return max(r.Ended, r.KeyExpiry-DeadRetention)
	}
	return max(r.Ended, r.KeyExpiry)
}

// heldRun is a run in memory, with those of its steps that were looked at. What
// changes is written when the entry ends, once.
type heldRun struct {
	Run
	graph   *graph
	stored  Run // as the state has it; zero: it is new
	changed bool
	gone    bool // deleted by this entry
	steps   map[uint32]*heldStep
	dirty   []*heldStep // changed by the entry

	work    workHeap
	owed    map[uint32]bool // rows of tableStepOwed
	queued  bool            // in apply.busy
	ready   uint32          // no row of tableStepReady is before it
	reached []bool          // of a rerun: the steps it is about
}

type heldStep struct {
	Step
	number  uint32
	changed bool
	visit   bool // in work
}

// The limits of what is remembered of runs.
const (
	maxHeldRuns  = 1 << 10
	maxHeldSteps = 1 << 15
)

// heldRun reads a run through the cache.
func (a *apply) heldRun(ref RunRef) (*heldRun, bool) {
	if h, ok := a.runs[ref]; ok {
		return h, !h.gone
	}
	a.key = a.key.run(ref)
	run, ok := stored[Run](a, a.key)
	if !ok {
		return nil, false
	}
	h := &heldRun{Run: *run, stored: *run, steps: map[uint32]*heldStep{}, owed: map[uint32]bool{}}
	h.graph = a.graph(run.Namespace, run.Workflow, run.WorkflowVersion)
	a.runs[ref] = h
	if run.Owes {
		a.loadOwed(h)
	}
	return h, true
}

// step reads a step for a change or a look.
func (a *apply) step(h *heldRun, n uint32) *heldStep {
	if s, ok := h.steps[n]; ok {
		return s
	}
	a.key = a.key.step(h.Ref(), n)
	row, ok := stored[Step](a, a.key)
	if !ok {
		damaged(a.key)
	}
	s := &heldStep{Step: *row, number: n}
	h.steps[n] = s
	a.heldSteps++
	return s
}

// change notes that a step has to be written; it counts as a row.
func (a *apply) change(h *heldRun, s *heldStep) {
	a.changeRun(h)
	if !s.changed {
		s.changed = true
		h.dirty = append(h.dirty, s)
		a.rows++
	}
}

func (a *apply) changeRun(h *heldRun) {
	if !h.changed {
		h.changed = true
		a.changedRuns = append(a.changedRuns, h)
	}
}

// flushRuns writes the runs and steps that the entry has changed.
func (a *apply) flushRuns() {
	if len(a.changedRuns) == 0 {
		return
	}
	for _, h := range a.changedRuns {
		h.changed = false
		if h.gone {
			delete(a.runs, h.Ref())
			continue
		}
		a.flushSteps(h)
		a.flushOwed(h)
		a.writeRun(h)
	}
	a.changedRuns = a.changedRuns[:0]
	if a.heldSteps > maxHeldSteps || len(a.runs) > maxHeldRuns {
		a.runs, a.heldSteps = map[RunRef]*heldRun{}, 0
	}
}

func (a *apply) flushSteps(h *heldRun) {
	slices.SortFunc(h.dirty, func(x, y *heldStep) int { return cmp.Compare(x.number, y.number) })
	for _, s := range h.dirty {
		s.changed = false
		a.key = a.key.step(h.Ref(), s.number)
		a.set(a.key, mustEncode(a.codec, &s.Step))
	}
	h.dirty = h.dirty[:0]
}

// writeRun stores a run and moves its rows in the indexes.
func (a *apply) writeRun(h *heldRun) {
	old, run, ref := &h.stored, &h.Run, h.Ref()
	run.Version++
	isNew := old.State == 0
	if old.State != run.State {
		if !isNew {
			a.key = a.key.runByState(old.Namespace, old.State).id(old.ID)
			a.delete(a.key)
			a.countRun(old, -1)
		}
		a.key = a.key.runByState(run.Namespace, run.State).id(run.ID)
		a.set(a.key, nil)
		a.countRun(run, +1)
	}
	if isNew {
		a.key = a.key.runByWorkflow(run.Namespace, run.Workflow).id(run.ID)
		a.set(a.key, nil)
	}
	a.moveRunRow(rowIf(old.State.Terminal(), key{}.runEnded(old)), rowIf(run.State.Terminal(), key{}.runEnded(run)))
	a.moveRunRow(rowIf(old.owes(), key{}.runOwed(ref)), rowIf(run.owes(), key{}.runOwed(ref)))
	a.moveRunRow(rowIf(old.EndBy != 0, key{}.runDeadline(old.EndBy, ref)), rowIf(run.EndBy != 0, key{}.runDeadline(run.EndBy, ref)))
	a.key = a.key.run(ref)
	a.set(a.key, mustEncode(a.codec, run))
	h.stored = *run
}

func rowIf(ok bool, k key) key {
	if ok {
		return k
	}
	return nil
}

// moveRunRow puts one row in the place of another; nil: none.
func (a *apply) moveRunRow(was, is key) {
	if string(was) == string(is) {
		return
	}
	if was != nil {
		a.delete(was)
	}
	if is != nil {
		a.set(is, nil)
	}
}

// owes reports whether the leader has to continue the run.
func (r *Run) owes() bool {
	return r.Owes || r.Act.Kind != 0 && r.Act.Kind != ActDelete
}

func (a *apply) countRun(run *Run, n int64) {
	a.key = a.key.counter(countRuns).u8(byte(run.State))
	a.addCounter(a.key, n)
	a.key = a.key.counter(countRunNamespace).name(run.Namespace).u8(byte(run.State))
	a.addCounter(a.key, n)
	a.key = a.key.counter(countRunWorkflow).name(run.Namespace).name(run.Workflow).u8(byte(run.State))
	a.addCounter(a.key, n)
}
