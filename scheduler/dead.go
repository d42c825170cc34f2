package scheduler

import "github.com/axd-project/axd/fsm"

// actOnDead goes on with the acts on dead letters that state holds, one at a time,
// a part with each entry, so that they hold up nothing else.
func (l *loop) actOnDead() {
	if l.actingOnDead {
		return
	}
	r, release := l.cfg.State.Read()
	acts := fsm.ListDeadActs(r)
	release()
	if len(acts) == 0 {
		return
	}
	l.actingOnDead = true
	l.cfg.Log.ProposeAsync(fsm.ContinueDead{ID: acts[0].ID}, func(_ fsm.Result, err error) {
		l.later(func(l *loop) {
			l.actingOnDead = false
			if err == nil {
				l.nextHouse = 0
			}
		})
	})
}
