package fsm

import (
	"strconv"

	"github.com/axd-project/axd/job"
)

// ScheduleActKind tells what a ScheduleAct does.
type ScheduleActKind uint8

// The acts. Values are part of the key format: append, never reuse.
const (
	// ActDropQueue gives the times that waited for a schedule which was deleted their
	// verdict. Until it has ended no schedule of that name can be made.
	ActDropQueue ScheduleActKind = 1
	// ActReplan has the schedules planned anew that name a calendar, since it has
	// changed; Ref is the calendar's.
	ActReplan ScheduleActKind = 2
	// ActEvent asks further schedules for an event; see SentEvent.actRef.
	ActEvent ScheduleActKind = 3
	// ActBackfill goes on with a backfill, or drops the times of one that was
	// cancelled; see Backfill.actRef.
	ActBackfill ScheduleActKind = 4
	// ActRelease fires further times of a schedule that wait for upstreams no more.
	ActRelease ScheduleActKind = 5
)

// ScheduleAct is a change to many rows that goes on, entry by entry. It is kept in
// state, so it outlives every leader.
type ScheduleAct struct {
	Kind  ScheduleActKind `msgpack:"k"`
	Ref   ScheduleRef     `msgpack:"r"`           // what it is about
	After string          `msgpack:"a,omitempty"` // of ActReplan: up to which schedule it has come
}

func (k key) scheduleAct(kind ScheduleActKind, r ScheduleRef) key {
	return k.table(tableScheduleActs).u8(byte(kind)).scheduleRef(r)
}

// ListScheduleActs reads the first of the acts that go on.
func ListScheduleActs(r Reader, limit int) []ScheduleAct {
	acts, _, _ := listRows[ScheduleAct](r, key{tableScheduleActs}, "", limit)
	return acts
}

// continueSchedules goes on with an act; the leader asks for it.
func (a *apply) continueSchedules(c *ContinueSchedules) Result {
	a.key = a.key.scheduleAct(c.Kind, c.Ref)
	act, ok := stored[ScheduleAct](a, a.key)
	if !ok {
		return rejected(job.NotFound("act", c.Ref.Name))
	}
	switch c.Kind {
	case ActDropQueue:
		return Result{More: a.dropQueue(c.Ref)}
	case ActReplan:
		return Result{More: a.replan(c.Ref, act.After)}
	case ActEvent:
		return Result{More: a.goOnWithEvent(c.Ref, c.Judged)}
	case ActBackfill:
		return Result{More: a.goOnWithBackfill(c.Ref)}
	case ActRelease:
		return Result{More: a.releaseMore(c.Ref)}
	default:
		return rejected(job.Invalid("kind", "is not known", strconv.Itoa(int(c.Kind))))
	}
}

// dropQueue gives a part of the times that wait their verdict, since their schedule
// is deleted, and keeps the act as long as there are more.
func (a *apply) dropQueue(ref ScheduleRef) (more bool) {
	var found []FireKey
	prefix := key{}.fireQueue(ref)
	a.tx.Ascend(prefix, prefixEnd(prefix), func(k, _ []byte) bool {
		if more = len(found) == maxQueueRows; more {
			return false
		}
		found = append(found, readKey(k[len(prefix)-1:]).fireKey())
		return true
	})
	for _, at := range found {
		f := a.fireAt(ref, at)
		a.dequeueFire(f)
		f.Verdict, f.Why = VerdictSkipped, WhyDeleted
		a.writeFire(f)
	}
	a.key = a.key.scheduleAct(ActDropQueue, ref)
	if more {
		a.set(a.key, mustEncode(a.codec, &ScheduleAct{Kind: ActDropQueue, Ref: ref}))
	} else {
		a.delete(a.key)
	}
	return more
}
