package chaos

import (
	"slices"
	"time"
)

const (
	// aftermath is for how long a fault may be felt after its end: a leader is elected,
	// workers declare themselves, leases end, and what waited meanwhile is done.
	aftermath = 30 * time.Second

	// lateLimit is how late a task may start while nothing is wrong and slots are free,
	// one in a hundred excepted. What is armed starts when it is due, and what is due at
	// once takes a commit and two messages: 3 ms here, at the most.
	lateLimit = 50 * time.Millisecond
	// freeSlots of all workers leave room for every priority.
	freeSlots = 8
	// promptLimit is how late the first try of a callback may come, likewise: a read of
	// what is owed and a message.
	promptLimit = time.Second
	leastJudged = 100 // tasks, for one in a hundred to mean anything
)

// outside are the kinds of fault that neither tasks nor other receivers of callbacks may feel.
var outside = []Kind{SlowCallbacks}

// calm tells whether nothing was wrong between two moments that may have been felt.
func (c *check) calm(from, until time.Time) bool {
	return len(c.Troubles) > 0 && !slices.ContainsFunc(c.Troubles, func(t Trouble) bool {
		return !slices.Contains(outside, t.Kind) && t.From.Before(until) && t.Until.Add(aftermath).After(from)
	})
}

// skewed tells whether the cluster's clock may be off true time.
func (c *check) skewed(at time.Time) bool {
	return slices.ContainsFunc(c.Troubles, func(t Trouble) bool { return t.ofClock() && t.From.Before(at) })
}

// clockWrong tells whether a server's clock is.
func (c *check) clockWrong(at time.Time) bool {
	return slices.ContainsFunc(c.Troubles, func(t Trouble) bool { return t.ofClock() && t.From.Before(at) && t.Until.After(at) })
}

func (t *Trouble) ofClock() bool {
	return slices.Contains([]Kind{ClockStep, ClockJump, ClockFar, ClockFrozen, ClockSlow, ClockFast}, t.Kind)
}

// calmly counts what can be judged of a history: starts, and callbacks to the receiver
// that nothing is wrong with.
func (c *check) calmly() (starts, callbacks int) {
	for i := range c.Attempts {
		if a := &c.Attempts[i]; a.mayBeJudged() && c.calm(a.Due, a.Due.Add(lateLimit)) {
			starts++
		}
	}
	for _, cb := range c.dump().Callbacks {
		if at := time.UnixMilli(cb.Created); cb.URL == steadyURL && c.calm(at, at.Add(promptLimit)) {
			callbacks++
		}
	}
	return starts, callbacks
}

// late: what is due while nothing is wrong starts in time.
func (c *check) late() {
	judged, late := 0, []time.Duration{}
	for _, a := range c.Attempts {
		limit := lateLimit
		if c.skewed(a.Start) {
			limit += c.limits.Skew
		}
		due := c.due(&a)
		if !a.mayBeJudged() || !c.calm(due, due.Add(limit)) {
			continue
		}
		judged++
		if by := a.Start.Sub(due); by > limit && c.room(&a, due, due.Add(limit)) {
			late = append(late, by)
		}
	}
	if judged >= leastJudged && len(late) > judged/100 {
		c.broken("%d of %d tasks that were due while nothing was wrong started late, by up to %v", len(late), judged, slices.Max(late))
	}
}

// due is when an attempt was to start: with a part of a broadcast, that was to begin.
func (c *check) due(a *Attempt) time.Time {
	if whole := c.whole(a.Task); whole != a.Task && !c.revived[whole] {
		return time.UnixMilli(c.dump().Tasks[whole].Due)
	}
	return a.Due
}

// room tells whether slots were free for an attempt all the while between two moments:
// anywhere, or at the worker that its broadcast has it run at.
func (c *check) room(of *Attempt, from, until time.Time) bool {
	bound := c.whole(of.Task) != of.Task
	took, most := 0, c.Plan.Workers*workerSlots-freeSlots
	if bound {
		most = workerSlots - freeSlots/2
	}
	for _, a := range c.Attempts {
		if a.Start.Before(until) && (a.End.IsZero() || a.End.After(from)) && (!bound || a.Worker == of.Worker) {
			took++
		}
	}
	return took <= most
}

// mayBeJudged tells whether nothing but its time and a free slot lets an attempt start.
func (a *Attempt) mayBeJudged() bool { return a.Number == 1 && a.Job == plainJob && !a.Due.IsZero() }

// prompt: a callback is sent as soon as it is owed, whatever other receivers do.
func (c *check) prompt() {
	if len(c.Dumps) == 0 {
		return
	}
	first := map[string]time.Time{}
	for _, d := range c.Deliveries {
		if at, known := first[d.ID]; !known || d.At.Before(at) {
			first[d.ID] = d.At
		}
	}
	for _, cb := range c.Dumps[0].Callbacks {
		if cb.URL != steadyURL {
			continue
		}
		for _, e := range c.ends[cb.Task.String()] {
			sent, known := first[cb.Ref().String()]
			if !known {
				sent = e.wrote.Add(time.Hour)
			}
			if by := sent.Sub(e.wrote); e.version == cb.N && !e.wrote.IsZero() && by > promptLimit && c.calm(e.wrote, e.wrote.Add(promptLimit)) {
				c.broken("callback %s was owed while nothing was wrong, and was sent %v later", cb.Ref(), by)
			}
		}
	}
}
