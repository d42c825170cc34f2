package scheduler

import "time"

// endDrains asks workers that drain, and whose deadline has come, to give back what
// still runs. That spends no retry.
func (l *loop) endDrains(now int64, mono time.Duration) {
	for _, w := range l.workers {
		if w.drainBy == 0 || now < w.drainBy || !w.connected() {
			continue
		}
		n := 0
		for _, a := range w.active {
			if a.armed || a.ref.Token.IsZero() || mono < a.drained {
				continue
			}
			a.drained = mono + backstopRepeat
			l.kill(w, a, KillDrained)
			n++
		}
		if n > 0 {
			l.log.Info("the deadline of a drain has come; what still runs is given back", "worker", w.name, "attempts", n)
		}
	}
}
