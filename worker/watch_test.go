package worker

import (
	"testing"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// notedAlarm is an alarm that a test reads.
type notedAlarm struct{ at time.Duration }

func (a *notedAlarm) set(at time.Duration) { a.at = at }
func (a *notedAlarm) wait() bool           { return false }
func (a *notedAlarm) close()               {}

func TestWatchLooksWhenSomethingIsDue(t *testing.T) {
	t.Parallel()
	const s = time.Second
	alarm := &notedAlarm{at: never}
	w := watch{alarm: alarm, alarmAt: never}
	var l lease
	l.renew(100*s, 10*s) // its second half begins at 105 s
	run := func(timeout, grace time.Duration, change ...func(*attempt)) *attempt {
		a := &attempt{executor: job.Executor{Handler: "h"}, item: rpc.DispatchItem{
			GraceMS: grace.Milliseconds(),
		}, limit: timeLimit{timeout: timeout}}
		for _, set := range change {
			set(a)
		}
		return a
	}
	short, timed, plain := run(0, 2*s), run(3*s, 2*s), run(0, 4*s)
	goesOn := run(0, 2*s, func(a *attempt) { a.item.Continue = true })
	command := run(3*s, 2*s, func(a *attempt) { a.executor = job.Executor{Exec: &job.Exec{}} })
	total := run(3*s, 2*s, func(a *attempt) { a.limit.total = true })
	beats := run(0, 2*s, func(a *attempt) { a.item.HeartbeatMS = 1500 })
	for _, a := range []*attempt{total, beats} {
		w.add(a, 90*s, &l)
	}
	beats.beat.Store(int64(91 * s))
	if _, stop := w.look(91*s+500*time.Millisecond, &l); len(stop) != 0 || alarm.at != 92500*time.Millisecond {
		t.Errorf("stopped %v although it beats, next look at %v", stop, alarm.at)
	}
	if _, stop := w.look(93*s, &l); len(stop) != 2 || stop[0].reason == stop[1].reason {
		t.Errorf("stopped %v", stop)
	}
	if total.watched.stopped, beats.watched.stopped = true, true; w.queue.next() != never {
		t.Errorf("a second look at %v", w.queue.next())
	}
	w.remove(total)
	w.remove(beats)
	for _, a := range []*attempt{short, timed, plain, goesOn, command} {
		w.add(a, 100*s, &l)
	}
	w.remove(short)
	w.remove(short) // does no harm
	type result struct {
		tell int
		stop []stopping
		next time.Duration
	}
	for _, c := range []struct {
		now  time.Duration
		want result
	}{
		{100*s + 100*time.Millisecond, result{next: 100*s + startedDelay}},
		{100*s + startedDelay, result{tell: 4, next: 103 * s}},
		{103 * s, result{stop: []stopping{{timed, stopTimeout}}, next: 105 * s}},
		{105 * s, result{next: 106 * s}}, // plain, with a grace of 4 s
		{106 * s, result{stop: []stopping{{plain, stopLease}}, next: never}},
		{200 * s, result{next: never}}, // commands and those that go on are not its to stop
	} {
		tell, stop := w.look(c.now, &l)
		if len(tell) != c.want.tell || len(stop) != len(c.want.stop) || alarm.at != c.want.next && (c.want.next != never || w.alarmAt != never) {
			t.Errorf("at %v: %d told, stopped %v, next look at %v", c.now, len(tell), stop, alarm.at)
		}
		for i := range stop {
			if stop[i] != c.want.stop[i] {
				t.Errorf("at %v: stopped for %q", c.now, stop[i].reason)
			}
		}
	}
	for _, a := range []*attempt{timed, plain, goesOn, command} {
		w.remove(a)
	}
	if len(w.queue) != 0 {
		t.Errorf("%d are still watched", len(w.queue))
	}
}
