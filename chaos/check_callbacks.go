package chaos

import (
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// callbacks: each end that somebody is to be told of was told, under one id, with the
// state that was committed, and never before it was; what counts as delivered was
// taken; and nothing else was sent.
func (c *check) callbacks() {
	if len(c.Dumps) == 0 {
		return
	}
	of, ids := map[string]int{}, map[string]fsm.Callback{}
	for _, cb := range c.Dumps[0].Callbacks {
		ids[cb.Ref().String()] = cb
		of[cb.Task.String()]++
	}
	taken := c.deliveries(ids)
	for id, cb := range ids {
		switch {
		case cb.State == fsm.CallbackOwed:
			c.broken("callback %s is owed at the end", id)
		case cb.State == fsm.CallbackDelivered && cb.URL != "" && !taken[id]:
			c.broken("callback %s counts as delivered, and nobody has taken it", id)
		case cb.State == fsm.CallbackDead && cb.URL != "":
			c.broken("callback %s was given up: %s", id, cb.Error)
		}
	}
	c.wishes(of)
}

func (c *check) deliveries(ids map[string]fsm.Callback) (taken map[string]bool) {
	taken = map[string]bool{}
	for _, d := range c.Deliveries {
		cb, ok := ids[d.ID]
		switch {
		case !ok:
			c.broken("callback %s of task %s was sent and is not known", d.ID, d.Task)
			continue
		case cb.Task.String() != d.Task || cb.End.State.String() != d.State:
			c.broken("callback %s tells that task %s is %s, it is of task %s as %s", d.ID, d.Task, d.State, cb.Task, cb.End.State)
		}
		taken[d.ID] = taken[d.ID] || d.Taken
		for _, e := range c.ends[d.Task] {
			if e.version == cb.N && d.At.Before(e.wrote) {
				c.broken("callback %s was sent at %s, the end that it tells of was written at %s", d.ID, clock(d.At), clock(e.wrote))
			}
		}
	}
	return taken
}

// wishes: as many callbacks are there as a task has ended, where they were asked for.
func (c *check) wishes(of map[string]int) {
	heard := map[string]int{}
	for _, t := range c.Dumps[0].Tasks {
		if !t.CallbackOf.IsZero() {
			heard[t.CallbackOf.String()]++
		}
	}
	for id, t := range c.Dumps[0].Tasks {
		want := 0
		_, part := t.Parent() // of a broadcast, whose end is told
		if !part && (t.Policy.CallbackURL != "" || t.Job == tellingJob) {
			want = len(c.ends[id])
		}
		if len(c.ends) == 0 || of[id] == want && (t.Job != tellingJob || heard[id] == want) {
			continue
		}
		if t.State.Terminal() && t.State != job.Skipped {
			c.broken("task %s has ended %d times, has %d callbacks and %d tasks that heard of it: %d were asked for", id, len(c.ends[id]), of[id], heard[id], want)
		}
	}
}
