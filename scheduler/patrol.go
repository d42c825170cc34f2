package scheduler

import (
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The patrol compares what a worker declares regularly with what it should hold,
// and mends both ways: what it should hold and doesn't is sent again, and lost
// where that was in vain; what it holds and shouldn't is ended. A difference is
// mended only when nothing on its way between the two can explain it.
const (
	patrolMargin = 10 * time.Second // after a dispatch: the declaration may be older
	maxMend      = 500              // attempts mended after one declaration
)

// Declare tells what a worker says that it holds. The session must be its present one.
func (s *Scheduler) Declare(worker string, session Session, held []Held) {
	s.inbox.put(func(l *loop) {
		if w := l.workers[worker]; w != nil && w.session == session && !w.joining && !gone(session) {
			l.patrol(w, held)
		}
	})
}

// Mended returns how many differences the patrol has mended since the process began.
func (s *Scheduler) Mended() int64 { return s.mended.Load() }

func (l *loop) patrol(w *workerState, held []Held) {
	r, release := l.read()
	defer release()
	now, mono := l.cfg.Now(), l.cfg.Mono()
	known := make(map[fsm.AttemptRef]Held, len(held))
	for _, h := range held {
		known[h.AttemptRef] = h
	}
	var again []Dispatch
	var lost []fsm.AttemptRef
	for _, a := range w.active {
		h, ok := known[a.ref]
		delete(known, a.ref)
		switch {
		case ok:
			a.missing = 0
			a.declared(h, now)
		case a.ref.Token.IsZero() || a.losing || mono < a.sent+patrolMargin || len(again)+len(lost) == maxMend:
		case a.missing == 0:
			a.missing = mono
			if !a.running { // else it would start a second time with one token
				again = l.appendDispatch(again, r, a.ref.Ref, a.ref.Token)
			}
		case mono >= a.missing+patrolMargin:
			if t, ok := fsm.GetTask(r, a.ref.Ref); ok && t.Token == a.ref.Token {
				a.losing = true
				lost = append(lost, a.ref)
			}
		}
	}
	for _, a := range w.earlier { // their lease ends them
		if h, ok := known[a.ref]; ok && h.adopted(a) {
			l.adopt(r, w, a, now)
			l.remind(r, w, a)
		}
		delete(known, a.ref)
	}
	stale := l.endStale(r, w, known)
	l.send(w, again)
	for i := range again { // the wish may be older than the dispatch
		if a := w.active[again[i].Task.Ref()]; a != nil {
			l.remind(r, w, a)
		}
	}
	l.proposeLost(w, lost, nil, "worker "+w.name+" said twice that it does not hold it")
	if n := len(again) + len(lost) + stale; n > 0 {
		l.mended.Add(int64(n))
		l.log.Warn("a worker holds other attempts than it should; mended", "worker", w.name,
			"sent_again", len(again), "lost", len(lost), "ended", stale)
	}
}

// endStale tells a worker to end what it holds that is no longer valid. What state
// knows to be its own is taken back into memory.
func (l *loop) endStale(r fsm.Reader, w *workerState, known map[fsm.AttemptRef]Held) (ended int) {
	for ref, h := range known {
		if h.Finished {
			continue // its result is on the way, and is refused if it is stale
		}
		if ended == maxMend {
			return ended
		}
		t, ok := fsm.GetTask(r, ref.Ref)
		if ok && t.Token == ref.Token && t.State.Active() {
			if at, ok := fsm.GetAttempt(r, ref.Ref, t.Attempt); ok && t.Worker == w.name && at.Boot == w.boot && w.active[ref.Ref] == nil {
				w.hold(&active{
					ref: ref, attempt: t.Attempt, boot: at.Boot, due: t.Due, running: t.State == job.Running, priority: t.Policy.Priority,
				}, l.cfg.Now())
			}
			continue
		}
		ended++
		l.kill(w, &active{ref: ref, attempt: h.Attempt}, KillStale)
	}
	return ended
}
