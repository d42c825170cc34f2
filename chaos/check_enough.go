package chaos

import "time"

// least is how many calls of each kind a run must have answered for each minute of a
// caller that pauses for thinkTime to have tested anything: about a tenth of what callers make without faults.
var least = map[Verb]float64{
	Submit: 3, SubmitUnique: 0.5, Cancel: 0.6, Reschedule: 0.6, Look: 1.5, Replay: 0.15, Discard: 0.1,
	StartRun: 0.3, CancelRun: 0.05, Rerun: 0.05, RerunStep: 0.05, SkipStep: 0.05, ForceSuccess: 0.05,
	SendEvent: 0.3, Trigger: 0.2, Pause: 0.1, Resume: 0.1, Change: 0.05,
}

// enough: what was hardly tried was not tested.
func (c *check) enough() {
	if c.Plan.Length == 0 {
		return
	}
	minutes := c.Plan.Length.Minutes() * float64(thinkTime) / float64(c.Plan.Think)
	answered := map[Verb]int{}
	for _, call := range c.Calls {
		if call.Code == "" || call.Verb != Submit && call.Code == "conflict" { // a refusal is an answer too
			answered[call.Verb]++
		}
	}
	for verb, each := range least {
		if want := int(each * minutes * float64(c.Plan.Callers)); answered[verb] < want {
			c.broken("%d calls of %s were answered within %v, a run needs %d", answered[verb], verb, c.Plan.Length.Round(time.Second), want)
		}
	}
	happened := map[string]int{}
	for _, t := range c.dump().Tasks {
		happened[t.State.String()]++
		if t.IsBroadcast() && t.Schedule == "" {
			happened["broadcast"]++
		}
	}
	for what, each := range map[string]float64{"success": 1, "failed": 1, "cancelled": 1, "broadcast": 0.5} {
		if want := int(each * minutes); happened[what] < want {
			c.broken("%d tasks ended as %s within %v, a run needs %d", happened[what], what, c.Plan.Length.Round(time.Second), want)
		}
	}
}

// dump is the state of the first server; that all hold the same is checked apart.
func (c *check) dump() (d Dump) {
	if len(c.Dumps) > 0 {
		d = c.Dumps[0]
	}
	return d
}
