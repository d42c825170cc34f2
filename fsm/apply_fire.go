package fsm

import (
	"bytes"
	"cmp"
	"strconv"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// fireSchedules applies what the leader proposes; each schedule stands alone.
func (a *apply) fireSchedules(c *FireSchedules) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	results := make([]*job.Error, len(c.Items))
	for i := range c.Items {
		results[i] = a.fireItem(&c.Items[i])
	}
	return Result{Attempts: results}
}

func (a *apply) fireItem(it *FireItem) *job.Error {
	h := a.schedule(it.Ref)
	if err := a.checkItem(h, it); err != nil {
		return err
	}
	st := h.st
	h.changed = true
	for i := range it.Times {
		t := &it.Times[i]
		f := &Fire{Nominal: t.Nominal, Until: t.Until, Count: t.Count, Verdict: t.Verdict, Why: t.Why, Due: t.Due, Into: t.Into, CatchUp: t.CatchUp}
		if f.Span() {
			st.Cursor = f.Until
			a.putFire(h, f)
			continue
		}
		st.Cursor = f.Nominal
		if t.Join != nil && a.await(h, f, t.Join) {
			continue
		}
		if err := a.fire(h, f); err != nil {
			a.refuseFire(h, f, err)
		}
	}
	st.Cursor = max(st.Cursor, it.Upto)
	st.MissedTo = it.MissedTo
	if st.GapTo <= st.Cursor {
		st.GapTo = 0
	}
	if it.Broken != "" {
		a.didNotFire(h, 1, "its times can't be told: "+it.Broken)
	}
	st.Planned, st.Next, st.NextAt, st.Broken = true, it.Next, max(it.NextAt, it.Next), cut(it.Broken)
	if most := a.specOf(h).MaxRuns; most > 0 && st.Counts.Planned >= int64(most) || it.Next == 0 {
		st.Next, st.NextAt = 0, 0
	}
	a.drainFires(h)
	return nil
}

// checkItem refuses what was decided by another state than the present one: so a
// time that two leaders fire is fired once.
func (a *apply) checkItem(h *heldSchedule, it *FireItem) *job.Error {
	switch {
	case h.st == nil:
		return stale("schedule", "does not exist", it.Ref.Name)
	case h.st.Generation != it.Generation:
		return stale("generation", "is not the schedule's", it.Ref.Name)
	case h.st.Cursor != it.Cursor && !mutant.FiredTwice:
		return stale("cursor", "is not the schedule's: its times up to "+job.FormatTime(h.st.Cursor)+" have their verdict", job.FormatTime(it.Cursor))
	case h.st.Paused != nil:
		return stale("schedule", "is paused", it.Ref.Name)
	case len(it.Times) > MaxFireTimes:
		return job.Invalid("times", "must be at most 100", it.Ref.Name)
	}
	cursor := it.Cursor
	for i := range it.Times {
		t := &it.Times[i]
		last := max(t.Nominal, t.Until)
		switch {
		case t.Nominal <= cursor || t.Until != 0 && t.Until < t.Nominal:
			return job.Invalid("times", "must rise", job.FormatTime(t.Nominal))
		case t.Until != 0 && (t.Verdict < VerdictMerged || t.Verdict > VerdictMissed || t.Until > a.now):
			return job.Invalid("times", "of a span must be past and have a verdict", job.FormatTime(t.Nominal))
		case max(t.Due, t.Nominal) > a.now+MaxEarly:
			return stale("times", "must not lie so far ahead", job.FormatTime(t.Nominal))
		case t.Until == 0 && max(t.Due, t.Nominal) > a.now && !a.mayLead(h):
			return stale("times", "can't be judged before its time: what was fired before has not ended", job.FormatTime(t.Nominal))
		}
		if err := a.checkFireJoin(h, t); err != nil {
			return err
		}
		cursor = last
	}
	if it.Next != 0 && it.Next <= max(cursor, it.Upto) {
		return job.Invalid("next", "must lie after the cursor", job.FormatTime(it.Next))
	}
	return nil
}

// mayLead tells whether a time can be fired before it has come: a task waits for
// its time, a run and a list don't, and nothing must have to end until then.
func (a *apply) mayLead(h *heldSchedule) bool {
	spec := a.specOf(h)
	return spec.Job != "" && (spec.OverlapOrDefault() == job.OverlapAllow || h.st.Active+h.st.Queued == 0)
}

// fire decides what becomes of a time and does it. An error says why its task could
// not be made; nothing is written then.
func (a *apply) fire(h *heldSchedule, f *Fire) *job.Error {
	a.decideFire(h, f)
	switch f.Verdict {
	case VerdictFired:
		if err := a.beginFire(h, f); err != nil {
			return err
		}
	case VerdictQueued:
		overlap := a.specOf(h).OverlapOrDefault()
		if newest := overlap == job.OverlapLatest || overlap == job.OverlapCancelOther; newest && h.st.Queued > 0 && !f.CatchUp {
			a.supersedeFire(h, f)
		}
		a.putFire(h, f)
		if overlap == job.OverlapCancelOther && !f.CatchUp {
			a.cancelFor(h, f)
		}
		return nil
	}
	a.putFire(h, f)
	return nil
}

// decideFire gives a time its verdict by the budget and the rule for overlaps.
func (a *apply) decideFire(h *heldSchedule, f *Fire) {
	st, spec := h.st, a.specOf(h)
	f.Due = max(f.Due, f.Nominal)
	overlap := spec.OverlapOrDefault()
	f.Verdict = VerdictSkipped
	switch {
	case f.Origin == ByPlan && spec.MaxRuns > 0 && st.Counts.Planned >= int64(spec.MaxRuns):
		f.Why = WhyMaxRuns
	case overlap == job.OverlapAllow || st.Active+st.Queued == 0:
		f.Verdict = VerdictFired
	case f.CatchUp:
		f.Verdict = VerdictQueued
	case overlap == job.OverlapSkip:
		f.Why = WhyOverlap
	case overlap == job.OverlapQueueAll && st.Queued >= spec.QueueCapOrDefault():
		f.Why = WhyQueueFull
	case overlap == job.OverlapQueueOne && st.Queued > 0:
		f.Verdict, f.Why, f.Into = VerdictMerged, WhyOlder, a.waitingFire(h).Nominal
	default:
		f.Verdict = VerdictQueued
	}
}

// beginFire makes what a fire makes: a task, a run, or a list that is owed.
func (a *apply) beginFire(h *heldSchedule, f *Fire) *job.Error {
	spec := a.specOf(h)
	switch {
	case spec.Workflow != "":
		return a.beginRun(h, f)
	case spec.ReconcileURL != "":
		return a.beginList(h, f)
	}
	request := job.TaskSpec{Job: spec.Job, Payload: spec.Payload, Due: f.Due}
	request.Priority = cmp.Or(f.Priority, spec.Priority)
	if len(f.Payload) > 0 {
		request.Payload = f.Payload
	}
	t := new(Task)
	if err := a.plan(h.ref.Namespace, &request, t); err != nil {
		return err
	}
	if err := a.withinQuota(h.ref.Namespace); err != nil {
		return err
	}
	t.ID = job.NewID(a.now, a.at.Index, a.next())
	t.Schedule, t.Nominal, t.FiredBy = h.ref.Name, f.Nominal, f.Origin
	if len(request.Payload) > 0 {
		a.putBody(t, &Body{Payload: request.Payload})
	}
	a.write(nil, t)
	a.event(Event{Kind: EventPending, Task: t})
	f.Verdict, f.Why, f.Task, f.Late = VerdictFired, "", t.ID, max(a.now-f.Due, 0)
	a.fireBegan(h, f, t.ID)
	return nil
}

// beginRun is beginFire for a workflow.
func (a *apply) beginRun(h *heldSchedule, f *Fire) *job.Error {
	spec := a.specOf(h)
	params := f.Payload
	if len(params) == 0 {
		params = spec.Params.JSON()
	}
	trigger := RunTrigger{Kind: triggerKind(f.Origin), Actor: f.Actor, Schedule: h.ref.Name, Nominal: f.Nominal}
	run, err := a.startRun(h.ref.Namespace, spec.Workflow, params, trigger, cmp.Or(f.Priority, spec.Priority))
	if err != nil {
		return err
	}
	f.Verdict, f.Why, f.Run, f.Late = VerdictFired, "", run.ID, max(a.now-f.Due, 0)
	a.fireBegan(h, f, run.ID)
	return nil
}

// triggerKind is how a run calls what fired it.
func triggerKind(o FireOrigin) string {
	switch o {
	case ByHand, ByEvent, ByBackfill:
		return o.String()
	}
	return "schedule"
}

// fireBegan notes that what a fire made has not ended yet.
func (a *apply) fireBegan(h *heldSchedule, f *Fire, id job.ID) {
	if f.Origin == ByBackfill {
		return // it is in nobody's way
	}
	h.st.Active++
	h.st.Latest = id
	h.st.Last = LastFire{Nominal: f.Nominal, At: a.now, Task: f.Task, Run: f.Run}
	h.changed = true
}

// waitingFire reads the time that has waited longest.
func (a *apply) waitingFire(h *heldSchedule) *Fire {
	var first []FireKey
	prefix := key{}.fireQueue(h.ref)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		first = append(first, readKey(k[len(prefix)-1:]).fireKey())
		return false
	})
	if len(first) == 0 {
		panic("fsm: the state is damaged: schedule " + h.ref.Name + " has no time that waits")
	}
	return a.fireAt(h.ref, first[0])
}

// fireAt reads a row of the ledger that exists.
func (a *apply) fireAt(ref ScheduleRef, at FireKey) *Fire {
	k := key{}.fires(ref).newest(at)
	b, ok := a.tx.Get(k)
	if !ok {
		damaged(k)
	}
	f := new(Fire)
	mustDecode(a.codec, k, b, f)
	return f
}

// supersedeFire merges the newest time that waits into one that is newer still, but for
// one that is made up for: that was promised.
func (a *apply) supersedeFire(h *heldSchedule, by *Fire) {
	var last FireKey
	prefix := key{}.fireQueue(h.ref)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		last = readKey(k[len(prefix)-1:]).fireKey()
		return true
	})
	f := a.fireAt(h.ref, last)
	if f.CatchUp || f.Nominal > by.Nominal {
		return
	}
	a.unqueueFire(h, f)
	f.Verdict, f.Why, f.Into = VerdictMerged, WhyNewer, by.Nominal
	a.putFire(h, f)
}

// cancelFor cancels what was fired last, in favour of a time that waits for it.
func (a *apply) cancelFor(h *heldSchedule, by *Fire) {
	latest := h.st.Latest
	why, actor := "replaced by the fire of "+job.FormatTime(by.Nominal), "schedule "+h.ref.Name
	if latest == h.st.Last.Run {
		a.cancelRun(&CancelRun{Ref: RunRef{h.ref.Namespace, latest}, Reason: why, Actor: actor})
		return
	}
	ref := TaskRef{h.ref.Namespace, latest}
	t, ok := a.task(ref)
	if !ok || t.State.Terminal() || t.CancelRequested {
		return
	}
	a.cancel(&Cancel{Ref: ref, Reason: why, Actor: actor})
}

// unqueueFire takes a time out of those that wait; the caller gives it its verdict.
func (a *apply) unqueueFire(h *heldSchedule, f *Fire) {
	a.dequeueFire(f)
	st := h.st
	st.Queued--
	if f.Origin == ByPlan {
		st.Counts.Planned--
		if st.Next == 0 && a.specOf(h).MaxRuns > 0 {
			st.Planned = false // the budget may allow another
		}
	}
	h.changed = true
}

func (a *apply) dequeueFire(f *Fire) {
	a.key = a.key.fireQueue(f.ref()).fireKey(f.Key())
	a.delete(a.key)
	a.addCounter(key{}.counter(countFires), -1) // writeFire counts it again
}

// refuseFire gives a time its verdict whose task could not be made.
func (a *apply) refuseFire(h *heldSchedule, f *Fire, err *job.Error) {
	f.Verdict, f.Why, f.Error = VerdictSkipped, WhyRefused, cut(err.Error())
	a.putFire(h, f)
}

// putFire writes a row of the ledger and counts its verdict.
func (a *apply) putFire(h *heldSchedule, f *Fire) {
	f.Namespace, f.Schedule = h.ref.Namespace, h.ref.Name
	c := &h.st.Counts
	planned := int64(0)
	if f.Origin == ByPlan {
		planned = 1
	}
	switch f.Verdict {
	case VerdictWaiting:
		h.st.Waiting++
	case VerdictQueued:
		h.st.Queued++
		c.Planned += planned
	case VerdictFired:
		c.Fired++
		c.Planned += planned
	case VerdictMerged:
		c.Merged += f.Number()
	case VerdictSkipped:
		c.Skipped += f.Number()
		if f.Why == WhyRefused {
			c.Refused += f.Number()
		}
	case VerdictMissed:
		c.Missed += f.Number()
	}
	a.writeFire(f)
	h.changed = true
	a.toldOf(h, f)
	a.cutLedger(h, f)
}

// writeFire writes the rows of a verdict.
func (a *apply) writeFire(f *Fire) {
	f.At = a.now
	switch f.Verdict {
	case VerdictWaiting: // see tableJoins
	case VerdictQueued:
		a.key = a.key.fireQueue(f.ref()).fireKey(f.Key())
		a.set(a.key, nil)
	default:
		f.Payload = nil
		a.key = a.key.fireAge(f)
		a.set(a.key, nil)
	}
	a.key = a.key.fire(f)
	a.set(a.key, mustEncode(a.codec, f))
	a.addCounter(key{}.counter(countFires), +1)
}

// maxDrain bounds the times that one apply tries in turn, where their tasks can't
// be made.
const maxDrain = 100

// drainFires fires the next of the times that wait, once what was fired before has ended.
// What is left beyond maxDrain the leader is asked to go on with.
func (a *apply) drainFires(h *heldSchedule) {
	st := h.st
	for n := 0; st.Queued > 0 && st.Active == 0; n++ {
		if n == maxDrain {
			st.Planned = false
			return
		}
		f := a.waitingFire(h)
		a.unqueueFire(h, f)
		if err := a.beginFire(h, f); err != nil {
			a.refuseFire(h, f, err)
			continue
		}
		a.putFire(h, f)
	}
}

// taskMoved keeps a schedule's state when a task that it fired ends, or is replayed
// after its end.
func (a *apply) taskMoved(t *Task) {
	if t.FiredBy == ByBackfill {
		a.backfillMoved(ScheduleRef{t.Namespace, t.Schedule}, t.ID, t.State.Terminal(), t.State == job.Success)
	} else {
		a.fireMoved(ScheduleRef{t.Namespace, t.Schedule}, t.ID, t.State.Terminal(), t.State == job.Success,
			t.State == job.Failed || t.State == job.TimedOut)
	}
}

// runMoved is taskMoved for runs.
func (a *apply) runMoved(r *Run) {
	if r.Trigger.Kind == ByBackfill.String() {
		a.backfillMoved(ScheduleRef{r.Namespace, r.Trigger.Schedule}, r.ID, r.State.Terminal(), r.State == job.RunSuccess)
	} else {
		a.fireMoved(ScheduleRef{r.Namespace, r.Trigger.Schedule}, r.ID, r.State.Terminal(), r.State == job.RunSuccess,
			r.State == job.RunFailed || r.State == job.RunTimedOut)
	}
}

// fireMoved is taskMoved for tasks and runs alike.
func (a *apply) fireMoved(ref ScheduleRef, id job.ID, ended, success, failed bool) {
	h := a.schedule(ref)
	if h.st == nil || bytes.Compare(id[:], h.st.ID[:]) < 0 {
		return // of a schedule of that name that was deleted
	}
	st := h.st
	h.changed = true
	if !ended {
		st.Active++
		return
	}
	st.Active--
	if st.Latest == id {
		st.Latest = job.ID{}
	}
	switch {
	case success:
		st.Counts.Succeeded++
		st.Failures = 0
	case failed:
		st.Counts.Failed++
		st.Failures++
		if most := a.specOf(h).PauseAfterFailures; most > 0 && st.Failures >= most && st.Paused == nil {
			st.Paused = &Pause{At: a.now, Reason: "failures in a row: " + strconv.Itoa(st.Failures), Auto: true}
			a.newGeneration(h)
		}
	}
	if st.Queued > 0 {
		a.drainFires(h)
	}
	a.fillMore(h)
}
