package fsm

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// The limits of schedules and of their ledgers.
const (
	MaxSchedules        = 1_000_000             // of a namespace
	FireRetention int64 = 90 * 24 * 3600 * 1000 // ms
	maxQueueRows        = 300                   // waiting times that one command drops
)

// heldSchedule is a schedule that an entry has looked at. What changes of its state
// is written once, when the entry ends, so that what follows from what sees it.
type heldSchedule struct {
	ref     ScheduleRef
	def     *Schedule      // nil: not read yet
	st      *ScheduleState // nil: there is none
	due     int64          // when its row of tableScheduleDue says; -1: it has none
	changed bool
	told    uint64 // generation that the leader knows
}

// DueAt is when the leader is to look at the schedule; false: it waits for no time.
func (st *ScheduleState) DueAt() (int64, bool) {
	switch {
	case st.Paused != nil || st.Broken != "":
		return 0, false
	case !st.Planned:
		return 0, true
	}
	return st.NextAt, st.Next != 0
}

// schedule returns what the entry knows of a schedule.
func (a *apply) schedule(ref ScheduleRef) *heldSchedule {
	if h, ok := a.schedules[ref]; ok {
		return h
	}
	h := &heldSchedule{ref: ref, due: -1}
	a.key = a.key.scheduleState(ref)
	if st, ok := stored[ScheduleState](a, a.key); ok {
		h.st, h.told = st, st.Generation
		if at, waits := st.DueAt(); waits {
			h.due = at
		}
	}
	if a.schedules == nil {
		a.schedules = map[ScheduleRef]*heldSchedule{}
	}
	a.schedules[ref] = h
	return h
}

// specOf reads what a schedule that exists is defined as; nobody changes it.
func (a *apply) specOf(h *heldSchedule) *job.ScheduleSpec {
	if h.def == nil {
		a.key = a.key.schedule(h.ref)
		def, ok := stored[Schedule](a, a.key)
		if !ok {
			damaged(a.key)
		}
		h.def = def
	}
	return &h.def.Spec
}

// flushSchedules writes the schedules that the entry changed, by their names.
func (a *apply) flushSchedules() {
	if a.schedules == nil {
		return
	}
	refs := slices.SortedFunc(maps.Keys(a.schedules), ScheduleRef.Compare)
	for _, ref := range refs {
		if h := a.schedules[ref]; h.changed {
			a.flushSchedule(h)
		}
	}
}

func (a *apply) flushSchedule(h *heldSchedule) {
	due := int64(-1)
	e := ScheduleEvent{Ref: h.ref}
	a.key = a.key.scheduleState(h.ref)
	if h.st == nil {
		a.delete(a.key)
	} else {
		a.set(a.key, mustEncode(a.codec, h.st))
		if e.At, e.Waits = h.st.DueAt(); e.Waits {
			due = e.At
		}
	}
	if h.st != nil && h.st.Generation == h.told && due == h.due {
		return
	}
	if h.due >= 0 && due != h.due {
		a.key = a.key.scheduleDue(h.due, h.ref)
		a.delete(a.key)
	}
	if due >= 0 && due != h.due {
		a.key = a.key.scheduleDue(due, h.ref)
		a.set(a.key, nil)
	}
	a.event(Event{Kind: EventSchedule, Schedule: &e})
}

// Compare orders names.
func (r ScheduleRef) Compare(o ScheduleRef) int {
	return cmp.Or(cmp.Compare(r.Namespace, o.Namespace), cmp.Compare(r.Name, o.Name))
}

func (a *apply) putSchedule(c *PutSchedule) Result {
	if err := checkNames(c.Namespace, "name", c.Name); err != nil {
		return rejected(err)
	}
	if err := c.Spec.Validate(); err != nil {
		return rejected(err)
	}
	if c.FileSet != "" {
		if err := job.ValidateName("file_set", c.FileSet); err != nil {
			return rejected(err)
		}
	}
	if err := a.checkTarget(c.Namespace, &c.Spec); err != nil {
		return rejected(err)
	}
	if err := a.checkCalendars(c.Namespace, c.Spec.Calendars); err != nil {
		return rejected(err)
	}
	if err := a.checkAfter(ScheduleRef{c.Namespace, c.Name}, &c.Spec); err != nil {
		return rejected(err)
	}
	h := a.schedule(ScheduleRef{c.Namespace, c.Name})
	at := int64(c.Spec.At)
	if h.st == nil {
		if at != 0 && at <= a.now {
			return rejected(pastAt(c.Spec.At))
		}
		return a.createSchedule(h, c)
	}
	old := a.specOf(h)
	spec := bytes.Clone(mustEncode(a.codec, &c.Spec))
	if bytes.Equal(spec, mustEncode(a.codec, old)) {
		if c.FileSet != "" && c.FileSet != h.def.FileSet {
			def := *h.def
			def.FileSet = c.FileSet
			a.putDefinition(h, &def)
		}
		return Result{Version: h.def.Version}
	}
	if at != 0 && at <= a.now && c.Spec.At != old.At {
		return rejected(pastAt(c.Spec.At))
	}
	a.leaveTimes(h, WhyEdited)
	a.changeWaits(h, old, &c.Spec)
	def := *h.def
	def.Version, def.Spec, def.Updated, def.FileSet = def.Version+1, c.Spec, a.now, cmp.Or(c.FileSet, def.FileSet)
	st := h.st
	st.Planned, st.Next, st.NextAt, st.Broken, st.GapTo, st.MissedTo = false, 0, 0, "", 0, 0
	a.newGeneration(h)
	a.useCalendars(h.ref, old.Calendars, def.Spec.Calendars)
	a.relate(h.ref, old, &c.Spec)
	a.putDefinition(h, &def)
	a.rejudgeDependents(h.ref)
	return Result{Version: def.Version, Changed: true}
}

func pastAt(at job.Timestamp) *job.Error {
	return job.Invalid("at", "must lie in the future", at.String())
}

// checkTarget refuses what could never be fired.
func (a *apply) checkTarget(namespace string, s *job.ScheduleSpec) *job.Error {
	if s.Workflow != "" {
		w, ok := a.workflow(namespace, s.Workflow)
		if !ok || w.Deleted {
			return job.NotFound("workflow", s.Workflow)
		}
		_, err := resolvedParams(&a.graph(namespace, s.Workflow, w.Version).spec, s.Params.JSON())
		return err
	}
	if s.ReconcileURL != "" {
		return a.namesSecret(namespace, "reconcile_secret", s.ReconcileSecret)
	}
	if _, ok := a.job(namespace, s.Job); !ok {
		return job.NotFound("job", s.Job)
	}
	return nil
}

func (a *apply) createSchedule(h *heldSchedule, c *PutSchedule) Result {
	counter := key{}.counter(countSchedules).name(c.Namespace)
	if n := a.counter(counter).value; n >= MaxSchedules {
		return rejected(&job.Error{
			Code: job.CodeQuotaExceeded, Field: "namespace", Value: job.Shorten(c.Namespace),
			Rule: "has as many schedules as it may, " + strconv.Itoa(MaxSchedules),
		})
	}
	a.key = a.key.scheduleAct(ActDropQueue, h.ref)
	if _, ok := a.tx.Get(a.key); ok {
		return rejected(job.Conflict("name", "is that of a schedule whose deletion goes on: try again in a moment", c.Name))
	}
	id := job.NewID(a.now, a.at.Index, a.next())
	from := a.now
	if c.Spec.ByPeriod() {
		from = max(a.now-maxPeriod, 0) // its first period is the present one: see job.Plan
	}
	h.st = &ScheduleState{ID: id, Cursor: a.firedAhead(h.ref, from)}
	a.newGeneration(h)
	a.useCalendars(h.ref, nil, c.Spec.Calendars)
	a.addCounter(counter, +1)
	a.addCounter(key{}.counter(countSchedules).name(""), +1)
	a.relate(h.ref, nil, &c.Spec)
	a.putDefinition(h, &Schedule{
		Namespace: c.Namespace, Name: c.Name, ID: id, Version: 1, Spec: c.Spec, Created: a.now, Updated: a.now, FileSet: c.FileSet,
	})
	return Result{Version: 1, Changed: true}
}

// firedAhead is a time, or the last one after it that a schedule of this name which
// was deleted since has fired: it must not be fired twice.
func (a *apply) firedAhead(ref ScheduleRef, last int64) int64 {
	prefix := key{}.fires(ref)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		last = max(last, readKey(k[len(prefix)-1:]).newest().Nominal)
		return false
	})
	return last
}

func (a *apply) putDefinition(h *heldSchedule, def *Schedule) {
	h.def = def
	a.key = a.key.schedule(h.ref)
	a.set(a.key, mustEncode(a.codec, def))
}

// newGeneration makes what a leader decided by the state before count no more.
func (a *apply) newGeneration(h *heldSchedule) {
	h.st.Generation = max(h.st.Generation+1, a.at.Index)
	h.changed = true
}

// leaveTimes moves the cursor to now. Where a planned time lies before, or nobody has
// said whether one does, it and what may follow it get one verdict that nobody has
// counted.
func (a *apply) leaveTimes(h *heldSchedule, why string) {
	st := h.st
	f := &Fire{Nominal: max(st.Next, st.Cursor+1), Until: a.now, Verdict: VerdictMissed, Why: why}
	switch {
	case st.Planned && st.Next == 0, !st.Planned && !a.specOf(h).Timed(): // there is none
		f.Nominal = a.now + 1
	case st.Paused != nil || st.GapTo > st.Cursor:
		f.Verdict, f.Why = VerdictSkipped, WhyPaused
	case !st.Planned:
		f.Verdict = VerdictSkipped
	}
	if f.Nominal <= f.Until {
		a.putFire(h, f)
	}
	st.Cursor = max(st.Cursor, a.now)
}

func (a *apply) deleteSchedule(c *DeleteSchedule) Result {
	h := a.schedule(ScheduleRef{c.Namespace, c.Name})
	if h.st == nil {
		return rejected(job.NotFound("schedule", c.Name))
	}
	if err := a.notWaitedFor(relSchedule, c.Namespace, c.Name); err != nil {
		return rejected(err)
	}
	if h.st.Queued > 0 {
		a.dropQueue(h.ref)
	}
	a.dropWaits(h, VerdictSkipped, WhyDeleted)
	a.useCalendars(h.ref, a.specOf(h).Calendars, nil)
	a.relate(h.ref, a.specOf(h), nil)
	a.dropBackfills(h)
	a.key = a.key.schedule(h.ref)
	a.delete(a.key)
	a.addCounter(key{}.counter(countSchedules).name(c.Namespace), -1)
	a.addCounter(key{}.counter(countSchedules).name(""), -1)
	a.firedAgain(h)
	h.st, h.def, h.changed = nil, nil, true
	return Result{Changed: true}
}

func (a *apply) pauseSchedule(c *PauseSchedule) Result {
	h := a.schedule(ScheduleRef{c.Namespace, c.Name})
	if h.st == nil {
		return rejected(job.NotFound("schedule", c.Name))
	}
	st := h.st
	if !c.Resume {
		if st.Paused != nil {
			return rejected(job.Conflict("schedule", "is paused already", c.Name))
		}
		st.Paused = &Pause{At: a.now, Reason: cut(c.Reason), Actor: c.Actor}
		a.newGeneration(h)
		return Result{Changed: true}
	}
	if st.Paused == nil && st.Broken == "" {
		return rejected(job.Conflict("schedule", "is not paused", c.Name))
	}
	if st.Paused != nil {
		st.GapTo = a.now
	}
	st.Paused, st.Broken, st.Failures = nil, "", 0
	st.Planned, st.Next, st.NextAt, st.MissedTo = false, 0, 0, 0
	a.newGeneration(h)
	return Result{Changed: true}
}

func (a *apply) triggerSchedule(c *TriggerSchedule) Result {
	h := a.schedule(ScheduleRef{c.Namespace, c.Name})
	if h.st == nil {
		return rejected(job.NotFound("schedule", c.Name))
	}
	spec := a.specOf(h)
	if spec.Job != "" && len(c.Params) > 0 {
		return rejected(&job.Error{Code: job.CodeInvalid, Field: "params", Rule: "must not be given for a job, which takes a payload"})
	}
	if spec.ReconcileURL != "" && len(c.Payload)+len(c.Params) > 0 {
		return rejected(&job.Error{Code: job.CodeInvalid, Field: "payload", Rule: "and params must not be given for a schedule that compares a list"})
	}
	if spec.Workflow != "" && len(c.Payload) > 0 {
		return rejected(&job.Error{Code: job.CodeInvalid, Field: "payload", Rule: "must not be given for a workflow, which takes params"})
	}
	if len(c.Payload) > job.MaxPayload {
		return rejected(job.Invalid("payload", "must be at most "+strconv.Itoa(job.MaxPayload)+" bytes", strconv.Itoa(len(c.Payload))))
	}
	if len(c.Params) > 0 {
		params := maps.Clone(spec.Params)
		if params == nil {
			params = job.Values{}
		}
		maps.Copy(params, c.Params)
		c.Payload = params.JSON()
	}
	f := &Fire{Nominal: a.now, Origin: ByHand, Seq: a.fireNumber(), Actor: c.Actor, Payload: c.Payload}
	if a.decideFire(h, f); f.Verdict == VerdictSkipped || f.Verdict == VerdictMerged {
		return rejected(job.Conflict("schedule", "is not fired: what it fired before has not ended, and its overlap is "+
			string(spec.OverlapOrDefault()), c.Name))
	}
	if err := a.fire(h, f); err != nil {
		return rejected(err)
	}
	if f.Verdict == VerdictQueued { // and begun since, where it has cancelled another
		f = a.fireAt(h.ref, f.Key())
	}
	return Result{Changed: true, Fire: f}
}

// fireNumber tells apart what isn't planned: it rises with the log.
func (a *apply) fireNumber() uint64 { return a.at.Index<<20 | uint64(a.next()&(1<<20-1)) }
