package fsm

import (
	"maps"
	"slices"

	"github.com/axd-project/axd/job"
)

// What a row of tableRelations says of a schedule.
const (
	relEvent byte = 'e' // it waits for an event
)

func (k key) relation(kind byte, namespace, name string) key {
	return k.table(tableRelations).u8(kind).name(namespace).name(name)
}

// relations are the rows of tableRelations that a schedule has; nil: none.
func relations(ref ScheduleRef, s *job.ScheduleSpec) map[string]bool {
	rows := map[string]bool{}
	add := func(kind byte, name string) {
		rows[string(key{}.relation(kind, ref.Namespace, name).name(ref.Name))] = true
	}
	switch {
	case s == nil:
		return nil
	case s.Event != nil:
		add(relEvent, s.Event.Name)
	}
	return rows
}

// relate moves a schedule's rows of tableRelations from what it was to what it is;
// nil: nothing.
func (a *apply) relate(ref ScheduleRef, was, is *job.ScheduleSpec) {
	old, rows := relations(ref, was), relations(ref, is)
	for _, k := range slices.Sorted(maps.Keys(old)) {
		if _, stays := rows[k]; !stays {
			a.delete(key(k))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if _, had := old[k]; !had {
			a.set(key(k), nil)
		}
	}
}
