package scheduler

import (
	"fmt"

	"github.com/axd-project/axd/job"
)

// explainPriority tells what keeps a due task of low or normal priority from slots
// that are free.
func explainPriority(l *loop, q *asked) {
	p := q.task.Policy.Priority
	if !q.due() || p == job.High {
		return
	}
	if p == job.Low && l.lowSuspended.Load() {
		q.add(job.Reason{
			Code: job.ReasonLowSuspended, Since: l.busySince,
			Text: fmt.Sprintf("Low priority is suspended: more than %d %% of the slots, but for free ones kept for high priority, have been taken for %d s.", busyShare, busyAfter/1000),
			Next: "Wait until slots are free, or raise it: 'axd task reschedule $ID --priority normal'.",
		})
	}
	if l.anyUsable() && (l.lesserRoom() <= 0 || l.keptFrom(q)) {
		q.add(job.Reason{
			Code: job.ReasonSlotsReserved,
			Text: fmt.Sprintf("The slots that are free are kept for high priority: %d %% of all.", l.settings.HighSlotsOrDefault()),
			Next: "Wait, start more workers, or change the share: 'axd cluster set --high-slots'.",
		})
	}
}

// keptFrom reports whether workers that match have free slots, and keep all of them.
func (l *loop) keptFrom(q *asked) bool {
	p := q.task.Policy.Priority
	if l.lends(p) {
		return false
	}
	usable := 0
	for _, w := range l.matching(q.shape, p).fit {
		if w.usable() {
			usable++
			if w.shares(p) {
				return false
			}
		}
	}
	return usable > 0
}
