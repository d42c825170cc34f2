package scheduler

import (
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// Breakers are state (fsm.Breaker); here is what they do. While one is open, tasks
// go to other workers, or wait where there is but one HTTP target. When its time
// has passed it is half open: one attempt goes through, and its end decides.
// Where all connected workers that fit are barred, those of workers are left aside,
// since nothing could be moved elsewhere.

// gate is a breaker that is not closed.
type gate struct {
	until int64
	half  bool        // until has passed, and was noticed
	probe fsm.TaskRef // the one that goes through while half open; zero: none yet
}

func (g *gate) shut(now int64) bool { return now < g.until || g.probe != fsm.TaskRef{} }

func workerGate(w string) fsm.BreakerKey {
	return fsm.BreakerKey{Kind: fsm.BreakerWorker, Worker: w}
}

func jobGate(w string, j jobKey) fsm.BreakerKey {
	return fsm.BreakerKey{Kind: fsm.BreakerWorkerJob, Worker: w, Namespace: j.namespace, Job: j.name}
}

// gatesOf are the breakers between a worker and tasks of a shape.
func gatesOf(w *workerState, s shape) []fsm.BreakerKey {
	return []fsm.BreakerKey{workerGate(w.name), jobGate(w.name, s.job)}
}

func targetGate(target string) fsm.BreakerKey {
	return fsm.BreakerKey{Kind: fsm.BreakerTarget, Target: target}
}

// readGates takes the breakers that are not closed from state.
func (l *loop) readGates(r fsm.Reader) {
	l.gates = map[fsm.BreakerKey]*gate{}
	for _, b := range fsm.ListBreakers(r) {
		if b.OpenUntil > 0 {
			l.gates[b.Key()] = &gate{until: b.OpenUntil}
		}
	}
}

// gated adds to a task's shape what breakers that are not closed know it by.
func (l *loop) gated(s shape, r fsm.Reader, t *fsm.Task, x *job.Executor) shape {
	if len(l.gates) == 0 {
		return s
	}
	key := jobOf(t)
	for k := range l.gates {
		if k.Kind == fsm.BreakerWorkerJob && k.Job == key.name && k.Namespace == key.namespace {
			s.job = key
		}
	}
	if s.offer != job.KindHTTP {
		return s
	}
	if target := l.targetOf(r, t, x); l.gates[targetGate(target)] != nil {
		s.target = target
	}
	return s
}

// free reports whether no breaker concerns the shape's tasks beside those of workers.
func (s shape) free() bool { return s.target == "" && s.job == jobKey{} }

// bars reports whether a breaker keeps tasks of the shape from the worker. With
// sure set also where only a probe may go.
func (l *loop) bars(w *workerState, s shape, sure bool) bool {
	if len(l.gates) == 0 {
		return false
	}
	now := l.cfg.Now()
	for _, k := range gatesOf(w, s) {
		if g := l.gates[k]; g != nil && (sure || g.shut(now)) {
			return true
		}
	}
	return false
}

// barsAll reports whether breakers keep tasks of the shape from every connected
// worker that fits.
func (l *loop) barsAll(s shape, p job.Priority) bool {
	if len(l.gates) == 0 {
		return false
	}
	needs := l.needs(s)
	for _, w := range l.workers {
		if w.present() && w.fits(s, needs, p) && !l.bars(w, s, false) {
			return false
		}
	}
	return true
}

// targetRoom is how many attempts may go to the shape's HTTP target.
func (l *loop) targetRoom(s shape, most int) int {
	if s.target == "" {
		return most
	}
	g := l.gates[targetGate(s.target)]
	switch {
	case g == nil:
		return most
	case g.shut(l.cfg.Now()):
		return 0
	}
	return min(most, 1)
}

// through notes that a task goes through breakers that are half open.
func (l *loop) through(w *workerState, s shape, ref fsm.TaskRef) {
	if len(l.gates) == 0 {
		return
	}
	now := l.cfg.Now()
	for _, k := range []fsm.BreakerKey{workerGate(w.name), jobGate(w.name, s.job), targetGate(s.target)} {
		if g := l.gates[k]; g != nil && !g.shut(now) {
			g.probe = ref
		}
	}
}

// passed notes that a task is with no worker any more.
func (l *loop) passed(ref fsm.TaskRef) {
	for _, g := range l.gates {
		if g.probe == ref {
			g.probe = fsm.TaskRef{}
			l.dirty = true
		}
	}
}

// onBreaker follows a breaker that opened or closed.
func (l *loop) onBreaker(b *fsm.Breaker) {
	k := b.Key()
	l.dirty = true
	was := l.gates[k] != nil
	if b.OpenUntil > 0 {
		l.gates[k] = &gate{until: b.OpenUntil}
	} else {
		delete(l.gates, k)
	}
	if b.OpenUntil > 0 && !was {
		l.revokeBarred(k)
	}
	switch k.Kind {
	case fsm.BreakerWorkerJob:
		if was != (b.OpenUntil > 0) {
			key := jobKey{k.Namespace, k.Job}
			l.reshape(func(q *queue, it *item) bool { return it.job == key })
			l.retryUnfit(func(u kind, _ job.Priority) bool { return u.job == key })
		}
	case fsm.BreakerTarget:
		if was != (b.OpenUntil > 0) {
			l.reshape(func(q *queue, _ *item) bool { return q.shape.offer == job.KindHTTP })
			l.retryTarget(k.Target)
		}
	}
}

// revokeBarred takes back what is armed at a worker and would run into a breaker
// that has opened.
func (l *loop) revokeBarred(k fsm.BreakerKey) {
	r, release := l.read()
	defer release()
	for _, w := range l.workers {
		if k.Worker != "" && k.Worker != w.name {
			continue
		}
		var armed []*active
		for ref, a := range w.active {
			if !a.armed || a.ref.Token.IsZero() {
				continue
			}
			if t, ok := fsm.GetTask(r, ref); ok && l.concerns(r, k, &t) {
				armed = append(armed, a)
			}
		}
		l.revoke(w, armed...)
	}
}

// concerns reports whether a task at the breaker's worker is one of those that it
// counts.
func (l *loop) concerns(r fsm.Reader, k fsm.BreakerKey, t *fsm.Task) bool {
	switch k.Kind {
	case fsm.BreakerWorkerJob:
		return jobOf(t) == jobKey{k.Namespace, k.Job}
	case fsm.BreakerTarget:
		_, x, _ := l.policy(r, t)
		return l.targetOf(r, t, &x) == k.Target
	}
	return true
}

// targetOf is where a task's request goes.
func (l *loop) targetOf(r fsm.Reader, t *fsm.Task, x *job.Executor) string {
	if t.Job != "" {
		return x.HTTP.Target()
	}
	if t.Offer != job.KindHTTP {
		return ""
	}
	body, _ := fsm.BodyOf(r, t)
	return body.Executor.HTTP.Target()
}

func (l *loop) retryTarget(target string) {
	l.retryUnfit(func(u kind, _ job.Priority) bool { return u.shape.target == target })
}

// watchGates notices breakers that have become half open.
func (l *loop) watchGates(now int64) {
	for k, g := range l.gates {
		if g.half || now < g.until {
			continue
		}
		g.half, l.dirty = true, true
		if k.Kind == fsm.BreakerTarget && !l.queues.holds(k.Target) {
			l.retryTarget(k.Target) // else the probe is in memory
		}
	}
}

// holds reports whether a task that goes to an HTTP target is queued.
func (q *readyQueues) holds(target string) bool {
	for _, p := range job.Priorities {
		for s := range q.byPriority[p] {
			if s.target == target {
				return true
			}
		}
	}
	return false
}

// reshape has the shapes of tasks that wait computed anew.
func (l *loop) reshape(which func(*queue, *item) bool) {
	for _, p := range job.Priorities {
		l.due.raise[p] = append(l.due.raise[p], l.queues.takeOut(p, which)...)
		upcoming := l.upcoming.takeOut(p, which)
		for _, it := range upcoming {
			l.due.wheel.Remove(it.handle)
		}
		l.due.early[p] = append(l.due.early[p], upcoming...)
	}
}

// ungated reports whether surely no breaker of a job or a target that isn't closed
// concerns the tasks.
func (l *loop) ungated(w *Wanted, offer string) bool {
	for k := range l.gates {
		if k.Kind == fsm.BreakerTarget && offer == job.KindHTTP ||
			k.Kind == fsm.BreakerWorkerJob && k.Job == w.Job && k.Namespace == w.Namespace {
			return false
		}
	}
	return true
}
