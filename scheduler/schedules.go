package scheduler

import (
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/wheel"
)

// The bounds of what the loop does for schedules.
const (
	maxSchedules   = 50_000 // held in memory, with their next times
	maxScanFires   = 2000   // rows of the index of next times read per turn
	maxFire        = 500    // schedules in one proposal
	maxFiring      = 4      // proposals in flight
	maxCounted     = 20_000 // times of one schedule that one proposal counts
	maxCountedTurn = 50_000 // times that one turn counts
	maxPlans       = 1 << 15
)

// nextFire is a schedule whose next time is near, or not known yet.
type nextFire struct {
	ref    fsm.ScheduleRef
	at     int64 // when it is due, Unix ms; 0: at once
	handle wheel.Handle
	ready  bool // listed in fireWindow.ready
	gone   bool
}

// fireWindow is the near future of the schedules, as dueWindow is that of tasks: what
// lies before the frontier is in memory, the rest is left in the index.
type fireWindow struct {
	horizon   int64
	wheel     *wheel.Wheel[*nextFire]
	known     map[fsm.ScheduleRef]*nextFire
	frontier  fsm.ScheduleDue
	ready     []*nextFire // to be looked at
	plans     map[fsm.ScheduleRef]knownPlan
	calendars map[fsm.ScheduleRef]sharedCalendar
	firing    int   // proposals in flight
	retryAt   int64 // not before: a proposal failed
	acting    bool  // a part of an act is proposed
	joining   bool  // what waits for upstreams is judged or given up
	counted   int   // times counted in this turn
}

// knownPlan is the plan of a schedule's generation.
type knownPlan struct {
	generation uint64
	plan       *job.Plan
	err        *job.Error
}

func newFireWindow(now, horizon int64) fireWindow {
	return fireWindow{
		horizon: horizon, wheel: wheel.New[*nextFire](now),
		known: map[fsm.ScheduleRef]*nextFire{}, plans: map[fsm.ScheduleRef]knownPlan{}, calendars: map[fsm.ScheduleRef]sharedCalendar{},
	}
}

// next is when a schedule is to be looked at.
func (w *fireWindow) next() (int64, bool) {
	if len(w.ready) > 0 && w.firing < maxFiring {
		return w.retryAt, true
	}
	return w.wheel.Next()
}

func (w *fireWindow) insert(n *nextFire) {
	w.known[n.ref] = n
	if n.at == 0 {
		w.raise(n)
		return
	}
	n.handle = w.wheel.Add(w.leadAt(n.at), n)
}

// leadAt is when a schedule is to be looked at: a horizon before its time or a step
// earlier, so that many are fired together.
func (w *fireWindow) leadAt(at int64) int64 {
	at -= w.horizon
	return at - at%(w.horizon/armSteps+1)
}

func (w *fireWindow) raise(n *nextFire) {
	if !n.gone && !n.ready {
		n.ready = true
		w.ready = append(w.ready, n)
	}
}

func (w *fireWindow) forget(ref fsm.ScheduleRef) {
	n := w.known[ref]
	if n == nil {
		return
	}
	delete(w.known, ref)
	n.gone = true
	w.wheel.Remove(n.handle)
}

// add takes a schedule into memory if its next time is before the frontier and there
// is room.
func (w *fireWindow) add(ref fsm.ScheduleRef, at int64) {
	w.forget(ref)
	due := fsm.ScheduleDue{At: at, Ref: ref}
	if due.Compare(w.frontier) >= 0 {
		return
	}
	if len(w.known) >= maxSchedules {
		w.frontier = due
		return
	}
	w.insert(&nextFire{ref: ref, at: at})
}

// onSchedule follows a schedule's change.
func (l *loop) onSchedule(e *fsm.ScheduleEvent) {
	if !e.Waits {
		l.fires.forget(e.Ref)
		delete(l.fires.plans, e.Ref)
		return
	}
	l.fires.add(e.Ref, e.At)
}

// reloadSchedule places a schedule by its state.
func (l *loop) reloadSchedule(r fsm.Reader, ref fsm.ScheduleRef) {
	st, ok := fsm.GetScheduleState(r, ref)
	at, waits := st.DueAt()
	if !ok || !waits {
		l.fires.forget(ref)
		return
	}
	l.fires.add(ref, at)
}

// fillFires scans the index of next times where the frontier is less than half a
// window ahead and there is room. It reports whether more is to be scanned.
func (l *loop) fillFires(now int64) (more bool) {
	w := &l.fires
	ahead := now + w.horizon + window
	if len(w.known) > maxSchedules/2 || w.frontier.At > ahead-window/2 {
		return false
	}
	r, release := l.cfg.State.Read()
	defer release()
	rows := fsm.ScanScheduleDue(r, w.frontier, ahead, maxScanFires)
	for _, row := range rows {
		if w.known[row.Ref] == nil {
			w.insert(&nextFire{ref: row.Ref, at: row.At})
		}
	}
	if len(rows) < maxScanFires {
		w.frontier = fsm.ScheduleDue{At: ahead}
		return false
	}
	w.frontier = rows[len(rows)-1]
	w.frontier.Ref.Name += "\x00" // the smallest after it
	return true
}

// fire looks at the schedules whose time is near and proposes what becomes of their
// times. It reports whether it is to be called again at once.
func (l *loop) fire(now int64) (more bool) {
	w := &l.fires
	w.wheel.Advance(now, func(_ int64, n *nextFire) { w.raise(n) })
	if len(w.ready) == 0 || w.firing >= maxFiring || now < w.retryAt {
		return false
	}
	r, release := l.cfg.State.Read()
	defer release()
	w.counted = 0
	var items []fsm.FireItem
	var asked []*nextFire
	taken := 0
	for _, n := range w.ready {
		if len(items) == maxFire || w.counted >= maxCountedTurn {
			break
		}
		taken++
		n.ready = false
		if n.gone {
			continue
		}
		if it, ok := l.judge(r, n, now); ok {
			items = append(items, it)
			asked = append(asked, n)
		}
	}
	w.ready = w.ready[taken:]
	if len(w.ready) == 0 {
		w.ready = nil
	}
	if len(items) > 0 {
		w.firing++
		l.cfg.Log.ProposeAsync(fsm.FireSchedules{Term: l.term, Items: items}, func(res fsm.Result, err error) {
			l.later(func(l *loop) { l.fired(asked, &res, err) })
		})
	}
	return len(w.ready) > 0 && w.firing < maxFiring
}

// fired takes the answer to a proposal. What was fired has been told of by its event,
// or is placed by its state, as is what was refused.
func (l *loop) fired(asked []*nextFire, res *fsm.Result, err error) {
	w := &l.fires
	w.firing--
	if err != nil {
		w.retryAt = l.cfg.Now() + assignPause.Milliseconds()
	}
	r, release := l.read()
	defer release()
	for i, n := range asked {
		if n.gone {
			continue
		}
		if err == nil && i < len(res.Attempts) && res.Attempts[i] != nil {
			l.log.Debug("a fire was refused", "schedule", n.ref.Name, "error", res.Attempts[i])
		}
		l.reloadSchedule(r, n.ref)
	}
}

// judge says what becomes of a schedule's next times; false: nothing is to be said
// now.
func (l *loop) judge(r fsm.Reader, n *nextFire, now int64) (fsm.FireItem, bool) {
	w := &l.fires
	s, st, ok := fsm.GetSchedule(r, n.ref)
	if _, waits := st.DueAt(); !ok || !waits {
		w.forget(n.ref)
		return fsm.FireItem{}, false
	}
	f := firing{
		spec: &s.Spec, st: &st, now: now, horizon: w.horizon + w.horizon/armSteps + 1,
		it: fsm.FireItem{Ref: n.ref, Generation: st.Generation, Cursor: st.Cursor},
	}
	known := l.plan(r, &s, &st)
	if known.err != nil {
		l.log.Warn("a schedule's times can't be told; it fires by hand alone", "namespace", s.Namespace, "schedule", s.Name, "error", known.err)
		f.it.Broken = known.err.Error()
		return f.it, true
	}
	f.plan, f.delay = known.plan, known.plan.Delay().Milliseconds()
	if s.Spec.After != nil {
		f.joins = l.newJoining(r, &s, f.plan)
	}
	f.decide()
	w.counted += f.counted
	if f.again == 0 {
		return f.it, true
	}
	n.handle = w.wheel.Add(max(f.again, now+1), n)
	return fsm.FireItem{}, false
}

// plan returns the plan of a schedule.
func (l *loop) plan(r fsm.Reader, s *fsm.Schedule, st *fsm.ScheduleState) knownPlan {
	known, ok := l.fires.plans[s.Ref()]
	if ok && known.generation == st.Generation {
		return known
	}
	plan, err := job.NewPlan(&s.Spec, job.PlanFor{
		Namespace: s.Namespace, Name: s.Name, Created: job.Timestamp(s.Created).Std(), Calendar: l.calendars(r, s.Namespace),
	})
	if len(l.fires.plans) >= maxPlans {
		clear(l.fires.plans)
	}
	known = knownPlan{generation: st.Generation, plan: plan, err: err}
	l.fires.plans[s.Ref()] = known
	return known
}

// actOnSchedules goes on with the acts on schedules that state holds, one at a time.
func (l *loop) actOnSchedules() {
	if l.fires.acting {
		return
	}
	r, release := l.cfg.State.Read()
	acts := fsm.ListScheduleActs(r, 1)
	var judged []fsm.Judged
	if len(acts) > 0 {
		judged = judgeEvent(r, acts[0])
	}
	release()
	if len(acts) == 0 {
		return
	}
	l.fires.acting = true
	l.cfg.Log.ProposeAsync(fsm.ContinueSchedules{Kind: acts[0].Kind, Ref: acts[0].Ref, Judged: judged}, func(_ fsm.Result, err error) {
		l.later(func(l *loop) {
			l.fires.acting = false
			if err == nil {
				l.nextHouse = 0
			}
		})
	})
}
