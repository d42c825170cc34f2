package fsm

import (
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job"
)

// A step that fans out is one task for each item of a list. The step's own task
// stands for all of them: it is never given to a worker, is blocked until the last
// of them has ended, and then ends by what has become of them. The leader computes
// the items and their payloads, and hands them in part by part. Where the step is a
// workflow, an item's task stands for a run of it in the same way.

// tableItems: namespace, run, number of the step (4), number of the item (4) → task
// (16), and, of a step that is a workflow, its run (16), once that was started. Numbers
// go on when the step runs again, so those of an earlier time stay until the run is
// deleted.
const tableItems byte = 0x60

func (k key) items(r RunRef, n uint32) key { return k.table(tableItems).runRef(r).u32(n) }

// MaxItemsPart is how many items one StepVerdict may hand in.
const MaxItemsPart = 64

// Fan is what a step knows of its items. They are numbered from First+1 on.
type Fan struct {
	First uint32 `msgpack:"f,omitempty"` // items of earlier times
	Total uint32 `msgpack:"t,omitempty"`
	Made  uint32 `msgpack:"m,omitempty"` // whose tasks there are
	Next  uint32 `msgpack:"n,omitempty"` // that have begun, or have ended without
	Ready bool   `msgpack:"r,omitempty"` // it has a row in tableStepReady: the next waits for the run's max_parallel
	// Counts are its tasks by countedState.
	Counts RunCounts `msgpack:"c"`
	Broken string    `msgpack:"b,omitempty"` // why not all were made
	// Running are those whose runs have not ended, where the step is a workflow: their
	// tasks are blocked as long.
	Running uint32 `msgpack:"R,omitempty"`
}

func (f *Fan) ended() uint32 {
	return f.Made - f.Counts[job.Blocked] - f.Counts[job.Pending]
}

// making reports whether the step waits for more of its items.
func (s *Step) making() bool {
	return s.Fan != nil && s.Phase == StepBegun && s.Fan.Made < s.Fan.Total
}

// WaitsForVerdict reports whether the step has a row in tableStepWanted.
func (s *Step) WaitsForVerdict() bool { return s.Phase == StepWanted || s.making() }

// fanOut makes the tasks of a part of a step's items.
func (a *apply) fanOut(h *heldRun, c *StepVerdict, s *heldStep) {
	f := s.Fan
	if s.Phase != StepBegun { // the first part
		if room := job.MaxRunTasks - h.Steps - int(h.Items); int(c.Total) > room {
			a.moveStep(h, s, job.Failed, fmt.Sprintf("its for_each has %d items, and the run may have only %d more of its %d tasks",
				c.Total, max(room, 0), job.MaxRunTasks))
			return
		}
		f = &Fan{Total: c.Total}
		if s.Fan != nil {
			f.First = s.Fan.First + s.Fan.Made
		}
		s.Fan, s.Phase, s.Fixed = f, StepBegun, false
		a.markStarted(a.taskOf(h, s))
	}
	a.change(h, s)
	for _, payload := range c.Items {
		f.Made++
		h.Items++
		if err := a.makeItem(h, c.Step, f.First+f.Made, payload); err != nil {
			f.Broken = fmt.Sprintf("item %d could not be made: %v", f.Made, err)
			break
		}
	}
	if f.Broken != "" {
		f.Total = f.Made
	}
	if s.making() {
		a.key = a.key.stepWanted(h.Ref(), c.Step)
		a.set(a.key, nil)
		a.event(Event{Kind: EventStepWanted, Run: new(h.Run)})
	}
	a.toVisit(h, c.Step, s)
}

// makeItem makes the task of one item.
func (a *apply) makeItem(h *heldRun, n, item uint32, payload []byte) *job.Error {
	t, err := a.stepTask(h, h.graph.steps[n], payload)
	t.Item = item
	if len(payload) > 0 {
		a.putBody(t, &Body{Payload: payload})
	}
	a.key = a.key.items(h.Ref(), n).u32(item)
	a.set(a.key, t.ID[:])
	a.write(nil, t)
	if err != nil {
		a.unmade(t, err)
	}
	return err
}

// unmade ends a task that its job refuses.
func (a *apply) unmade(old *Task, err *job.Error) {
	t := new(Task)
	*t = *old
	t.end(job.Failed, a.now)
	t.Error = cut("it could not be made: " + err.Error())
	a.write(old, t)
}

// stopMaking ends the wait for further items.
func (a *apply) stopMaking(h *heldRun, n uint32, s *heldStep, why string) {
	if !s.making() {
		return
	}
	a.key = a.key.stepWanted(h.Ref(), n)
	a.delete(a.key)
	s.Fan.Total, s.Fan.Broken = s.Fan.Made, cut(why)
	a.change(h, s)
	a.toVisit(h, n, s)
}

// tendFan begins the next item of a step, or ends it with the last.
func (a *apply) tendFan(h *heldRun, n uint32, s *heldStep) {
	f := s.Fan
	limit := h.graph.steps[n].ForEach.Parallel
	switch {
	case h.stopped(n):
	case f.Next < f.Made && (limit == 0 || int(f.Counts[job.Pending]+f.Running) < limit):
		a.beginItem(h, n, s)
		return
	}
	if f.Made < f.Total || f.ended() < f.Made {
		return
	}
	a.notReady(h, n, s)
	state, why := f.outcome()
	if state == job.Cancelled && h.Error != "" {
		why = h.Error
	}
	a.moveStep(h, s, state, why)
}

// beginItem begins the next item, or has it wait for max_parallel, which bounds the
// tasks of the run alone.
func (a *apply) beginItem(h *heldRun, n uint32, s *heldStep) {
	f := s.Fan
	sub := h.graph.steps[n].Workflow != ""
	if !sub && !a.mayBegin(h) {
		if !f.Ready {
			f.Ready = true
			a.markReady(h, n)
			a.change(h, s)
		}
		return
	}
	a.notReady(h, n, s)
	f.Next++
	a.change(h, s)
	switch t, _ := a.itemTask(h, n, f.First+f.Next); {
	case t.State != job.Blocked: // it was cancelled
	case sub:
		a.startItemRun(h, n, s, t)
	default:
		a.beginTask(t)
	}
	a.toVisit(h, n, s)
}

// notReady takes a step out of those whose next item waits for max_parallel.
func (a *apply) notReady(h *heldRun, n uint32, s *heldStep) {
	if s.Fan == nil || !s.Fan.Ready {
		return
	}
	s.Fan.Ready = false
	h.Ready--
	a.key = a.key.stepReady(h.Ref(), n)
	a.delete(a.key)
	a.change(h, s)
}

// outcome is what becomes of a step by its items: all must have succeeded.
func (f *Fan) outcome() (job.State, string) {
	failed, timedOut, cancelled := f.Counts[job.Failed], f.Counts[job.TimedOut], f.Counts[job.Cancelled]
	switch {
	case f.Broken != "":
		return job.Failed, f.Broken
	case failed+timedOut > 0:
		why := fmt.Sprintf("%d of %d items failed", failed+timedOut, f.Made)
		if cancelled > 0 {
			why += fmt.Sprintf(", and %d were cancelled", cancelled)
		}
		return job.Failed, why
	case cancelled > 0:
		return job.Cancelled, fmt.Sprintf("%d of %d items were cancelled", cancelled, f.Made)
	}
	return job.Success, ""
}

// itemMoved tells a step that the task of one of its items has changed.
func (a *apply) itemMoved(h *heldRun, old, t *Task) {
	n := h.graph.number[t.Step]
	s := a.step(h, n)
	f := s.Fan
	if t.Item <= f.First {
		return // of an earlier time
	}
	a.change(h, s)
	if old != nil {
		f.Counts[countedState(old.State)]--
	}
	f.Counts[countedState(t.State)]++
	if old == nil || old.State == t.State {
		return
	}
	// A dead letter was replayed, or a run that had ended has done so otherwise.
	if s.Now != NoOutcome && (!t.State.Terminal() || old.State.Terminal()) {
		a.moveStep(h, s, job.Blocked, "")
	}
	a.toVisit(h, n, s)
}

// stopFan cancels the next item of a step; false: there is none, and the step ends
// with them.
func (a *apply) stopFan(h *heldRun, n uint32, s *heldStep) bool {
	a.stopMaking(h, n, s, "")
	f := s.Fan
	if h.Act.Item >= f.Made {
		a.toVisit(h, n, s)
		return false
	}
	h.Act.Item++
	switch t, run := a.itemTask(h, n, f.First+h.Act.Item); {
	case t.State.Terminal() || t.CancelRequested:
	case !run.IsZero():
		a.stopChild(h, run)
	default:
		a.cancelTask(t, h.Error)
	}
	return true
}

// mayReplayItem lets the dead letter of an item run again, but for one of an earlier time.
func (a *apply) mayReplayItem(t *Task) *job.Error {
	h, err := a.settledRun(t.RunRef())
	if err != nil {
		return err
	}
	if s := a.step(h, h.graph.number[t.Step]); s.Phase != StepBegun || t.Item <= s.Fan.First {
		return job.Conflict("task", "is an item of a step that has been rerun since", t.Step)
	}
	h.Touched = true
	return nil
}

// itemTask reads the task of an item, and the run that this stands for; zero: none.
func (a *apply) itemTask(h *heldRun, n, item uint32) (t *Task, run job.ID) {
	a.key = a.key.items(h.Ref(), n).u32(item)
	b, _ := a.tx.Get(a.key)
	id, run, ok := decodeItem(b)
	if !ok {
		damaged(a.key)
	}
	t, ok = a.task(TaskRef{h.Namespace, id})
	if !ok {
		panic("fsm: the state is damaged: item " + strconv.Itoa(int(item)) + " of a step of run " + h.ID.String() + " is gone")
	}
	return t, run
}

// decodeItem reads a value of tableItems.
func decodeItem(b []byte) (task, run job.ID, ok bool) {
	switch len(b) {
	case 2 * idLen:
		return job.ID(b[:idLen]), job.ID(b[idLen:]), true
	case idLen:
		return job.ID(b), job.ID{}, true
	}
	return job.ID{}, job.ID{}, false
}

// deleteItem deletes the last task of a step's items; false: none is left.
func (a *apply) deleteItem(h *heldRun, n uint32, s *heldStep, budget *int) bool {
	f := s.Fan
	if f == nil || f.First+f.Made == 0 {
		return false
	}
	last := f.First + f.Made
	t, _ := a.itemTask(h, n, last)
	if t.Dead {
		h.Dead--
	}
	*budget -= a.deleteTask(t) + 1
	h.Counts[countedState(t.State)]--
	if f.Made > 0 {
		f.Counts[countedState(t.State)]--
		f.Made--
		f.Total, f.Next = f.Made, min(f.Next, f.Made)
	} else {
		f.First--
	}
	h.Items--
	a.key = a.key.items(h.Ref(), n).u32(last)
	a.delete(a.key)
	a.change(h, s)
	return true
}

// inReady reports whether the step has a row in tableStepReady.
func (s *Step) inReady() bool { return s.Phase == StepReady || s.Fan != nil && s.Fan.Ready }

// neverRan reports whether a task of a run is one of a step that was not given to a
// worker: since what it needs could not be computed, or since others run in its place.
// It owes no callback, and is no dead letter.
func (a *apply) neverRan(t *Task) bool {
	h, ok := a.heldRun(t.RunRef())
	if !ok {
		return false
	}
	n := h.graph.number[t.Step]
	step := h.graph.steps[n]
	if t.Item != 0 {
		return step.Workflow != ""
	}
	return h.graph.computed[n] && (a.step(h, n).Phase != StepBegun || step.ForEach != nil || step.Workflow != "")
}

// AtWork reports whether a step has not ended for which others are at work: its items,
// or its run.
func (s *RunStep) AtWork() bool {
	return s.Phase == StepBegun && s.Record.State == job.Blocked
}

// markStarted notes when others began to work for a step.
func (a *apply) markStarted(old *Task) {
	t := new(Task)
	*t = *old
	t.Started = a.now
	a.write(old, t)
}

// standsIn reports whether a task is that of a step, or of an item, for which others are
// at work.
func (a *apply) standsIn(t *Task) bool {
	if t.Run.IsZero() || t.State != job.Blocked {
		return false
	}
	h, ok := a.heldRun(t.RunRef())
	if !ok {
		return false
	}
	n := h.graph.number[t.Step]
	if t.Item != 0 {
		_, run := a.itemTask(h, n, t.Item)
		return !run.IsZero()
	}
	return a.step(h, n).Phase == StepBegun
}

// StepItem is an item of a step that fans out.
type StepItem struct {
	Number uint32
	Record Task
	Run    job.ID // that its task stands for; zero: none
}

// Items reads a step's items, those of its latest time alone, after a number.
func Items(r Reader, run RunRef, n uint32, s *Step, after uint32, limit int) (items []StepItem) {
	if s.Fan == nil {
		return nil
	}
	p := key{}.items(run, n)
	r.Ascend(key{}.items(run, n).u32(s.Fan.First+after+1), prefixEnd(p), func(k, v []byte) bool {
		kr := keyReader{rest: k[len(p):]}
		it := StepItem{Number: kr.u32() - s.Fan.First}
		it.Record.ID, it.Run, _ = decodeItem(v)
		items = append(items, it)
		return len(items) < limit
	})
	for i := range items {
		items[i].Record, _ = GetTask(r, TaskRef{run.Namespace, items[i].Record.ID})
	}
	return items
}
