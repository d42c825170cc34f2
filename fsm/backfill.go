package fsm

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// Backfill fires past times of a schedule, a few at a time. The times that are left
// are rows of their own; what ends brings the next, so that no leader has to know.
type Backfill struct {
	Namespace string        `msgpack:"n"`
	Schedule  string        `msgpack:"N"`
	ID        job.ID        `msgpack:"i"`
	State     BackfillState `msgpack:"s"`
	From      int64         `msgpack:"f"`           // nominal times at or after, Unix ms
	To        int64         `msgpack:"t"`           // and before
	Newest    bool          `msgpack:"o,omitempty"` // the newest first
	Parallel  int           `msgpack:"p"`
	Wait      bool          `msgpack:"w,omitempty"` // only while nothing else of the schedule runs
	Which     BackfillWhich `msgpack:"W"`
	Priority  job.Priority  `msgpack:"P"`
	Created   int64         `msgpack:"c"`
	Ended     int64         `msgpack:"e,omitempty"`
	Actor     string        `msgpack:"a,omitempty"`

	Total     int `msgpack:"T"`           // times at the begin
	Left      int `msgpack:"l,omitempty"` // times to be looked at
	Active    int `msgpack:"A,omitempty"` // tasks that have not ended
	Fired     int `msgpack:"F,omitempty"`
	Present   int `msgpack:"r,omitempty"` // times that needed none
	Refused   int `msgpack:"R,omitempty"` // times whose task could not be made
	Succeeded int `msgpack:"S,omitempty"`
	Failed    int `msgpack:"x,omitempty"` // ended otherwise
}

// BackfillState is how far a backfill has come.
type BackfillState uint8

// The states of a backfill.
const (
	BackfillRunning   BackfillState = 1
	BackfillDone      BackfillState = 2
	BackfillCancelled BackfillState = 3
)

var backfillStates = []string{"", "running", "done", "cancelled"}

// String returns the API name.
func (s BackfillState) String() string { return backfillStates[min(int(s), len(backfillStates)-1)] }

// BackfillWhich tells which times a backfill fires.
type BackfillWhich uint8

// The choices of BackfillWhich.
const (
	FillMissing BackfillWhich = 1 // those that were not fired
	FillFailed  BackfillWhich = 2 // these, and those whose task did not succeed
	FillAll     BackfillWhich = 3
)

var backfillWhich = []string{"", "missing", "failed", "all"}

// String returns the API name.
func (w BackfillWhich) String() string { return backfillWhich[min(int(w), len(backfillWhich)-1)] }

// ParseBackfillWhich reads an API name.
func ParseBackfillWhich(s string) (BackfillWhich, bool) {
	i := slices.Index(backfillWhich, s)
	return BackfillWhich(max(i, 0)), i > 0 //nolint:gosec // an index of four
}

// PutBackfill begins a backfill. The planned times within the range come with it,
// since the state machine can't tell them, by a version of the schedule.
type PutBackfill struct {
	Namespace string        `msgpack:"n"`
	Schedule  string        `msgpack:"N"`
	Version   uint64        `msgpack:"v"` // of the schedule
	From      int64         `msgpack:"f"`
	To        int64         `msgpack:"t"`
	Times     []int64       `msgpack:"T"` // rising, at most MaxBackfillTimes
	Newest    bool          `msgpack:"o,omitempty"`
	Parallel  int           `msgpack:"p"`
	Wait      bool          `msgpack:"w,omitempty"`
	Which     BackfillWhich `msgpack:"W"`
	Priority  job.Priority  `msgpack:"P,omitempty"` // default: low
	Actor     string        `msgpack:"a,omitempty"`
}

// CancelBackfill ends a backfill; what it has fired goes on.
type CancelBackfill struct {
	Namespace string `msgpack:"n"`
	Schedule  string `msgpack:"N"`
	ID        job.ID `msgpack:"i"`
	Actor     string `msgpack:"a,omitempty"`
}

// Code is CodePutBackfill.
func (PutBackfill) Code() Code { return CodePutBackfill }

// Code is CodeCancelBackfill.
func (CancelBackfill) Code() Code { return CodeCancelBackfill }

// The limits of backfills.
const (
	MaxBackfillTimes          = 10_000
	MaxBackfillParallel       = 50
	MaxBackfills              = 20 // of a schedule that run
	maxBackfillLooks          = 200
	BackfillRetention   int64 = 90 * 24 * 3600 * 1000 // ms after the end
)

// The rows of tableBackfillAux.
const (
	backfillTime byte = 't' // namespace, schedule, id, place (8) → nominal time (8)
	backfillTask byte = 'k' // namespace, id of a task or run → id of its backfill (16)
	backfillAge  byte = 'g' // end (8), namespace, schedule, id → empty
)

func (k key) backfill(ref ScheduleRef, id job.ID) key {
	return k.table(tableBackfills).scheduleRef(ref).id(id)
}

func (k key) backfillTimes(ref ScheduleRef, id job.ID) key {
	return k.table(tableBackfillAux).u8(backfillTime).scheduleRef(ref).id(id)
}

func (k key) backfillTask(ref TaskRef) key {
	return k.table(tableBackfillAux).u8(backfillTask).ref(ref)
}

func (k key) backfillAge(b *Backfill) key {
	return k.table(tableBackfillAux).u8(backfillAge).time(b.Ended).scheduleRef(b.ref()).id(b.ID)
}

func (b *Backfill) ref() ScheduleRef { return ScheduleRef{b.Namespace, b.Schedule} }

// actRef is the name under which a ScheduleAct goes on with the backfill.
func (b *Backfill) actRef() ScheduleRef {
	return ScheduleRef{b.Namespace, b.Schedule + "/" + b.ID.String()}
}

// GetBackfill reads one backfill.
func GetBackfill(r Reader, ref ScheduleRef, id job.ID) (Backfill, bool) {
	return getRow[Backfill](r, key{}.backfill(ref, id))
}

// ListBackfills reads a page of a schedule's backfills, the oldest first.
func ListBackfills(r Reader, ref ScheduleRef, cursor string, limit int) ([]Backfill, string, error) {
	return listRows[Backfill](r, key{}.table(tableBackfills).scheduleRef(ref), cursor, limit)
}

// NeedsFill tells whether a backfill would fire a time.
func NeedsFill(r Reader, ref ScheduleRef, nominal int64, which BackfillWhich) bool {
	if which == FillAll {
		return true
	}
	for _, origin := range []FireOrigin{ByPlan, ByBackfill} {
		prefix := key{}.fires(ref)
		prefix = prefix.newest(FireKey{Nominal: nominal, Origin: origin})[:len(prefix)+8+1]
		var fired []Fire
		r.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
			var f Fire
			if err := decode(v, &f); err != nil {
				damaged(k)
			}
			if f.Verdict == VerdictFired || f.Verdict == VerdictWaiting {
				fired = append(fired, f)
			}
			return len(fired) < maxBackfillLooks
		})
		found := slices.ContainsFunc(fired, func(f Fire) bool {
			if which == FillMissing || f.Verdict == VerdictWaiting {
				return true
			}
			if !f.Run.IsZero() {
				run, kept := GetRun(r, RunRef{ref.Namespace, f.Run})
				return !kept || run.State == job.RunSuccess || !run.State.Terminal()
			}
			t, kept := GetTask(r, TaskRef{ref.Namespace, f.Task})
			return !kept || t.State == job.Success || !t.State.Terminal()
		})
		if found {
			return false
		}
	}
	return true
}

func (c *PutBackfill) validate() *job.Error {
	switch {
	case len(c.Times) == 0 || len(c.Times) > MaxBackfillTimes:
		return job.Invalid("from", "and to must hold 1 to "+strconv.Itoa(MaxBackfillTimes)+" times of the schedule", strconv.Itoa(len(c.Times)))
	case c.Parallel < 1 || c.Parallel > MaxBackfillParallel:
		return job.Invalid("parallel", "must be 1 to "+strconv.Itoa(MaxBackfillParallel), strconv.Itoa(c.Parallel))
	case c.Which < FillMissing || c.Which > FillAll:
		return job.Invalid("which", "must be missing, failed or all", strconv.Itoa(int(c.Which)))
	case c.Priority > job.Low:
		return job.Invalid("priority", "must be high, normal or low", c.Priority.String())
	}
	last := int64(-1)
	for _, t := range c.Times {
		if t <= last || t < c.From || t >= c.To {
			return job.Invalid("times", "must rise, within the range", strconv.FormatInt(t, 10))
		}
		last = t
	}
	return nil
}

func (a *apply) putBackfill(c *PutBackfill) Result {
	if err := c.validate(); err != nil {
		return rejected(err)
	}
	h := a.schedule(ScheduleRef{c.Namespace, c.Schedule})
	if h.st == nil {
		return rejected(job.NotFound("schedule", c.Schedule))
	}
	spec := a.specOf(h)
	switch {
	case spec.ReconcileURL != "":
		return rejected(job.Conflict("schedule", "compares a list (reconcile_url), which has no past times", c.Schedule))
	case h.def.Version != c.Version:
		return rejected(stale("version", "is not the schedule's: it was changed meanwhile", strconv.FormatUint(c.Version, 10)))
	case c.Times[len(c.Times)-1] > h.st.Cursor:
		return rejected(job.Invalid("to", "must not be after the times that have their verdict, the last of which is at or before "+
			job.FormatTime(h.st.Cursor), job.FormatTime(c.To)))
	case h.st.Backfills >= MaxBackfills:
		return rejected(job.Conflict("schedule", "has as many backfills that run as it may, "+strconv.Itoa(MaxBackfills), c.Schedule))
	}
	if err := c.Known(h.st); err != nil {
		return rejected(err)
	}
	b := &Backfill{
		Namespace: c.Namespace, Schedule: c.Schedule, ID: job.NewID(a.now, a.at.Index, a.next()), State: BackfillRunning,
		From: c.From, To: c.To, Newest: c.Newest, Parallel: c.Parallel, Wait: c.Wait, Which: c.Which, Priority: c.Priority,
		Created: a.now, Actor: plain(c.Actor, MaxActorBytes), Total: len(c.Times), Left: len(c.Times),
	}
	if b.Priority == 0 {
		b.Priority = job.Low
	}
	for i, t := range c.Times {
		place := uint64(i)
		if b.Newest {
			place = uint64(len(c.Times) - 1 - i) //nolint:gosec // an index
		}
		a.key = a.key.backfillTimes(b.ref(), b.ID).u64(place)
		a.set(a.key, key{}.time(t))
	}
	h.st.Backfills++
	h.changed = true
	a.fill(h, b)
	return Result{Changed: true, Backfill: b}
}

// fill fires the next times of a backfill, as many as may run, and keeps it.
func (a *apply) fill(h *heldSchedule, b *Backfill) {
	looked := 0
	for _, row := range a.timesLeft(b) {
		if b.Active >= b.Parallel || b.Wait && h.st.Active+h.st.Queued > 0 || looked == maxBackfillLooks {
			break
		}
		looked++
		a.delete(row.k)
		b.Left--
		if b.Which != FillAll && row.nominal <= h.st.Ledger.Dropped { // gone since it began
			b.Refused++
			continue
		}
		if !NeedsFill(a.tx, b.ref(), row.nominal, b.Which) {
			b.Present++
			continue
		}
		f := &Fire{
			Nominal: row.nominal, Due: a.now, Origin: ByBackfill, Seq: a.fireNumber(), Actor: "backfill " + b.ID.String(),
			Priority: b.Priority,
		}
		if err := a.beginFire(h, f); err != nil {
			a.refuseFire(h, f, err)
			b.Refused++
			continue
		}
		a.putFire(h, f)
		b.Fired++
		b.Active++
		a.key = a.key.backfillTask(TaskRef{b.Namespace, f.made()})
		a.set(a.key, b.ID[:])
	}
	a.key = a.key.scheduleAct(ActBackfill, b.actRef())
	if looked == maxBackfillLooks && b.Left > 0 && b.Active < b.Parallel {
		a.set(a.key, mustEncode(a.codec, &ScheduleAct{Kind: ActBackfill, Ref: b.actRef()}))
		a.event(Event{Kind: EventScheduleAct})
	} else if looked > 0 {
		if _, ok := a.tx.Get(a.key); ok {
			a.delete(a.key)
		}
	}
	if b.Left == 0 && b.Active == 0 && b.State == BackfillRunning {
		a.endBackfill(h, b, BackfillDone)
	}
	a.putBackfillRow(b)
}

// made is the task or run that a fire made.
func (f *Fire) made() job.ID {
	if f.Run.IsZero() {
		return f.Task
	}
	return f.Run
}

type timeLeft struct {
	k       key
	nominal int64
}

func (a *apply) timesLeft(b *Backfill) (rows []timeLeft) {
	if b.State != BackfillRunning {
		return nil
	}
	prefix := key{}.backfillTimes(b.ref(), b.ID)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		kv := keyReader{rest: v}
		rows = append(rows, timeLeft{bytes.Clone(k), kv.time()})
		return len(rows) < maxBackfillLooks
	})
	return rows
}

func (a *apply) putBackfillRow(b *Backfill) {
	a.key = a.key.backfill(b.ref(), b.ID)
	a.set(a.key, mustEncode(a.codec, b))
}

// endBackfill gives a backfill its last state; the caller keeps it. h is of its
// schedule, nil where that is gone.
func (a *apply) endBackfill(h *heldSchedule, b *Backfill, as BackfillState) {
	b.State, b.Ended = as, a.now
	a.key = a.key.backfillAge(b)
	a.set(a.key, nil)
	if h != nil && h.st != nil {
		h.st.Backfills--
		h.changed = true
	}
}

// backfillMoved follows a task or run of a backfill that ends, or that goes on after
// its end.
func (a *apply) backfillMoved(ref ScheduleRef, made job.ID, ended, success bool) {
	a.key = a.key.backfillTask(TaskRef{ref.Namespace, made})
	row, ok := a.tx.Get(a.key)
	if !ok || !ended {
		return // of an end that was counted before
	}
	id := job.ID(row)
	a.delete(a.key)
	a.key = a.key.backfill(ref, id)
	b, ok := stored[Backfill](a, a.key)
	if !ok {
		damaged(a.key)
	}
	b.Active--
	if success {
		b.Succeeded++
	} else {
		b.Failed++
	}
	h := a.schedule(ref)
	if h.st == nil {
		a.putBackfillRow(b)
		return
	}
	a.fill(h, b)
}

// fillMore lets the backfills of a schedule go on that wait for nothing else to run.
func (a *apply) fillMore(h *heldSchedule) {
	if h.st.Backfills == 0 || h.st.Active+h.st.Queued > 0 {
		return
	}
	list, _, _ := ListBackfills(a.tx, h.ref, "", MaxPage)
	for i := range list {
		if b := &list[i]; b.State == BackfillRunning && b.Wait {
			a.fill(h, b)
		}
	}
}

func (a *apply) cancelBackfill(c *CancelBackfill) Result {
	ref := ScheduleRef{c.Namespace, c.Schedule}
	a.key = a.key.backfill(ref, c.ID)
	b, ok := stored[Backfill](a, a.key)
	switch {
	case !ok:
		return rejected(job.NotFound("backfill", c.ID.String()))
	case b.State != BackfillRunning:
		return rejected(job.Conflict("backfill", "has ended: it is "+b.State.String(), c.ID.String()))
	}
	a.stopBackfill(a.schedule(ref), b)
	return Result{Changed: true, Backfill: b}
}

// stopBackfill cancels a backfill. The times that are left go part by part.
func (a *apply) stopBackfill(h *heldSchedule, b *Backfill) {
	a.endBackfill(h, b, BackfillCancelled)
	a.dropTimes(b)
	a.putBackfillRow(b)
}

// dropTimes deletes times that are left; where there are more, the act goes on.
func (a *apply) dropTimes(b *Backfill) {
	var found []key
	more := false
	prefix := key{}.backfillTimes(b.ref(), b.ID)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		if more = len(found) == maxFanOut/2; !more {
			found = append(found, bytes.Clone(k))
		}
		return !more
	})
	for _, k := range found {
		a.delete(k)
	}
	b.Left -= len(found)
	a.key = a.key.scheduleAct(ActBackfill, b.actRef())
	if more {
		a.set(a.key, mustEncode(a.codec, &ScheduleAct{Kind: ActBackfill, Ref: b.actRef()}))
		a.event(Event{Kind: EventScheduleAct})
	} else if _, ok := a.tx.Get(a.key); ok {
		a.delete(a.key)
	}
}

// goOnWithBackfill goes on with what one entry could not do.
func (a *apply) goOnWithBackfill(act ScheduleRef) (more bool) {
	at := max(len(act.Name)-27, 0)
	id, _ := job.ParseID(act.Name[min(at+1, len(act.Name)):])
	ref := ScheduleRef{act.Namespace, act.Name[:at]}
	a.key = a.key.backfill(ref, id)
	b, ok := stored[Backfill](a, a.key)
	if !ok {
		damaged(a.key)
	}
	if b.State == BackfillRunning {
		a.fill(a.schedule(ref), b)
	} else {
		a.dropTimes(b)
		a.putBackfillRow(b)
	}
	a.key = a.key.scheduleAct(ActBackfill, act)
	_, more = a.tx.Get(a.key)
	return more
}

// dropBackfills cancels the backfills of a schedule that is deleted.
func (a *apply) dropBackfills(h *heldSchedule) {
	if h.st.Backfills == 0 {
		return
	}
	list, _, _ := ListBackfills(a.tx, h.ref, "", MaxPage)
	for i := range list {
		if list[i].State == BackfillRunning {
			a.stopBackfill(h, &list[i])
		}
	}
}

// expireBackfills deletes backfills past their retention.
func (a *apply) expireBackfills(r *Result) {
	var found []key
	lo := key{tableBackfillAux, backfillAge}
	a.tx.Ascend(lo, key{}.table(tableBackfillAux).u8(backfillAge).time(a.now-BackfillRetention), func(k, _ []byte) bool {
		if len(found) == maxBackfillLooks {
			r.More = true
			return false
		}
		found = append(found, bytes.Clone(k))
		return true
	})
	for _, k := range found {
		kr := readKey(k)
		kr.u8()
		kr.time()
		ref, id := kr.scheduleRef(), kr.id()
		if b, ok := GetBackfill(a.tx, ref, id); !ok || b.Active > 0 || b.Left > 0 {
			continue // a task of it has not ended yet
		}
		a.delete(k)
		a.key = a.key.backfill(ref, id)
		a.delete(a.key)
		r.Deleted++
	}
}
