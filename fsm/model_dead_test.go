package fsm

import (
	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

func (t *mTask) dead() bool {
	return (t.state == job.Failed || t.state == job.TimedOut) && !t.discarded
}

func (m *model) deadLetters(c DeadLetters) mResult {
	var r mResult
	for _, id := range c.IDs {
		item := mResult{code: m.actOnDead(m.tasks[id], c.Replay)}
		r.items = append(r.items, item)
		r.changed = r.changed || item.code == ""
	}
	return r
}

func (m *model) actOnDead(t *mTask, replay bool) job.Code {
	switch {
	case t == nil:
		return job.CodeNotFound
	case !t.dead():
		return job.CodeConflict
	case !replay:
		t.discarded = true
		t.version++
		return ""
	case t.job != "" && m.jobs[t.job].version == 0:
		return job.CodeConflict
	}
	for _, other := range m.tasks {
		if t.unique != "" && other.unique == t.unique && !other.state.Terminal() {
			return job.CodeConflict
		}
	}
	if t.key != "" {
		k := m.keys[t.key]
		if k.id != t.id {
			if k.expiry > m.now {
				return job.CodeConflict
			}
			k.content = "\x00" // not known any more
		}
		t.keyExpiry = max(t.keyExpiry, m.now+24*3600*1000)
		m.keys[t.key] = mKey{t.id, k.content, t.keyExpiry}
	}
	t.state, t.ended, t.retries, t.tooLate, t.due = job.Pending, 0, 0, false, m.now
	t.queueBy, t.endBy = 0, 0
	t.limit(true)
	t.version++
	return ""
}

func (r *modelRun) deadLetters() Command {
	c := DeadLetters{Namespace: "default", Replay: rapid.IntRange(0, 3).Draw(r.t, "discard") > 0}
	for _, t := range r.model.sorted() {
		if t.dead() {
			c.IDs = append(c.IDs, t.id)
		}
	}
	if len(c.IDs) > 2 {
		c.IDs = c.IDs[:2]
	}
	c.IDs = append(c.IDs, r.task().ID)
	return c
}
