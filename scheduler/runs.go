package scheduler

import "github.com/axd-project/axd/fsm"

// The limits of what is proposed for runs at a time.
const (
	maxContinuing  = 16     // runs continued at once, an entry each
	maxOrigins     = 1000   // runs whose origin is remembered
	maxOwing       = 1000   // runs that wait for it in memory; state knows the others
	maxLateRuns    = 100    // runs past their time-out in one look
	lateRunsMargin = 60_000 // ms that the clock of an entry may be behind the leader's
)

// runMemory is what the leader knows of runs: those that owe work.
type runMemory struct {
	owing      map[fsm.RunRef]bool // true: told of again while it was continued
	continuing map[fsm.RunRef]bool
	queue      []fsm.RunRef // of owing, those that wait
	late       map[fsm.RunRef]bool
	lateFrom   int64 // no time-out that has passed is open before it
	origins    map[fsm.RunRef]runOrigin
}

// runOrigin is what fired a run, and for which time. It never changes, so that each
// step that is handed out need not read its run.
type runOrigin struct {
	schedule string
	nominal  int64
}

func newRunMemory() runMemory {
	return runMemory{
		owing: map[fsm.RunRef]bool{}, continuing: map[fsm.RunRef]bool{}, late: map[fsm.RunRef]bool{}, origins: map[fsm.RunRef]runOrigin{},
	}
}

// originOf reads what fired a run, or remembers it of the runs of late.
func (m *runMemory) originOf(r fsm.Reader, ref fsm.RunRef) runOrigin {
	if o, ok := m.origins[ref]; ok {
		return o
	}
	run, ok := fsm.GetRun(r, ref)
	if !ok {
		return runOrigin{}
	}
	if len(m.origins) >= maxOrigins {
		clear(m.origins)
	}
	o := runOrigin{run.Trigger.Schedule, run.Trigger.Nominal}
	m.origins[ref] = o
	return o
}

// continueRun has a run do what it owes: now, or when fewer others do.
func (l *loop) continueRun(ref fsm.RunRef) {
	m := &l.runs
	switch {
	case m.continuing[ref]:
		m.owing[ref] = true
		return
	case m.owing[ref], len(m.queue) >= maxOwing:
		return
	case len(m.continuing) >= maxContinuing:
		m.owing[ref] = true
		m.queue = append(m.queue, ref)
		return
	}
	delete(m.owing, ref)
	m.continuing[ref] = true
	l.cfg.Log.ProposeAsync(fsm.ContinueRun{Ref: ref}, func(res fsm.Result, err error) {
		l.later(func(l *loop) { l.continued(ref, res.More, err) })
	})
}

// continued goes on with the run, or with those that wait. After an error the next
// look at state finds what is left.
func (l *loop) continued(ref fsm.RunRef, more bool, err error) {
	m := &l.runs
	more = err == nil && (more || m.owing[ref])
	delete(m.owing, ref)
	delete(m.continuing, ref)
	if more {
		m.queue = append(m.queue, ref)
	}
	for len(m.queue) > 0 && len(m.continuing) < maxContinuing {
		next := m.queue[0]
		m.queue = m.queue[1:]
		delete(m.owing, next)
		l.continueRun(next)
	}
}

// tendRuns looks in state for runs that owe work, since a hint may have been lost,
// and for those whose time-out has passed.
func (l *loop) tendRuns(now int64) {
	r, release := l.cfg.State.Read()
	owing := fsm.ListOwingRuns(r, maxOwing)
	late := fsm.ListLateRuns(r, l.runs.lateFrom, now, maxLateRuns)
	release()
	for _, ref := range owing {
		l.continueRun(ref)
	}
	if len(late) == 0 {
		l.runs.lateFrom = now - lateRunsMargin
	}
	for _, ref := range late {
		if l.runs.late[ref] {
			continue
		}
		l.runs.late[ref] = true
		l.cfg.Log.ProposeAsync(fsm.TimeOutRun{Term: l.term, Ref: ref}, func(fsm.Result, error) {
			l.later(func(l *loop) { delete(l.runs.late, ref) })
		})
	}
}
