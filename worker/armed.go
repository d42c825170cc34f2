package worker

import (
	"container/heap"
	"time"

	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/rpc"
)

// maxArmed bounds the attempts that wait for their time; more are given back.
const maxArmed = 16_384

// armed holds attempts that wait for their due time. They take no slot. It
// belongs to the table's lock.
type armed struct {
	byTask map[taskKey]*attempt
	// current is by due time: when that is, the session's clock says ever better.
	current queue[*attempt]
	// pinned is by local instant, as an earlier session's clock said. What that
	// leader armed starts by its clock even while there is no leader.
	pinned queue[*attempt]
}

// wakes implements timed, for the queues of armed attempts.
func (a *attempt) wakes() time.Duration { return a.startKey }

func (a *attempt) moved(place int) { a.place = place }

func (s *armed) add(a *attempt) {
	s.byTask[keyOf(a.item.Ref)] = a
	a.startKey = a.due()
	if mutant.StartEarly {
		a.startKey -= 200 * time.Millisecond
	}
	heap.Push(&s.current, a)
}

func (s *armed) remove(a *attempt) {
	delete(s.byTask, keyOf(a.item.Ref))
	if a.pinned {
		heap.Remove(&s.pinned, a.place)
	} else {
		heap.Remove(&s.current, a.place)
	}
}

// pin fixes the local instants of all starts by what the clock says now.
func (s *armed) pin(when func(cluster time.Duration) time.Duration) {
	for _, a := range s.current {
		a.startKey, a.pinned = when(a.startKey), true
		heap.Push(&s.pinned, a)
	}
	clear(s.current)
	s.current = s.current[:0]
}

// take removes and returns an attempt whose time has come, nil where there is
// none.
func (s *armed) take(local, cluster time.Duration) *attempt {
	var a *attempt
	switch {
	case s.pinned.next() <= local:
		a = s.pinned[0]
	case s.current.next() <= cluster:
		a = s.current[0]
	default:
		return nil
	}
	s.remove(a)
	return a
}

// next is the local instant of the first start.
func (s *armed) next(when func(cluster time.Duration) time.Duration) time.Duration {
	at := s.pinned.next()
	if len(s.current) > 0 {
		at = min(at, when(s.current.next()))
	}
	return at
}

// takeDue takes the attempts whose time has come: those that find a free slot,
// with that slot, and those that don't.
func (t *table) takeDue(clock *clusterClock, local time.Duration) (start, full []*attempt) {
	cluster := clock.at(local)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.alarmAt = never // the alarm has gone off
	for {
		a := t.armed.take(local, cluster)
		if a == nil {
			return start, full
		}
		if !t.mayHold(a) {
			full = append(full, a)
			continue
		}
		t.hold(a)
		start = append(start, a)
	}
}

// disarm withdraws an attempt that waits for its time, or for an older one's end.
func (t *table) disarm(ref rpc.Ref) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := keyOf(ref)
	if a := t.armed.byTask[key]; a != nil && a.item.Ref.Token == ref.Token {
		t.armed.remove(a)
		a.hub.close()
		return true
	}
	if a := t.attempts[key]; a != nil && a.next != nil && a.next.item.Ref.Token == ref.Token {
		a.next.hub.close()
		a.next = nil
		return true
	}
	return false
}

// disarmAll withdraws all that wait for their time.
func (t *table) disarmAll() []*attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := append(append([]*attempt(nil), t.armed.current...), t.armed.pinned...)
	t.armed = newArmed()
	for _, a := range all {
		a.hub.close()
	}
	return all
}

func newArmed() armed { return armed{byTask: map[taskKey]*attempt{}} }

// pinStarts fixes when the armed attempts start, before the clock is reset.
func (t *table) pinStarts(clock *clusterClock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed.pin(clock.when)
}

// startArmed starts attempts at their time until the alarm is closed.
func (w *Worker) startArmed() {
	for w.alarm.wait() {
		start, full := w.table.takeDue(&w.clock, w.cfg.Clock())
		for _, a := range start {
			go w.runAttempt(a)
		}
		for _, a := range full {
			a.hub.close()
			w.giveBack(a.item.Ref, "no free slot")
		}
		w.setAlarm()
	}
}

const alarmSlack = 20 * time.Microsecond // a start that moves by less is not worth a system call

// setAlarm sets the alarm to the first start. It is called whenever that may
// have come nearer: by what was armed, or what is known of the clock. An alarm
// that is too early does no harm.
func (w *Worker) setAlarm() {
	t := &w.table
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.armed.next(w.clock.when)
	if next < t.alarmAt && (t.alarmAt == never || next < t.alarmAt-alarmSlack) {
		t.alarmAt = next
		w.alarm.set(next)
	}
}
