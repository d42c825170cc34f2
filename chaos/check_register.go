package chaos

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// A task is a register that callers read and write: whether it lives and when it is
// due, or how it has ended. What becomes of it inside (an attempt ends, a replay
// revives it) is a write of its own, which takes effect some time after the entry of the
// log that it is in was written.

// register is the state of the model.
type register struct {
	ended string // the state that it ended in; empty: it lives
	due   int64  // Unix ms; anyDue or, until it was told, untold
}

const (
	untold = int64(-1)
	anyDue = int64(0) // a worker may have moved it, or a replay
)

// The operations of the model, beside the verbs of callers.
const (
	ends    Verb = "ends"
	revives Verb = "revives"
)

// registerOp is an operation with its answer.
type registerOp struct {
	verb    Verb
	state   string // in the answer, or of the end
	due     int64
	code    job.Code
	pending bool // of a reschedule: a worker has to give the task back first
}

// after returns the states that an operation may leave; none: it can't be.
func (r register) after(op registerOp) []register {
	stays, cancelled := []register{r}, register{ended: job.Cancelled.String()}
	switch op.verb {
	case ends:
		if r.ended == "" || r.ended == op.state {
			return []register{{ended: op.state}}
		}
		return nil
	case revives:
		if r.ended != "" {
			return []register{{due: anyDue}}
		}
		return nil
	case Cancel:
		switch {
		case op.code == job.CodeConflict: // its first try may have done it
			if r.ended != "" {
				return stays
			}
			return []register{cancelled}
		case op.code != "":
			return []register{r, cancelled}
		case op.state == cancelled.ended && (r.ended == "" || r == cancelled):
			return []register{cancelled}
		}
	case Reschedule:
		moved := register{due: op.due}
		switch {
		case op.code != "":
			return []register{r, {ended: r.ended, due: anyDue}}
		case op.pending || client.Ended(op.state):
			moved.due = anyDue
		}
		if r.ended == "" && !client.Ended(op.state) {
			return []register{moved}
		}
		return nil
	}
	return r.shows(op)
}

// shows tells whether an answer is that of the state, which stays.
func (r register) shows(op registerOp) []register {
	switch {
	case op.code != "":
		return []register{r}
	case r.ended != "" && op.state != r.ended, r.ended == "" && client.Ended(op.state):
		return nil
	case r.ended == "" && op.state == string(job.ShownScheduled) && r.due != anyDue:
		if r.due != untold && op.due != r.due {
			return nil
		}
		return []register{{due: op.due}}
	}
	return []register{r}
}

const (
	registerLimit = time.Minute // of real time, for all tasks
	forever       = int64(1) << 62
)

var registerModel = porcupine.NondeterministicModel{
	Init:  func() []any { return []any{register{due: untold}} },
	Equal: func(a, b any) bool { return a == b },
	Step: func(state, in, _ any) (out []any) {
		for _, next := range state.(register).after(in.(registerOp)) { //nolint:forcetypeassert // the model's own
			out = append(out, next)
		}
		return out
	},
	DescribeOperation: func(in, _ any) string {
		op := in.(registerOp) //nolint:forcetypeassert // the model's own
		return string(op.verb) + " " + cmp.Or(op.state, string(op.code)) + " " + strconv.FormatInt(op.due, 10)
	},
}

// registers: what callers were told of each task can be put into an order in which each
// call sees what those before it have done, in true time.
func (c *check) registers() {
	model, limit := registerModel.ToModel(), time.Now().Add(registerLimit)
	histories := c.operations()
	for _, id := range slices.Sorted(maps.Keys(histories)) {
		switch porcupine.CheckOperationsTimeout(model, histories[id], time.Until(limit)) {
		case porcupine.Illegal:
			c.broken("task %s: no order of these calls explains their answers: %s", id, describe(histories[id]))
		case porcupine.Unknown:
			c.broken("whether the answers about tasks fit together was not found out within %v", registerLimit)
			return
		}
	}
}

// operations are the calls about each task, and what became of it inside.
func (c *check) operations() map[string][]porcupine.Operation {
	out := map[string][]porcupine.Operation{}
	add := func(task string, client int, begun, ended int64, op registerOp) {
		out[task] = append(out[task], porcupine.Operation{ClientId: client, Input: op, Call: begun, Return: ended})
	}
	for i, call := range c.Calls {
		if call.Task == "" || !slices.Contains([]Verb{Submit, SubmitUnique, Look, Cancel, Reschedule}, call.Verb) || call.Body > 0 {
			continue
		}
		op := registerOp{verb: call.Verb, state: call.State, code: call.Code, pending: call.MovePending}
		if !call.Due.IsZero() {
			op.due = call.Due.UnixMilli()
		}
		ended := call.Ended.UnixNano()
		if call.Code != "" && call.Code != job.CodeConflict {
			if call.Verb != Cancel && call.Verb != Reschedule {
				continue // it has changed nothing and told nothing
			}
			ended = forever
		}
		add(call.Task, i, call.Begun.UnixNano(), ended, op)
	}
	for task := range out {
		list := c.ends[task]
		if t := c.dump().Tasks[task]; len(list) == 0 && t.State.Terminal() { // the log is not known
			list = []end{{state: t.State}}
		}
		for i, e := range list {
			if i > 0 {
				add(task, len(c.Calls)+2*i-1, list[i-1].at(), forever, registerOp{verb: revives})
			}
			add(task, len(c.Calls)+2*i, e.at(), forever, registerOp{verb: ends, state: e.state.String()})
		}
	}
	return out
}

// at is when the end was written, or long before where that is not known.
func (e *end) at() int64 {
	if e.wrote.IsZero() {
		return 0
	}
	return e.wrote.UnixNano()
}

// describe tells a history in order of the calls' begin.
func describe(ops []porcupine.Operation) (s string) {
	slices.SortFunc(ops, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	for _, op := range ops {
		until := "?"
		if op.Return != forever {
			until = clock(time.Unix(0, op.Return))
		}
		s += "\n    " + clock(time.Unix(0, op.Call)) + " to " + until + ": " + registerModel.DescribeOperation(op.Input, nil)
	}
	return s
}
