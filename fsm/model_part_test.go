package fsm

import (
	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// limit sets a task's deadlines; that for all attempts only with the first.
func (t *mTask) limit(first bool) {
	if t.queue != 0 {
		t.queueBy = t.due + t.queue
	}
	if t.total != 0 && first {
		t.endBy = t.due + t.total
	}
}

func (t *mTask) moveTo(due int64) {
	if due != 0 {
		t.due = due
		t.limit(t.attempt == 0)
	}
}

func (m *model) timeOut(c TimeOut) mResult {
	if int64(c.Term) != m.term {
		return refused(job.CodeStale)
	}
	var r mResult
	for _, item := range c.Tasks {
		t := m.tasks[item.Ref.ID]
		if t == nil || t.version != item.Version || t.state != job.Pending ||
			(t.queueBy == 0 || t.queueBy > m.now) && (t.endBy == 0 || t.endBy > m.now) {
			r.items = append(r.items, refused(job.CodeStale))
			continue
		}
		t.state, t.retry, t.ended = job.TimedOut, false, m.now
		t.version++
		r.items = append(r.items, mResult{})
	}
	return r
}

func (m *model) applyWorker(c Command) mResult {
	switch c := c.(type) {
	case RegisterWorker:
		old, known := m.workers[c.Name]
		w := mWorker{boot: c.Boot, slots: c.Slots, draining: old.draining}
		m.workers[c.Name] = w
		return mResult{changed: !known || old != w}
	case WorkerState:
		return m.changeWorker(c.Name, func(w *mWorker) { w.lost = !c.Alive })
	case DrainWorker:
		return m.changeWorker(c.Name, func(w *mWorker) { w.draining = !c.Resume })
	case ForgetWorker:
		w, ok := m.workers[c.Name]
		switch {
		case !ok:
			return refused(job.CodeNotFound)
		case !w.lost || m.held(c.Name) > 0:
			return refused(job.CodeConflict)
		}
		delete(m.workers, c.Name)
		return mResult{changed: true}
	}
	panic("no such verb in the model")
}

func (m *model) changeWorker(name string, change func(*mWorker)) mResult {
	w, ok := m.workers[name]
	if !ok {
		return refused(job.CodeNotFound)
	}
	before := w
	change(&w)
	m.workers[name] = w
	return mResult{changed: w != before}
}

func (m *model) held(worker string) (n int) {
	for _, t := range m.tasks {
		if t.state.Active() && t.worker == worker {
			n++
		}
	}
	return n
}

// drawnBy is a By whose command the model sees too.
type drawnBy struct {
	By
	inner Command
}

// sent has some of the acts sent by somebody.
func (r *modelRun) sent(c Command) Command {
	actor := rapid.SampledFrom([]string{"", "", "ann", "bob\x00"}).Draw(r.t, "actor")
	by, err := SentBy(actor, "", c)
	if err != nil {
		r.t.Fatal(err)
	}
	if by, ok := by.(By); ok {
		return drawnBy{by, c}
	}
	return c
}

// plainCommand is what the machine gets.
func plainCommand(c Command) Command {
	if by, ok := c.(drawnBy); ok {
		return by.By
	}
	return c
}
