package scheduler

import (
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The bounds of broadcasts on their way.
const (
	maxBroadcasting = 4   // decided and proposed at once, and as many that go on
	maxEndParts     = 500 // parts ended by one command
)

// broadcastMemory is what the loop knows of broadcasts.
type broadcastMemory struct {
	deciding  int
	goingOn   bool
	endingNow bool
	binding   bool // some part was bound to its worker
}

// ofBroadcast completes the shape of a broadcast, or of a part of one.
func (l *loop) ofBroadcast(s shape, t *fsm.Task) shape {
	switch {
	case t.IsBroadcast():
		s.strategy, s.sticky, s.worker = job.Broadcast, false, ""
	case t.Bound() != "": // its worker did fit when it was chosen
		s.labels, s.worker, s.sticky = "", t.Bound(), true
		l.broadcasts.binding = true
	case s.strategy == job.Broadcast: // its job's route is another one since it was submitted
		s.strategy = ""
	}
	return s
}

// broadcast decides for the tasks of a queue at which workers each is to run: those
// that take work and fit now, whether or not they have a free slot. Where there is
// none the tasks wait.
func (l *loop) broadcast(q *queue) {
	workers := l.everyFitting(q)
	for len(workers) > 0 && q.Len() > 0 && l.broadcasts.deciding < maxBroadcasting {
		it := q.pop()
		it.assigning = true
		l.broadcasts.deciding++
		cmd := fsm.Broadcast{Term: l.term, Ref: it.ref, Version: it.version}
		if len(workers) > job.MaxBroadcast {
			cmd.Total = len(workers)
		} else {
			cmd.Workers = workers
		}
		l.cfg.Log.ProposeAsync(cmd, func(res fsm.Result, err error) {
			l.later(func(l *loop) {
				l.broadcasts.deciding--
				l.dirty = true
				if err != nil || res.Err != nil {
					r, release := l.read()
					l.reload(r, it.ref)
					release()
				}
				if err != nil {
					l.nextMatch = max(l.nextMatch, l.cfg.Mono()+assignPause)
				}
			})
		})
	}
}

func (l *loop) everyFitting(q *queue) (names []string) {
	needs := l.needs(q.shape)
	for name, w := range l.workers {
		if w.present() && w.connected() && w.fits(q.shape, needs, q.priority) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// onBroadcast forgets a task that has become others.
func (l *loop) onBroadcast(t *fsm.Task) {
	l.due.forget(t.Ref())
	if b := t.Extra.Broadcast; b.Made < b.Total {
		l.nextHouse = 0
	}
}

// tendBroadcasts goes on with those that have more parts than one command makes or
// cancels, and ends parts that wait for a worker which nobody knows any more.
func (l *loop) tendBroadcasts() {
	r, release := l.read()
	defer release()
	if refs := fsm.ListBroadcastActs(r, 1); len(refs) > 0 && !l.broadcasts.goingOn {
		l.broadcasts.goingOn = true
		l.cfg.Log.ProposeAsync(fsm.ContinueBroadcast{Ref: refs[0]}, func(_ fsm.Result, err error) {
			l.later(func(l *loop) {
				l.broadcasts.goingOn = false
				if err == nil {
					l.nextHouse = 0
				}
			})
		})
	}
	if l.broadcasts.binding && !l.broadcasts.endingNow {
		l.endOrphans(r)
	}
}

// endOrphans proposes to end parts whose worker was forgotten.
func (l *loop) endOrphans(r fsm.Reader) {
	cmd := fsm.EndParts{Term: l.term}
	for _, p := range job.Priorities {
		for _, q := range l.queues.heads(p) {
			if !q.shape.sticky || q.shape.worker == "" || l.workers[q.shape.worker] != nil {
				continue
			}
			if _, known := fsm.GetWorker(r, q.shape.worker); known {
				continue
			}
			for _, it := range q.items {
				if t, ok := fsm.GetTask(r, it.ref); ok && t.Bound() == q.shape.worker && len(cmd.Parts) < maxEndParts {
					cmd.Parts = append(cmd.Parts, fsm.TaskVersion{Ref: it.ref, Version: t.Version})
				}
			}
		}
	}
	if len(cmd.Parts) == 0 {
		return
	}
	l.broadcasts.endingNow = true
	l.cfg.Log.ProposeAsync(cmd, func(fsm.Result, error) {
		l.later(func(l *loop) {
			l.broadcasts.endingNow = false
			l.retryUnfit(func(k kind, _ job.Priority) bool { return k.shape.sticky }) // there may be more of them
		})
	})
}

// explainBound tells of a part that waits for its worker.
func explainBound(l *loop, q *asked) {
	name := q.task.Bound()
	w := l.workers[name]
	reason := job.Reason{Code: job.ReasonWorkersAway, Worker: name, Workers: 1}
	switch {
	case w == nil:
		reason.Text = "Its worker " + name + " was forgotten: it ends in a moment."
		reason.Next = "Nothing: wait a moment."
	case !w.present() || !w.connected():
		reason.Text = "It is the part of a broadcast for worker " + name + ", which " + w.absence() + ": it waits for that one."
		reason.Next = "Start the worker again, or resume it; for one that is gone for good 'axd worker forget " + name +
			"' ends its parts. A queue_timeout bounds such waits."
	default:
		if lacks := w.lacks(q.shape, l.needs(q.shape), q.task.Policy.Priority); len(lacks) > 0 {
			reason.Code = job.ReasonNoMatch
			reason.Text = "It is the part of a broadcast for worker " + name + ", which does not match any more: " + lacks[0] + " is missing."
			reason.Next = "Start the worker as it was, or cancel the task."
			break
		}
		if q.due() {
			l.explainSlots(q, []*workerState{w})
		}
		return
	}
	q.add(reason)
}
