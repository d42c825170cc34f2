package fsm

import (
	"bytes"
	"fmt"

	"github.com/axd-project/axd/job"
)

// upstream names what schedules wait for.
type upstream struct {
	kind            byte
	namespace, name string
}

func (u upstream) label() string { return relNames[u.kind] + " " + u.name }

// upstreamOf takes an upstream apart.
func upstreamOf(u job.Upstream) (kind byte, name string) {
	noun, name := u.Object()
	return relKinds[noun], name
}

func awaitable(kind byte) bool { return kind == relJob || kind == relWorkflow || kind == relSchedule }

// readAwaited reads what is waited for. It is a part of what is defined, so all of it
// is held, and the end of a task that nobody waits for costs a look at a map.
func (m *Machine) readAwaited(r Reader) {
	m.awaited, m.dependencies = map[upstream]int{}, 0
	for _, kind := range []byte{relJob, relSchedule, relWorkflow} {
		p := key{tableRelations, kind}
		r.Ascend(p, prefixEnd(p), func(k, _ []byte) bool {
			kr := readKey(k)
			kr.u8()
			m.awaited[upstream{kind, kr.name(), kr.name()}]++
			m.dependencies++
			return true
		})
	}
}

func (a *apply) countAwaited(u upstream, n int) {
	if !awaitable(u.kind) {
		return
	}
	a.dependencies += n
	if a.awaited[u] += n; a.awaited[u] == 0 {
		delete(a.awaited, u)
	}
}

// The classes of a success.
const (
	donePlanned byte = 0 // of a schedule's planned time
	doneOther   byte = 1 // of any other: it is kept by the quarter of an hour
)

// doneStep is how apart, in ms, the successes lie that are not of planned times: all
// periods begin at a multiple of it.
const doneStep int64 = 15 * 60 * 1000

// The rows of tableDone.
const (
	doneTime byte = 'd' // kind, namespace, name, class, nominal time (8) → when (8)
	doneAge  byte = 'a' // when (8), then as doneTime → empty
)

func (k key) done(u upstream) key {
	return k.table(tableDone).u8(doneTime).u8(u.kind).name(u.namespace).name(u.name)
}

// doneAgeOf is the row by age of a row of doneTime.
func doneAgeOf(at int64, done key) key {
	return append(key{}.table(tableDone).u8(doneAge).time(at), done[2:]...)
}

// countDone counts the times within a period at which an upstream has succeeded, up
// to as many as are needed.
func countDone(r Reader, u upstream, p *JoinPart, from, to int64) (n int) {
	for _, class := range []byte{donePlanned, doneOther} {
		if class == doneOther && p.Planned || n >= p.Need {
			break
		}
		prefix := key{}.done(u).u8(class)
		r.Ascend(key(bytes.Clone(prefix)).time(from), key(bytes.Clone(prefix)).time(to), func(_, _ []byte) bool {
			n++
			return n < p.Need
		})
	}
	return n
}

// keepDone keeps that an upstream has succeeded at a time; false: that was known.
func (a *apply) keepDone(u upstream, nominal int64, planned bool) bool {
	class := donePlanned
	if !planned {
		class, nominal = doneOther, nominal-nominal%doneStep
	}
	k := key{}.done(u).u8(class).time(nominal)
	if _, ok := a.tx.Get(k); ok {
		return false
	}
	a.set(k, key{}.time(a.now))
	a.set(doneAgeOf(a.now, k), nil)
	a.addCounter(key{}.counter(countDones), +1)
	return true
}

// taskSucceeded tells what waits for a task's success.
func (a *apply) taskSucceeded(t *Task) {
	if _, part := t.Parent(); part {
		return // its broadcast has not
	}
	if u := (upstream{relJob, t.Namespace, t.Job}); a.awaited[u] > 0 {
		a.succeeded(u, a.nominalOf(t), false)
	}
	if u := (upstream{relSchedule, t.Namespace, t.Schedule}); a.awaited[u] > 0 {
		a.succeeded(u, t.Nominal, t.FiredBy.planned())
	}
}

// nominalOf is the time that a task counts for: that of the schedule that fired it or
// its run, else when the one or the other was created.
func (a *apply) nominalOf(t *Task) int64 {
	if t.Schedule != "" {
		return t.Nominal
	}
	if !t.Run.IsZero() {
		if h, ok := a.heldRun(t.RunRef()); ok {
			return h.nominal()
		}
	}
	return t.Created
}

func (r *Run) nominal() int64 {
	if r.Trigger.Nominal != 0 {
		return r.Trigger.Nominal
	}
	return r.Created
}

// planned tells whether a fire of this origin is for a planned time.
func (o FireOrigin) planned() bool { return o == ByPlan || o == ByBackfill }

// runSucceeded is taskSucceeded for runs.
func (a *apply) runSucceeded(r *Run) {
	if u := (upstream{relWorkflow, r.Namespace, r.Workflow}); a.awaited[u] > 0 {
		a.succeeded(u, r.nominal(), false)
	}
	if u := (upstream{relSchedule, r.Namespace, r.Trigger.Schedule}); a.awaited[u] > 0 {
		a.succeeded(u, r.nominal(), r.Trigger.Kind == triggerKind(ByPlan) || r.Trigger.Kind == triggerKind(ByBackfill))
	}
}

// succeeded keeps that an upstream has succeeded at a time, and fires what waited for
// nothing else.
func (a *apply) succeeded(u upstream, nominal int64, planned bool) {
	if !a.keepDone(u, nominal, planned) {
		return
	}
	budget := maxJoinFires
	for _, name := range dependents(a.tx, u, MaxDependents) {
		h := a.schedule(ScheduleRef{u.namespace, name})
		if h.st == nil || h.st.Waiting == 0 || h.st.Rejudge {
			continue
		}
		j, ok := FindJoin(a.tx, h.ref, nominal)
		switch {
		case !ok || !j.count(u, planned):
		case j.Complete():
			budget = a.release(h, &j, u.label(), budget)
		default:
			a.putJoin(&j)
		}
	}
}

// count adds a success to those that count for it, and tells whether there is one.
func (j *Join) count(u upstream, planned bool) (counted bool) {
	for i := range j.Parts {
		p := &j.Parts[i]
		if p.Kind == u.kind && p.Name == u.name && (planned || !p.Planned) && p.Got < p.Need {
			p.Got++
			counted = true
		}
	}
	return counted
}

// dependents reads the schedules that wait for an upstream.
func dependents(r Reader, u upstream, limit int) (names []string) {
	prefix := key{}.relation(u.kind, u.namespace, u.name)
	r.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		names = append(names, string(k[len(prefix):len(k)-1]))
		return len(names) < limit
	})
	return names
}

// notWaitedFor refuses to delete what a schedule waits for.
func (a *apply) notWaitedFor(kind byte, namespace, name string) *job.Error {
	u := upstream{kind, namespace, name}
	if a.awaited[u] == 0 {
		return nil
	}
	return job.Conflict(relNames[kind], fmt.Sprintf("is what schedule %q waits for", dependents(a.tx, u, 1)[0]), name)
}

// expireDone deletes the successes that are older than any period, and as many as
// there are beyond MaxDone.
func (a *apply) expireDone(r *Result) {
	counter := key{}.counter(countDones)
	over := a.counter(counter).value - MaxDone
	var found []key
	before := key{}.table(tableDone).u8(doneAge).time(a.now - DoneRetention)
	prefix := key{tableDone, doneAge}
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		if bytes.Compare(k, before) >= 0 && int64(len(found)) >= over {
			return false
		}
		if len(found) == maxOldDone {
			r.More = true
			return false
		}
		found = append(found, bytes.Clone(k))
		return true
	})
	for _, k := range found {
		a.delete(k)
		a.delete(append(key{tableDone, doneTime}, k[2+8:]...))
	}
	if len(found) > 0 {
		a.addCounter(counter, -int64(len(found)))
		r.Deleted += len(found)
	}
}
