package fsm

import (
	"fmt"
	"strconv"

	"github.com/axd-project/axd/job"
)

// A schedule that didn't fire where it should have raises an alert, one for each
// schedule, until it fires again or somebody has seen it.

// AlertUnfired is the kind of alert: condition: a schedule missed times, or could not
// make what it fires. The subject is its namespace and name.
const AlertUnfired = "schedule_unfired"

// The limits of these alerts.
const (
	// maxUnfiredAlerts is how many schedules have an alert of their own; the others share one.
	maxUnfiredAlerts = 100
	// keptUnfiredAlerts is how many there are besides, whose cause is gone.
	keptUnfiredAlerts = 200
	// othersUnfired is the subject of the one that is shared; no schedule is called so.
	othersUnfired = "others"
)

// countUnfired counts the schedules whose last time was not fired; see tableCounters.
const countUnfired byte = 'M'

// CountUnfired returns how many schedules should have fired last and did not.
func CountUnfired(r Reader) int64 { return readCounter(r, key{}.counter(countUnfired)) }

// unfired tells whether a verdict means that nothing was fired though it should have been.
func (f *Fire) unfired() bool {
	switch f.Verdict {
	case VerdictMissed:
		return f.Why != WhyEdited
	case VerdictSkipped:
		return f.Why == WhyRefused || f.Why == WhyFilter
	}
	return false
}

// toldOf keeps what a schedule's verdict says of how it fares.
func (a *apply) toldOf(h *heldSchedule, f *Fire) {
	switch {
	case f.unfired():
		a.didNotFire(h, f.Number(), f.describe())
	case f.Verdict == VerdictFired && f.Origin != ByBackfill:
		a.firedAgain(h)
	}
}

// describe says in words what became of times that were not fired.
func (f *Fire) describe() string {
	switch {
	case f.Verdict == VerdictSkipped:
		return "the time " + job.FormatTime(f.Nominal) + " was skipped, " + f.Why + ": " + f.Error
	case f.Span() && f.Count != 1:
		times := strconv.FormatInt(f.Count, 10) + " times"
		if f.Count == 0 {
			times = "the times"
		}
		return times + " from " + job.FormatTime(f.Nominal) + " to " + job.FormatTime(f.Until) + " were missed: " + f.Why
	}
	why := f.Why
	if f.Error != "" {
		why += ": " + f.Error
	}
	return "the time " + job.FormatTime(f.Nominal) + " was missed: " + why
}

// didNotFire notes that times of a schedule were not fired, and raises the alert.
func (a *apply) didNotFire(h *heldSchedule, times int64, why string) {
	st := h.st
	h.changed = true
	counter := key{}.counter(countUnfired)
	if st.Unfired == 0 {
		a.addCounter(counter, +1)
	}
	st.Unfired += times
	n := a.counter(counter).value
	switch {
	case st.Alerted:
	case n > maxUnfiredAlerts:
		if t, ok := a.alert(AlertUnfired, othersUnfired); !ok || t.State != AlertOpen {
			a.raiseAlert(AlertUnfired, othersUnfired, fmt.Sprintf("more than %d schedules did not fire as they should have: "+
				"'axd schedule list' shows them, axd_schedules_unfired counts them", maxUnfiredAlerts))
		}
		return
	default:
		st.Alerted = true
		a.roomForUnfired()
	}
	a.raiseAlert(AlertUnfired, h.ref.subject(), why)
}

// firedAgain ends what didNotFire began.
func (a *apply) firedAgain(h *heldSchedule) {
	st := h.st
	if st.Unfired == 0 {
		return
	}
	h.changed = true
	counter := key{}.counter(countUnfired)
	a.addCounter(counter, -1)
	if st.Alerted {
		a.resolveAlert(AlertUnfired, h.ref.subject())
	}
	st.Unfired, st.Alerted = 0, false
	if a.counter(counter).value == maxUnfiredAlerts {
		a.resolveAlert(AlertUnfired, othersUnfired)
	}
}

// subject is what an alert calls the schedule.
func (r ScheduleRef) subject() string { return r.Namespace + "/" + r.Name }

// roomForUnfired deletes the one of these alerts that changed first among those whose
// cause is gone, if there are many: they must not push out others.
func (a *apply) roomForUnfired() {
	n, oldest := 0, Alert{}
	prefix := key{tableAlerts}.name(AlertUnfired)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, v []byte) bool {
		var t Alert
		mustDecode(a.codec, k, v, &t)
		n++
		if t.State == AlertResolved && (oldest.Kind == "" || t.Changed < oldest.Changed) {
			oldest = t
		}
		return true
	})
	if n >= maxUnfiredAlerts+keptUnfiredAlerts && oldest.Kind != "" {
		a.key = a.key.alertAge(oldest.Changed, oldest.Kind, oldest.Subject)
		a.delete(a.key)
		a.key = a.key.alert(oldest.Kind, oldest.Subject)
		a.delete(a.key)
	}
}
