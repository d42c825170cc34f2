package fsm

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

func (a *apply) startRunCommand(c *StartRun) Result {
	if err := checkNames(c.Namespace, "workflow", c.Workflow); err != nil {
		return rejected(err)
	}
	if c.Key == "" {
		h, err := a.startRun(c.Namespace, c.Workflow, c.Params, c.Trigger, c.Priority)
		if err != nil {
			return rejected(err)
		}
		return a.startedRun(h)
	}
	if err := job.ValidateKey("idempotency_key", c.Key); err != nil {
		return rejected(err)
	}
	hash := c.hash()
	a.key = a.key.runKey(c.Namespace, c.Key)
	if b, ok := a.tx.Get(a.key); ok {
		row, ok := decodeKeyRow(b)
		if !ok {
			damaged(a.key)
		}
		if row.Expiry > a.now {
			return a.startedBefore(c, row, hash)
		}
	}
	h, err := a.startRun(c.Namespace, c.Workflow, c.Params, c.Trigger, c.Priority)
	if err != nil {
		return rejected(err)
	}
	h.Key, h.KeyExpiry = c.Key, a.now+job.DefaultIdempotencyWindow.Milliseconds()
	a.key = a.key.runKey(c.Namespace, c.Key)
	a.set(a.key, appendKeyRow(nil, keyRow{ID: h.ID, Hash: hash, Expiry: h.KeyExpiry}))
	return a.startedRun(h)
}

func (a *apply) startedRun(h *heldRun) Result {
	a.advance()
	return Result{Run: new(h.Run), Changed: true}
}

// startedBefore answers a StartRun whose key is claimed.
func (a *apply) startedBefore(c *StartRun, row keyRow, hash [16]byte) Result {
	h, ok := a.heldRun(RunRef{c.Namespace, row.ID})
	if !ok {
		panic("fsm: the state is damaged: run " + row.ID.String() + " of a live idempotency key is gone")
	}
	if row.Hash != hash {
		return rejected(&job.Error{
			Code: job.CodeIdempotencyMismatch, Field: "idempotency_key", Value: job.Shorten(c.Key),
			Rule: "belongs to run " + row.ID.String() + ", which was started with another content",
		})
	}
	return Result{Run: new(h.Run)}
}

// hash tells two requests under one key apart.
func (c *StartRun) hash() (sum [16]byte) {
	var d xxhash.Digest
	for half := range uint64(2) {
		d.ResetWithSeed(half)
		for _, s := range [][]byte{[]byte(c.Workflow), c.Params, {byte(c.Priority)}} {
			var n [8]byte
			binary.BigEndian.PutUint64(n[:], uint64(len(s)))
			_, _ = d.Write(n[:])
			_, _ = d.Write(s)
		}
		binary.BigEndian.PutUint64(sum[half*8:], d.Sum64())
	}
	return sum
}

// startRun starts a run of a workflow's newest version, for whatever verb. Its tasks
// are made when the command ends, as far as its rows go, and then by ContinueRun.
// What it refuses it has not begun. A priority of 0 leaves that of the tasks to
// their steps and jobs.
func (a *apply) startRun(namespace, workflow string, params []byte, trigger RunTrigger, priority job.Priority) (*heldRun, *job.Error) {
	w, ok := a.workflow(namespace, workflow)
	if !ok || w.Deleted {
		return nil, job.NotFound("workflow", workflow)
	}
	g := a.graph(namespace, workflow, w.Version)
	for _, name := range g.jobs {
		if _, ok := a.job(namespace, name); !ok {
			return nil, job.Conflict("workflow", "names the job "+name+", which does not exist any more", workflow)
		}
	}
	if priority > job.Low {
		return nil, job.Invalid("priority", "must be high, normal or low", strconv.Itoa(int(priority)))
	}
	params, invalid := resolvedParams(&g.spec, params)
	if invalid != nil {
		return nil, invalid
	}
	if trigger.Kind != childKind { // what goes on has been let in
		if err := a.withinQuota(namespace); err != nil {
			return nil, err
		}
	}
	h := &heldRun{graph: g, steps: map[uint32]*heldStep{}, owed: map[uint32]bool{}}
	h.Run = Run{
		Namespace: namespace, ID: job.NewID(a.now, a.at.Index, a.next()), State: job.RunRunning,
		Workflow: workflow, WorkflowVersion: w.Version, Trigger: trigger, Priority: priority, HasParams: len(params) > 0,
		Created: a.now, Steps: len(g.steps), Open: g.sizes(), Act: RunAct{Kind: ActCreate},
	}
	if d := g.spec.Timeout; d != nil && *d > 0 {
		h.EndBy = d.Until(a.now)
	}
	a.runs[h.Ref()] = h
	if h.HasParams {
		a.key = a.key.runParams(h.Ref())
		a.set(a.key, params)
	}
	a.key = a.key.counter(countRunVersion).name(namespace).name(workflow).u64(w.Version)
	a.addCounter(a.key, +1)
	a.touch(h)
	return h, nil
}

// resolvedParams are all parameters of a run, those that were given and the defaults
// of the others; nil: there are none.
func resolvedParams(spec *job.WorkflowSpec, given []byte) ([]byte, *job.Error) {
	params, err := spec.ResolveParams(given)
	if err != nil || len(params) == 0 {
		return nil, err
	}
	b, e := json.Marshal(params) // in the order of their names
	if e != nil {
		return nil, job.Invalid("params", "must be JSON", e.Error())
	}
	return b, nil
}

// runFor reads a run that is to be changed.
func (a *apply) runFor(ref RunRef) (*heldRun, *job.Error) {
	h, ok := a.heldRun(ref)
	if !ok {
		return nil, job.NotFound("run", ref.ID.String())
	}
	if h.Act.Kind == ActDelete {
		return nil, job.Conflict("run", "is being deleted, since its retention is over", ref.ID.String())
	}
	return h, nil
}

// settledRun reads a run whose steps are to be changed by hand: it must owe nothing,
// so that no step begins on an outcome that is taken back.
func (a *apply) settledRun(ref RunRef) (*heldRun, *job.Error) {
	h, err := a.runFor(ref)
	switch {
	case err != nil:
		return nil, err
	case h.Stop != 0 && !h.State.Terminal():
		return nil, job.Conflict("run", "is being ended: "+h.Error, ref.ID.String())
	case h.Act.Kind != 0 || len(h.work) > 0:
		return nil, job.Conflict("run", "has not come to rest after its last change: try again", ref.ID.String())
	}
	return h, nil
}

func (a *apply) cancelRun(c *CancelRun) Result {
	h, err := a.runFor(c.Ref)
	switch {
	case err != nil:
		return rejected(err)
	case h.State.Terminal():
		return rejected(job.Conflict("run", "has ended: "+h.State.String(), c.Ref.ID.String()))
	case h.Stop == 0:
		a.stopRun(h, job.RunCancelled, a.byHand("cancelled", c.Actor, c.Reason))
		a.advance()
		return Result{Run: new(h.Run), Changed: true}
	}
	return Result{Run: new(h.Run)}
}

// stopRun ends what has not ended of a run, but for its finally steps.
func (a *apply) stopRun(h *heldRun, as job.RunState, why string) {
	a.touch(h)
	h.Stop, h.Error, h.EndBy = as, why, 0
	h.StopTo = min(h.Phase+1, sectionFinally)
	if as == job.RunCancelled {
		h.StopTo = sectionFinally
	}
	if h.Act.Kind != ActCreate {
		h.Act, h.reached = RunAct{Kind: ActStop}, nil
	}
}

// timeOutRun ends a run whose time-out has passed.
func (a *apply) timeOutRun(c *TimeOutRun) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	h, err := a.runFor(c.Ref)
	switch {
	case err != nil:
		return rejected(err)
	case h.EndBy == 0:
		return rejected(stale("run", "has no time-out that is open", c.Ref.ID.String()))
	case h.EndBy > a.now:
		return rejected(stale("run", "has time until "+job.FormatTime(h.EndBy), c.Ref.ID.String()))
	}
	a.stopRun(h, job.RunTimedOut, "its run has taken longer than its timeout of "+h.graph.spec.Timeout.String())
	a.advance()
	return Result{Run: new(h.Run)}
}

// continueRun goes on with what a run owes.
func (a *apply) continueRun(c *ContinueRun) Result {
	h, ok := a.heldRun(c.Ref)
	switch {
	case !ok:
		return rejected(job.NotFound("run", c.Ref.ID.String()))
	case !h.owesNow():
		return Result{}
	}
	a.touch(h)
	a.advance()
	return Result{More: h.owesNow()}
}

// owesNow is Run.owes before the entry is over.
func (h *heldRun) owesNow() bool {
	return len(h.work) > 0 || h.Act.Kind != 0 && h.Act.Kind != ActDelete
}

func (a *apply) rerunRun(c *RerunRun) Result {
	h, err := a.settledRun(c.Ref)
	if err != nil {
		return rejected(err)
	}
	act := RunAct{Kind: ActRerun, Mode: c.Mode}
	switch c.Mode {
	case RerunFailed:
		if c.Step != "" {
			return rejected(job.Invalid("step", "must be empty for a rerun of what failed", c.Step))
		}
		if h.Counts[job.Failed]+h.Counts[job.TimedOut]+h.Counts[job.Cancelled] == 0 {
			return rejected(job.Conflict("run", "has no step that failed", c.Ref.ID.String()))
		}
	case RerunFrom, RerunOne:
		n, s, err := a.stepFor(h, c.Step)
		switch {
		case err != nil:
			return rejected(err)
		case s.Now == NoOutcome:
			return rejected(job.Conflict("step", "has not ended: it is "+a.shown(a.taskOf(h, s)), c.Step))
		case c.Mode == RerunOne:
			a.rerunOne(h, n, s)
			a.advance()
			return Result{Run: new(h.Run), Changed: true}
		}
		act.From, act.At = n, min(n, h.graph.first[sectionOnFailure])
	default:
		return rejected(job.Invalid("mode", "must be failed, from or one", strconv.Itoa(int(c.Mode))))
	}
	a.runAgain(h)
	h.Touched, h.Phase, h.Act = true, 0, act
	a.advance()
	return Result{Run: new(h.Run), Changed: true}
}

// rerunOne runs a step again, and lets all that has ended stay as it is.
func (a *apply) rerunOne(h *heldRun, n uint32, s *heldStep) {
	a.runAgain(h)
	h.Touched = true
	a.resetStep(h, s)
	s.Alone, s.Fixed = true, true
	a.ready(h, n, s)
}

// replayStep has a step run again whose task is a dead letter; what follows from its
// new outcome follows.
func (a *apply) replayStep(t *Task) *job.Error {
	h, err := a.settledRun(t.RunRef())
	if err != nil {
		return err
	}
	n := h.graph.number[t.Step]
	s := a.step(h, n)
	if s.Phase != StepBegun {
		return job.Conflict("task", "never began, since what it needs could not be computed: rerun the step", t.Step)
	}
	h.Touched = true
	a.resetStep(h, s)
	s.Fixed = true
	a.ready(h, n, s)
	return nil
}

// stepFor finds a step by its name.
func (a *apply) stepFor(h *heldRun, name string) (uint32, *heldStep, *job.Error) {
	n, ok := h.graph.number[name]
	if !ok {
		return 0, nil, job.NotFound("step", name)
	}
	return n, a.step(h, n), nil
}

func (a *apply) forceSuccess(c *ForceSuccess) Result {
	return a.setStep(c.Ref, c.Step, job.Success, a.byHand("success forced", c.Actor, c.Reason))
}

func (a *apply) skipStep(c *SkipStep) Result {
	return a.setStep(c.Ref, c.Step, job.Skipped, a.byHand("skipped", c.Actor, c.Reason))
}

// setStep gives a step that no worker has a state by hand.
func (a *apply) setStep(ref RunRef, name string, to job.State, why string) Result {
	h, err := a.settledRun(ref)
	if err != nil {
		return rejected(err)
	}
	_, s, err := a.stepFor(h, name)
	if err != nil {
		return rejected(err)
	}
	t := a.taskOf(h, s)
	switch {
	case t.State.Active():
		return rejected(job.Conflict("step", "is "+t.State.String()+": cancel its task first", name))
	case a.standsIn(t):
		return rejected(job.Conflict("step", "is at work: cancel the tasks of its items, or its run, first", name))
	case t.State == job.Success, t.State == to:
		return rejected(job.Conflict("step", "has ended: "+t.State.String(), name))
	}
	if h.State.Terminal() {
		a.runAgain(h)
	}
	h.Touched, s.Fixed, s.Alone = true, true, false
	a.change(h, s)
	a.moveStep(h, s, to, why)
	a.advance()
	return Result{Run: new(h.Run), Task: a.taskOf(h, s), Changed: true}
}
