package fsm

import (
	"container/heap"
	"slices"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// How a run advances. A step is visited when what it needs has changed, or itself:
// its rule is applied to what it has counted, and where its outcome has changed,
// those that need it count it, one after the other. Visits and counts are done in
// the order of the steps, so a step is visited only when all that comes before it
// is settled: it never begins, or is skipped, on an outcome that is about to change.
//
// One command does so much of it as maxFanOut allows. The rest is a row for each
// step concerned, and goes on with the next command that touches the run, for which
// the leader cares.

// workItem is a visit of a step, or the next count of its outcome.
type workItem struct {
	at   uint32 // the step that is visited, or that counts
	of   uint32 // the step that is visited, or that is counted
	kind byte
}

const (
	workCount byte = 0
	workVisit byte = 1
)

// workHeap is a heap of what is to be done: at each step it counts before it is
// visited.
type workHeap []workItem

func (h workHeap) Len() int { return len(h) }
func (h workHeap) Less(i, j int) bool {
	x, y := h[i], h[j]
	switch {
	case x.at != y.at:
		return x.at < y.at
	case x.kind != y.kind:
		return x.kind < y.kind
	}
	return x.of < y.of
}
func (h workHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *workHeap) Push(x any)   { *h = append(*h, x.(workItem)) }
func (h *workHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// maxStepRows is how many rows one item of work touches at most: the task, its rows
// by due time, state, deadline and dead letter, its callback with its indexes or the
// task of it, and those of the step.
const maxStepRows = 24

// toVisit has a step looked at before the command ends, or owes it.
func (a *apply) toVisit(h *heldRun, n uint32, s *heldStep) {
	if s.visit {
		return
	}
	s.visit = true
	heap.Push(&h.work, workItem{at: n, of: n, kind: workVisit})
	a.touch(h)
}

// touch has a run looked at before the command ends.
func (a *apply) touch(h *heldRun) {
	a.changeRun(h)
	if !h.queued {
		h.queued = true
		a.busy = append(a.busy, h)
	}
}

// advance does what the command has left to do to the runs that it touched.
func (a *apply) advance() {
	from := a.rows
	for len(a.busy) > 0 {
		h := a.busy[0]
		a.busy = a.busy[1:]
		h.queued = false
		a.advanceRun(h, from+maxFanOut-maxStepRows)
	}
}

// advanceRun works until all is done or as many rows are written as may be.
func (a *apply) advanceRun(h *heldRun, most int) {
	for a.rows <= most {
		if !a.doNext(h) {
			return
		}
	}
	a.event(Event{Kind: EventRunOwed, Run: new(h.Run)})
}

// doNext does the next thing that a run owes; false: there is none.
func (a *apply) doNext(h *heldRun) bool {
	switch {
	case h.Act.Kind == ActCreate:
		a.createNext(h)
	case len(h.work) > 0:
		item := heap.Pop(&h.work).(workItem)
		if item.kind == workVisit {
			a.visit(h, item.of)
		} else {
			a.countOne(h, item)
		}
	case h.Ready > 0 && h.Act.Kind != ActStop && a.mayBegin(h):
		a.beginReady(h)
	case h.Act.Kind != 0:
		return a.goOnAct(h)
	default:
		return a.nextPhase(h)
	}
	return true
}

// visit applies a step's rule, and has its outcome counted where that has changed.
func (a *apply) visit(h *heldRun, n uint32) {
	s := a.step(h, n)
	s.visit = false
	if s.mayFollow() && !h.stopped(n) {
		a.decide(h, n, s)
	} else if s.Fan != nil && s.Phase == StepBegun && s.Now == NoOutcome {
		a.tendFan(h, n, s)
	}
	if s.Moving || s.Now == s.Counted {
		return
	}
	a.change(h, s)
	children := h.graph.children[n]
	if len(children) == 0 {
		s.Counted = s.Now
		return
	}
	s.Moving, s.To, s.At = true, s.Now, 0
	heap.Push(&h.work, workItem{at: children[0], of: n, kind: workCount})
}

// mayFollow reports whether the state of a step is to follow from what it needs: it
// has not begun, and nobody has set it.
func (s *Step) mayFollow() bool {
	return s.Phase != StepBegun && !s.Fixed && (s.Now == NoOutcome || s.Now == SkippedOutcome || s.Now == UpstreamOutcome)
}

// stopped reports whether a step begins no more, since its run is to end before.
func (h *heldRun) stopped(n uint32) bool {
	return h.Stop != 0 && h.graph.section(n) < int(h.StopTo)
}

// countOne has one step count the outcome of one that it needs.
func (a *apply) countOne(h *heldRun, item workItem) {
	parent, child := a.step(h, item.of), a.step(h, item.at)
	if parent.Counted != NoOutcome && !mutant.CountedTwice {
		child.Met[parent.Counted]--
	}
	if parent.To != NoOutcome {
		child.Met[parent.To]++
	}
	if parent.Alone && child.Phase != StepBegun && child.Now != NoOutcome {
		child.Fixed = true
	}
	a.change(h, child)
	a.change(h, parent)
	a.toVisit(h, item.at, child)
	parent.At++
	children := h.graph.children[item.of]
	if int(parent.At) < len(children) {
		heap.Push(&h.work, workItem{at: children[parent.At], of: item.of, kind: workCount})
		return
	}
	parent.Counted, parent.Moving, parent.To, parent.At = parent.To, false, NoOutcome, 0
	if parent.Now != parent.Counted {
		a.toVisit(h, item.of, parent)
	}
}

// verdict is what the rule of a step and the time of its section say.
func (h *heldRun) verdict(n uint32, s *Step) job.Decision {
	section := h.graph.section(n)
	switch {
	case int(h.Phase) < section || h.Act.Kind == ActCreate:
		return job.DecideWait
	case section == sectionOnFailure && !h.OnFailure:
		return job.DecideSkip
	}
	return h.graph.steps[n].RuleOrDefault().Decide(s.needs(len(h.graph.parents[n])))
}

func (s *Step) needs(total int) job.Needs {
	return job.Needs{
		Total:   uint32(total), //nolint:gosec // at most job.MaxSteps
		Success: s.Met[SuccessOutcome], Failed: s.Met[FailedOutcome],
		Skipped: s.Met[SkippedOutcome], Upstream: s.Met[UpstreamOutcome],
	}
}

// decide brings a step that has not begun in line with what it needs.
func (a *apply) decide(h *heldRun, n uint32, s *heldStep) {
	switch h.verdict(n, &s.Step) {
	case job.DecideWait:
		a.holdBack(h, n, s)
		a.unjudge(h, s)
		if s.Now != NoOutcome {
			a.moveStep(h, s, job.Blocked, "")
		}
	case job.DecideBegin:
		if s.Phase != StepWaits && s.Now == NoOutcome || s.Judged && s.Now == SkippedOutcome {
			return
		}
		a.ready(h, n, s)
	case job.DecideSkip:
		if s.Now != SkippedOutcome {
			a.moveStep(h, s, job.Skipped, "")
		}
	case job.DecideFail:
		if s.Now != UpstreamOutcome {
			a.moveStep(h, s, job.UpstreamFailed, "")
		}
	}
}

// unjudge forgets the verdict on a step that is to begin anew.
func (a *apply) unjudge(h *heldRun, s *heldStep) {
	if s.Judged {
		s.Judged = false
		a.change(h, s)
	}
}

// ready begins a step whose rule holds, as soon as a verdict of the leader is there,
// where it needs one, and max_parallel allows it.
func (a *apply) ready(h *heldRun, n uint32, s *heldStep) {
	if h.graph.computed[n] && !s.Judged {
		a.want(h, n, s)
		return
	}
	if a.mayBegin(h) {
		a.beginStep(h, s)
		return
	}
	if s.Now != NoOutcome {
		a.moveStep(h, s, job.Blocked, "")
	}
	s.Phase = StepReady
	a.change(h, s)
	a.markReady(h, n)
}

// markReady puts a step among those that wait for max_parallel alone.
func (a *apply) markReady(h *heldRun, n uint32) {
	h.Ready++
	h.ready = min(h.ready, n)
	a.key = a.key.stepReady(h.Ref(), n)
	a.set(a.key, nil)
}

// mayBegin reports whether the run may have another task at work.
func (a *apply) mayBegin(h *heldRun) bool {
	most := h.graph.spec.MaxParallel
	return most == 0 || int(h.Counts[job.Pending]) < most
}

// beginReady begins the first step that waits for max_parallel alone.
func (a *apply) beginReady(h *heldRun) {
	var n uint32
	found := false
	p := key{tableStepReady}.runRef(h.Ref())
	a.tx.Ascend(p.u32(h.ready), prefixEnd(p), func(k, _ []byte) bool {
		kr := keyReader{rest: k[len(p):]}
		n, found = kr.u32(), true
		return false
	})
	if !found {
		panic("fsm: the state is damaged: run " + h.ID.String() + " has lost a step that is ready")
	}
	h.ready = n
	s := a.step(h, n)
	if s.Fan != nil && s.Fan.Ready {
		a.beginItem(h, n, s)
		return
	}
	a.holdBack(h, n, s)
	if s.Fixed || h.verdict(n, &s.Step) == job.DecideBegin { // else its section is to come again
		a.beginStep(h, s)
		return
	}
	a.unjudge(h, s)
}

// holdBack takes a step out of those that wait for something else than what they
// need.
func (a *apply) holdBack(h *heldRun, n uint32, s *heldStep) {
	switch s.Phase {
	case StepReady:
		h.Ready--
		a.key = a.key.stepReady(h.Ref(), n)
	case StepWanted:
		a.key = a.key.stepWanted(h.Ref(), n)
	default:
		return
	}
	a.delete(a.key)
	s.Phase = StepWaits
	a.change(h, s)
}

// beginStep makes a step's task pending, due now.
func (a *apply) beginStep(h *heldRun, s *heldStep) {
	s.Phase, s.Fixed = StepBegun, false
	a.change(h, s)
	a.beginTask(a.taskOf(h, s))
}

// beginTask makes a task of a run pending, due now.
func (a *apply) beginTask(old *Task) {
	t := new(Task)
	*t = *old
	policy := a.policy(t)
	t.State, t.Ended, t.Error, t.Due = job.Pending, 0, "", a.now
	t.QueueBy, t.EndBy, t.MaxRetries = 0, 0, policy.RetryOrDefault().Max()
	t.limit(&policy)
	a.write(old, t)
	a.event(Event{Kind: EventPending, Task: t})
}

// moveStep gives a step's task another state, without a worker.
func (a *apply) moveStep(h *heldRun, s *heldStep, to job.State, why string) {
	a.moveTask(a.taskOf(h, s), to, why, s.Phase != StepBegun)
}

// moveTask is moveStep for any task of a run; anew: it is to begin once more, or never.
func (a *apply) moveTask(old *Task, to job.State, why string, anew bool) {
	t := new(Task)
	*t = *old
	if anew && to == job.Blocked {
		t.Started = 0
	}
	if t.Dead {
		a.deleteDead(old)
		t.Dead = false
	}
	t.Error, t.ExitCode, t.CancelRequested, t.TooLate = why, nil, false, false
	t.QueueBy, t.EndBy, t.Retries, t.Retry = 0, 0, 0, false
	if to.Terminal() {
		t.end(to, a.now)
	} else {
		t.State, t.Ended, t.CompensatedBy = to, 0, job.ID{}
	}
	a.write(old, t)
	if to.Terminal() {
		a.event(Event{Kind: EventEnded, Task: t})
	}
}

func (a *apply) taskOf(h *heldRun, s *heldStep) *Task {
	t, ok := a.task(TaskRef{h.Namespace, s.Task})
	if !ok {
		panic("fsm: the state is damaged: task " + s.Task.String() + " of run " + h.ID.String() + " is gone")
	}
	return t
}

// stepMoved tells a run that the task of one of its steps has changed; old is nil
// where it is new.
func (a *apply) stepMoved(old, t *Task) {
	if old != nil && countedState(old.State) == countedState(t.State) && old.Dead == t.Dead {
		return
	}
	h, ok := a.heldRun(t.RunRef())
	if !ok {
		panic("fsm: the state is damaged: run " + t.Run.String() + " of task " + t.ID.String() + " is gone")
	}
	a.changeRun(h)
	h.Counts[countedState(t.State)]++
	if t.Dead {
		h.Dead++
	}
	if old != nil {
		h.Counts[countedState(old.State)]--
		if old.Dead {
			h.Dead--
		}
		if h.Ready > 0 {
			a.touch(h) // another may begin
		}
	}
	switch {
	case t.Item != 0:
		a.itemMoved(h, old, t)
		return
	case old == nil:
		return
	}
	was, is := outcomeOf(old.State), outcomeOf(t.State)
	if was != is {
		a.outcomeChanged(h, h.graph.number[t.Step], was, is)
	}
}

// outcomeChanged keeps what a run knows of its steps' ends.
func (a *apply) outcomeChanged(h *heldRun, n uint32, was, is StepOutcome) {
	s := a.step(h, n)
	section := h.graph.section(n)
	if !h.graph.steps[n].AllowFailure {
		if was.failed() {
			h.Failed--
		}
		if is.failed() {
			h.Failed++
		}
	}
	switch {
	case was == NoOutcome:
		h.Open[section]--
		a.holdBack(h, n, s)
	case is == NoOutcome:
		h.Open[section]++
		a.reopen(h, section)
	}
	s.Now = is
	a.change(h, s)
	a.toVisit(h, n, s)
}

// flushOwed writes which steps there is something left to do with.
func (a *apply) flushOwed(h *heldRun) {
	if len(h.work) == 0 && len(h.owed) == 0 {
		return
	}
	owed := make(map[uint32]bool, len(h.work))
	var changed []uint32
	for _, item := range h.work {
		if !owed[item.of] && !h.owed[item.of] {
			changed = append(changed, item.of)
		}
		owed[item.of] = true
	}
	for n := range h.owed {
		if !owed[n] {
			changed = append(changed, n)
		}
	}
	slices.Sort(changed)
	for _, n := range changed {
		a.key = a.key.stepOwed(h.Ref(), n)
		if owed[n] {
			a.set(a.key, nil)
		} else {
			a.delete(a.key)
		}
	}
	h.owed, h.Owes = owed, len(owed) > 0
}

// loadOwed reads back what flushOwed wrote.
func (a *apply) loadOwed(h *heldRun) {
	p := key{tableStepOwed}.runRef(h.Ref())
	var owed []uint32
	a.tx.Ascend(p, prefixEnd(p), func(k, _ []byte) bool {
		kr := keyReader{rest: k[len(p):]}
		owed = append(owed, kr.u32())
		return true
	})
	for _, n := range owed {
		h.owed[n] = true
		s := a.step(h, n)
		s.visit = true
		h.work = append(h.work, workItem{at: n, of: n, kind: workVisit})
		if s.Moving {
			h.work = append(h.work, workItem{at: h.graph.children[n][s.At], of: n, kind: workCount})
		}
	}
	heap.Init(&h.work)
}
