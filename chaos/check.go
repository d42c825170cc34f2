package chaos

import (
	"fmt"
	"slices"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Limits bound what the checks allow.
type Limits struct {
	Skew time.Duration // of the cluster's clock from true time
}

const maxViolations = 30 // told of one run

// Check returns every promise that a history breaks. It knows nothing of how
// servers work: it compares what callers were told, what workers ran, and what
// the servers hold.
func Check(h History, limits Limits) []string {
	c := newCheck(h, limits)
	for _, step := range []func(){
		c.logs, c.enough, c.answers, c.acknowledged, c.terminal, c.results, c.tokens, c.overlaps, c.starts, c.keys, c.cancels,
		c.reschedules, c.states, c.retries, c.timeouts, c.guarded, c.sweep, c.callbacks, c.prompt, c.late, c.deadLetters, c.ledgers, c.events, c.graphs,
		c.broadcasts, c.registers,
	} {
		step()
	}
	return c.found
}

type check struct {
	History
	limits  Limits
	tasks   map[string][]Call    // acknowledged calls by task
	runs    map[string][]Attempt // in the order of their starts
	ofParts map[string][]Attempt // of the parts of broadcasts, by broadcast
	found   []string

	// What the log shows; see replay.
	ends    map[string][]end // of each task, in order
	revived map[string]bool  // tasks that had ended and run again, by hand
	touched map[string]bool  // runs of which somebody has changed by hand what became of a step
	forced  map[string]bool  // tasks of steps that were made a success by hand
}

// end is one end of a task.
type end struct {
	state   job.State
	version uint64    // of the task, which is the number of its callback
	wrote   time.Time // when the leader wrote the entry, by true time; zero: unknown
}

func newCheck(h History, limits Limits) *check {
	c := &check{
		History: h, limits: limits, tasks: map[string][]Call{}, runs: map[string][]Attempt{}, ofParts: map[string][]Attempt{},
		ends: map[string][]end{}, revived: map[string]bool{}, touched: map[string]bool{}, forced: map[string]bool{},
	}
	for _, call := range h.Calls {
		if call.Task != "" && call.Code == "" && call.State != "" {
			c.tasks[call.Task] = append(c.tasks[call.Task], call)
		}
	}
	for _, a := range h.Attempts {
		c.runs[a.Task] = append(c.runs[a.Task], a)
		if whole := c.whole(a.Task); whole != a.Task {
			c.ofParts[whole] = append(c.ofParts[whole], a)
		}
	}
	c.byHand()
	return c
}

// byHand notes what callers have changed of runs.
func (c *check) byHand() {
	for _, call := range c.Calls {
		if !slices.Contains([]Verb{Rerun, RerunStep, SkipStep, ForceSuccess}, call.Verb) || len(c.Dumps) == 0 {
			continue
		}
		c.touch(call.Object)
		for _, s := range c.Dumps[0].Runs[call.Object].Steps {
			if call.Verb == ForceSuccess && s.Name == call.Arg {
				c.forced[s.Task] = true
			}
		}
	}
}

// touch notes a change of a run by hand, which may change the one whose step it is.
func (c *check) touch(run string) {
	for ; run != "" && !c.touched[run]; run = c.Dumps[0].Runs[run].Parent {
		c.touched[run] = true
	}
}

func (c *check) broken(format string, args ...any) {
	if len(c.found) < maxViolations {
		c.found = append(c.found, fmt.Sprintf(format, args...))
	}
}

// final returns the task as the first server holds it; that all hold the same is
// checked apart.
func (c *check) final(id string) (state job.State, ok bool) {
	if len(c.Dumps) == 0 {
		return 0, false
	}
	t, ok := c.Dumps[0].Tasks[id]
	return t.State, ok
}

// passing are the codes of calls that faults may cause.
var passing = []job.Code{job.CodeNoLeader, job.CodeUnknownOutcome, job.CodeOverloaded, job.CodeTimeout}

// refusable are the calls that the state of what they are about may forbid.
var refusable = []Verb{
	Cancel, Reschedule, SubmitUnique, Replay, Discard, CancelRun, Rerun, RerunStep, SkipStep, ForceSuccess, Trigger, Pause, Resume,
}

// answers: a call is answered, refused for a reason, or fails as faults make it.
func (c *check) answers() {
	for _, call := range c.Calls {
		switch {
		case call.Code == "", slices.Contains(passing, call.Code), slices.Contains(refusable, call.Verb) && call.Code == job.CodeConflict,
			call.Code == job.CodeIdempotencyMismatch && c.takenByOther(&call), call.noSuchStep():
		case call.Code == job.CodeNotFound:
			c.broken("%s: %s was acknowledged and is not found", call.Verb, call.about())
		default:
			c.broken("%s of %s with key %q was answered with %s", call.Verb, call.about(), call.Key, call.Code)
		}
	}
}

// takenByOther tells whether another body may have taken a call's key: it was sent, and
// the call's own was not acknowledged before.
func (c *check) takenByOther(call *Call) bool {
	sent, own := false, false
	for _, other := range c.Calls {
		if other.Verb == Submit && other.Key == call.Key {
			sent = sent || other.Body != call.Body && other.Begun.Before(call.Ended)
			own = own || other.Body == call.Body && other.Code == "" && other.Ended.Before(call.Begun)
		}
	}
	return sent && !own
}

// about names what a call is about.
func (call *Call) about() string {
	if call.Object != "" {
		return string(call.Verb) + " " + call.Object
	}
	return "task " + call.Task
}

// noSuchStep tells whether a call names a step that not every workflow has.
func (call *Call) noSuchStep() bool {
	return call.Code == job.CodeNotFound && slices.Contains([]Verb{Rerun, RerunStep, SkipStep, ForceSuccess}, call.Verb) && call.Arg != "" ||
		call.Code == job.CodeNotFound && (call.Verb == Replay || call.Verb == Discard)
}

// acknowledged: no task that a caller was told of is missing anywhere.
func (c *check) acknowledged() {
	for id := range c.tasks {
		for _, d := range c.Dumps {
			if _, ok := d.Tasks[id]; !ok {
				c.broken("task %s was acknowledged and is missing on server %s", id, d.Server)
			}
		}
	}
}

// terminal: every task ends, and a terminal state that was seen stays.
func (c *check) terminal() {
	for _, d := range c.Dumps {
		for id, t := range d.Tasks {
			if !t.State.Terminal() {
				c.broken("task %s is %s on server %s at the end", id, t.State, d.Server)
			}
		}
	}
	for id, calls := range c.tasks {
		state, ok := c.final(id)
		for _, saw := range calls {
			if c.revived[id] {
				continue // registers judges
			}
			if client.Ended(saw.State) && ok && saw.State != state.String() {
				c.broken("task %s was %s for a caller and is %s in the end", id, saw.State, state)
			}
			for _, later := range calls {
				if client.Ended(saw.State) && later.Begun.After(saw.Ended) && later.State != saw.State {
					c.broken("task %s was %s, then %s", id, saw.State, later.State)
				}
			}
		}
	}
}

// results: what the servers hold of a success is an attempt that a worker saw
// succeed, with the very token; and the task's own is that of its last one.
func (c *check) results() {
	succeeded := map[string]bool{}
	for _, a := range c.Attempts {
		if a.OK {
			succeeded[a.Task+a.Token.String()] = true
		}
	}
	for _, d := range c.Dumps {
		for id, t := range d.Tasks {
			if t.State == job.Success && !standsIn(&t) && !c.forced[id] && !succeeded[id+t.LastToken.String()] {
				c.broken("task %s is a success by token %s, with which no worker saw one", id, t.LastToken)
			}
			for _, a := range d.Attempts[id] {
				if a.Outcome == job.OutcomeSuccess && !succeeded[id+a.Token.String()] {
					c.broken("attempt %d of task %s is a success that no worker saw", a.Number, id)
				}
				if a.Outcome == job.OutcomeSuccess && t.State != job.Success && !c.revived[id] {
					c.broken("task %s is %s although attempt %d counts as a success", id, t.State, a.Number)
				}
			}
		}
	}
}

// tokens: the tokens of a task strictly increase in the order of its starts, so
// none starts twice, and none starts after its successor.
func (c *check) tokens() {
	for id, runs := range c.runs {
		for i := 1; i < len(runs); i++ {
			if order := runs[i].Token.Compare(runs[i-1].Token); order < 0 && runs[i].Job != eagerJob || order == 0 {
				c.broken("task %s: %s started after %s", id, runs[i], runs[i-1])
			}
		}
	}
}

// overlaps: no attempt starts before the one before it has ended, unless that
// one's process was held, or the job allows it.
func (c *check) overlaps() {
	for id, runs := range c.runs {
		for i := 1; i < len(runs) && runs[i].Job != eagerJob; i++ {
			for _, before := range runs[:i] {
				if !before.Frozen && (before.End.IsZero() || before.End.After(runs[i].Start)) {
					c.broken("task %s: %s started while %s still ran", id, runs[i], before)
				}
			}
		}
	}
}

// String tells which attempt it is.
func (a Attempt) String() string {
	s := fmt.Sprintf("attempt %d on %s (life %d, token %s, from %s", a.Number, a.Worker, a.Life, a.Token, clock(a.Start))
	if !a.End.IsZero() {
		s += " to " + clock(a.End)
	}
	return s + ")"
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// standstill is for how long the cluster's clock may have stood when a delay began to
// count: where the new leader's wall clock is wrong, and of the others only one answers
// that has just been started, nobody knows how long nobody led.
const standstill = 5 * time.Second

// starts: nothing starts before it is due, by true time.
func (c *check) starts() {
	asked := map[string]Call{} // the earliest submit that led to a task
	for _, call := range c.Calls {
		if is, ok := asked[call.Task]; call.Verb == Submit && call.Code == "" && (!ok || call.Begun.Before(is.Begun)) {
			asked[call.Task] = call
		}
	}
	for _, a := range c.Attempts {
		if early := a.Due.Sub(a.Start); early > c.limits.Skew {
			c.broken("task %s: %s started %v before it was due", a.Task, a, early)
		}
		whole := c.whole(a.Task)
		call, known := asked[whole]
		moved := c.movedByHand(whole)
		if !known || moved || a.Number > 1 || call.Key != "" && c.lostSubmit(call.Key) {
			continue
		}
		allowed := 2 * c.limits.Skew
		if c.clockWrong(call.Begun) {
			allowed += standstill
		}
		if early := call.Begun.Add(call.Delay).Sub(a.Start); early > allowed {
			c.broken("task %s: %s started %v before its delay of %v had passed", a.Task, a, early, call.Delay)
		}
	}
}

// lostSubmit tells whether a submit under the key may have been carried out
// without an answer, so that the task may be older than its acknowledgement.
func (c *check) lostSubmit(key string) bool {
	return slices.ContainsFunc(c.Calls, func(call Call) bool { return call.Key == key && call.Verb == Submit && call.Code != "" })
}

// keys: one task for an idempotency key, and one body.
func (c *check) keys() {
	first := map[string]Call{}
	for _, call := range c.Calls {
		if call.Verb != Submit || call.Key == "" || call.Code != "" {
			continue
		}
		is, ok := first[call.Key]
		if !ok {
			first[call.Key] = call
			continue
		}
		if is.Task != call.Task {
			c.broken("key %s was acknowledged with task %s and with task %s", call.Key, is.Task, call.Task)
		}
		if is.Body != call.Body {
			c.broken("key %s was acknowledged with two bodies", call.Key)
		}
	}
	for _, d := range c.Dumps {
		claimed := map[string]string{}
		for id, t := range d.Tasks {
			if other := claimed[t.IdempotencyKey]; t.IdempotencyKey != "" && other != "" {
				c.broken("key %s has tasks %s and %s on server %s", t.IdempotencyKey, id, other, d.Server)
			}
			claimed[t.IdempotencyKey] = id
		}
	}
}

// cancels: what a caller was told is cancelled never starts again.
func (c *check) cancels() {
	for id, calls := range c.tasks {
		for _, call := range calls {
			if call.Verb != Cancel || call.State != job.Cancelled.String() {
				continue
			}
			for _, a := range c.work(id) {
				again := c.revived[id] && a.Due.After(call.Ended.Add(-c.limits.Skew)) // a part of a broadcast that was replayed
				if a.Start.After(call.Ended) && !again {
					c.broken("task %s: %s started after it was cancelled at %s", id, a, clock(call.Ended))
				}
			}
		}
	}
}

// reschedules: a task that was moved does not start before its new time.
func (c *check) reschedules() {
	last := map[string]Call{}
	for _, call := range c.Calls {
		if call.Verb == Reschedule && call.Code != job.CodeConflict {
			last[call.Task] = call // without a state, if its outcome is unknown
		}
	}
	for id, call := range last {
		if call.State != "scheduled" && call.State != "retrying" {
			continue
		}
		for _, a := range c.work(id) {
			if a.Start.After(call.Ended) && call.Due.Sub(a.Start) > c.limits.Skew {
				c.broken("task %s: %s started although it was moved to %s", id, a, clock(call.Due))
			}
		}
	}
}

// states: each server's state is whole, and all are the same.
func (c *check) states() {
	for _, d := range c.Dumps {
		for _, what := range d.Broken {
			c.broken("server %s: %s", d.Server, what)
		}
		counted := map[job.State]int64{}
		for _, t := range d.Tasks {
			counted[t.State]++
		}
		for state, n := range d.Counts {
			if counted[state] != n {
				c.broken("server %s counts %d tasks as %s and holds %d", d.Server, n, state, counted[state])
			}
		}
		if is := c.Dumps[0]; d.Applied == is.Applied && d.Hash != is.Hash {
			c.broken("servers %s and %s hold different states at entry %d", is.Server, d.Server, d.Applied)
		}
	}
}
