package fsm

import (
	"maps"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// What a row of tableRelations says of a schedule.
const (
	relEvent         byte = 'e' // it waits for an event
	relFiresJob      byte = 'J' // it fires a job
	relFiresWorkflow byte = 'W' // it fires a workflow
	relJob           byte = 'j' // it waits for a job
	relWorkflow      byte = 'w' // it waits for a workflow
	relSchedule      byte = 's' // it waits for a schedule
)

// relNames are the nouns of what is waited for.
var relNames = map[byte]string{relJob: "job", relWorkflow: "workflow", relSchedule: "schedule"}

// relKinds are the kinds of what is waited for, by the nouns of job.Upstream.Object.
var relKinds = map[string]byte{"job": relJob, "workflow": relWorkflow, "schedule": relSchedule}

func (k key) relation(kind byte, namespace, name string) key {
	return k.table(tableRelations).u8(kind).name(namespace).name(name)
}

// relations are the rows of tableRelations that a schedule has; nil: none.
func relations(ref ScheduleRef, s *job.ScheduleSpec) map[string]upstream {
	rows := map[string]upstream{}
	add := func(kind byte, name string) {
		rows[string(key{}.relation(kind, ref.Namespace, name).name(ref.Name))] = upstream{kind, ref.Namespace, name}
	}
	if s == nil {
		return nil
	}
	if s.Event != nil {
		add(relEvent, s.Event.Name)
	}
	if s.Job != "" {
		add(relFiresJob, s.Job)
	}
	if s.Workflow != "" {
		add(relFiresWorkflow, s.Workflow)
	}
	if s.After != nil {
		for _, u := range s.After.All {
			add(upstreamOf(u))
		}
	}
	return rows
}

// firedBy refuses that what a schedule fires is deleted: at its next time there would
// be nothing to fire.
func (a *apply) firedBy(kind byte, what, namespace, name string) *job.Error {
	prefix := key{}.relation(kind, namespace, name)
	var err *job.Error
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		err = job.Conflict(what, "is fired by the schedule "+strconv.Quote(string(k[len(prefix):len(k)-1])), name)
		return false
	})
	return err
}

// relate moves a schedule's rows of tableRelations from what it was to what it is;
// nil: nothing.
func (a *apply) relate(ref ScheduleRef, was, is *job.ScheduleSpec) {
	old, rows := relations(ref, was), relations(ref, is)
	for _, k := range slices.Sorted(maps.Keys(old)) {
		if _, stays := rows[k]; !stays {
			a.delete(key(k))
			a.countAwaited(old[k], -1)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if _, had := old[k]; !had {
			a.set(key(k), nil)
			a.countAwaited(rows[k], +1)
		}
	}
}
