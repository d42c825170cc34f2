package scheduler

import (
	"maps"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// run is an attempt that goes on, and must not beside another.
type run struct {
	by    *model
	token job.Token
	lease time.Time // that its worker has
}

// runs notes the start of an attempt, which no other one may outlast: an earlier
// one has ended, or its process or its lease.
func (c *cluster) runs(m *model, ref fsm.AttemptRef) {
	c.runningMu.Lock()
	defer c.runningMu.Unlock()
	is, ok := c.running[ref.Ref]
	if ok && is.token != ref.Token && is.lease.After(time.Now()) {
		c.t.Errorf("task %s starts on %s (%s) with token %s while it runs on %s (%s) with token %s, whose lease lasts %v",
			ref.Ref.ID, m.name, m.boot, ref.Token, is.by.name, is.by.boot, is.token, time.Until(is.lease))
	}
	if c.running == nil {
		c.running = map[fsm.TaskRef]run{}
	}
	c.running[ref.Ref] = run{m, ref.Token, m.lease}
}

// goesOn notes that a worker's lease was renewed. The worker's lock is held.
func (c *cluster) goesOn(m *model) {
	c.runningMu.Lock()
	defer c.runningMu.Unlock()
	for ref, is := range c.running {
		if is.by == m {
			is.lease = m.lease
			c.running[ref] = is
		}
	}
}

// ended notes that attempts of a worker run no more.
func (c *cluster) ended(m *model, which func(fsm.AttemptRef) bool) {
	c.runningMu.Lock()
	defer c.runningMu.Unlock()
	maps.DeleteFunc(c.running, func(ref fsm.TaskRef, is run) bool {
		return is.by == m && which(fsm.AttemptRef{Ref: ref, Token: is.token})
	})
}

func attemptOf(ref fsm.AttemptRef) func(fsm.AttemptRef) bool {
	return func(a fsm.AttemptRef) bool { return a == ref }
}

func everyAttempt(fsm.AttemptRef) bool { return true }

// neverGot undoes a dispatch, as if it had been lost on its way.
func (m *model) neverGot(ref fsm.AttemptRef) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.held, ref)
	m.c.ended(m, attemptOf(ref))
}
