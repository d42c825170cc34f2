package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

const uniqueKeys = 4 // that callers of one run use

// request is a random task.
func (c *caller) request(op int) client.SubmitRequest {
	b := behaviour{Op: op, RunMS: c.rng.Int64N(400), Key: c.rng.IntN(3)}
	r := client.SubmitRequest{Job: plainJob}
	switch c.rng.IntN(30) {
	case 0, 1:
		b.Fail = 1 + c.rng.IntN(2)
	case 2:
		r.Job, b.Fail = doomedJob, 99
	case 3:
		r.Job, b.Hang = shortJob, c.rng.IntN(2) == 0
	case 4, 5:
		r.Job, b.RunMS = steadyJob, 1000+c.rng.Int64N(3000)
	case 6:
		b.RunMS = 2000 + c.rng.Int64N(6000)
	case 7: // outlives a lease
		b.RunMS = 12_000 + c.rng.Int64N(12_000)
	case 8, 9, 10:
		r.Job, b.RunMS = limitedJob, 500+c.rng.Int64N(2000)
	case 11, 12:
		r.Job = ratedJob
	case 13, 14, 15:
		r.Job, b.FailOn = shakyJob, c.c.Workers[0].Name
	case 16:
		r.Job, b.Beat, b.RunMS = beatingJob, c.rng.IntN(3) > 0, 1500+c.rng.Int64N(2000)
	case 17:
		r.Job, b.Fail, b.RunMS = hastyJob, c.rng.IntN(6), c.rng.Int64N(3000)
	case 18:
		r.Job, b.Fail = tellingJob, c.rng.IntN(2)*99
	case 19:
		b.Fail, b.RetryMS = 1+c.rng.IntN(2), 700+c.rng.Int64N(2000)
	case 20:
		b.Fail, b.RetryMS = 99, -1
	case 21:
		r.Job, b.Fail, b.RunMS = eagerJob, c.rng.IntN(3), c.rng.Int64N(3000)
	}
	r.Payload, _ = json.Marshal(b) // plain fields
	if c.rng.IntN(3) > 0 {
		r.Delay = new(job.Duration(time.Duration(c.rng.Int64N(int64(longestWait))).Truncate(time.Millisecond)))
	}
	if c.rng.IntN(2) == 0 {
		r.Priority = job.Priorities[c.rng.IntN(len(job.Priorities))]
	}
	if c.rng.IntN(20) == 0 {
		r.Route = &job.Route{Strategy: job.Broadcast}
		if c.rng.IntN(3) == 0 {
			r.Route.Require = []string{otherThan(c.c.Workers[c.rng.IntN(len(c.c.Workers))].Name)}
		}
	}
	if c.rng.IntN(5) == 0 && r.Job != tellingJob {
		r.CallbackURL = []string{sinkURL, steadyURL}[c.rng.IntN(2)]
	}
	return r
}

// otherThan is what a route requires to leave a worker out.
func otherThan(worker string) string { return workerLabel + " != " + worker }

// submit asks for a task: half of them under a key, and some of these by several
// callers at once or once more with another body.
func (c *caller) submit() {
	op := c.next()
	r := c.request(op)
	if c.rng.IntN(2) == 0 {
		c.own(c.put(c.i, r, 0))
		return
	}
	r.IdempotencyKey = fmt.Sprintf("key-%d", op)
	c.keyed = append(c.keyed, r)
	var first string
	if c.rng.IntN(3) > 0 {
		first = c.put(c.i, r, 0)
	} else {
		c.together(2+c.rng.IntN(2), func(n int) {
			id := c.put((c.i+n)%len(c.clients), r, 0)
			if n == 0 {
				first = id
			}
		})
	}
	c.own(first)
	switch c.rng.IntN(6) {
	case 0: // again: the answer must be the same
		c.put(c.rng.IntN(len(c.clients)), r, 0)
	case 1:
		other := r
		other.Payload = json.RawMessage(fmt.Sprintf(`{"op":%d,"run_ms":1}`, -op))
		c.put(c.rng.IntN(len(c.clients)), other, 1)
	}
}

// armAhead is how long before its due time a task is armed by default: twice the
// election time-out and a second.
const armAhead = 3 * time.Second

// pinch moves or cancels a task within milliseconds of the moment at which it is
// armed, or due.
func (c *caller) pinch() {
	r := c.request(c.next())
	delay := armAhead + time.Duration(c.rng.Int64N(int64(2*time.Second)))
	r.Delay = new(job.Duration(delay.Truncate(time.Millisecond)))
	begun := time.Now()
	id := c.put(c.i, r, 0)
	if id == "" {
		return
	}
	c.own(id)
	at := begun.Add(delay - time.Duration(c.rng.IntN(2))*armAhead)
	const near = 4 * time.Millisecond
	time.Sleep(time.Until(at.Add(time.Duration(c.rng.Int64N(int64(2*near))) - near)))
	if c.rng.IntN(3) == 0 {
		c.cancel(id)
	} else {
		c.reschedule(id)
	}
}

// put submits through one of the clients and records the answer.
func (c *caller) put(through int, r client.SubmitRequest, body int) (id string) {
	call := Call{Verb: Submit, Key: r.IdempotencyKey, Body: body, Begun: time.Now()}
	if r.Delay != nil {
		call.Delay = time.Duration(*r.Delay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	t, err := c.clients[through].Submit(ctx, r)
	c.record(call, t, err)
	if err != nil {
		return ""
	}
	return t.ID
}

// own notes a task as one of the caller's.
func (c *caller) own(id string) {
	if id != "" {
		c.tasks = append(c.tasks, id)
		c.made(id)
	}
}

// submitAgain sends an old request under its key once more.
func (c *caller) submitAgain() {
	if len(c.keyed) == 0 {
		c.submit()
		return
	}
	c.put(c.rng.IntN(len(c.clients)), c.keyed[c.rng.IntN(len(c.keyed))], 0)
}

// submitUnique asks for a task of which there may be one at a time.
func (c *caller) submitUnique() {
	r := c.request(c.next())
	r.UniqueKey = fmt.Sprintf("unique-%d", c.rng.IntN(uniqueKeys))
	call := Call{Verb: SubmitUnique, Key: r.UniqueKey, Begun: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	t, err := c.clients[c.i].Submit(ctx, r)
	c.record(call, t, err)
	if err == nil {
		c.own(t.ID)
	}
}

// recent prefers tasks that may still wait; empty: there is none.
func (c *caller) recent() string {
	n := len(c.tasks)
	if n == 0 {
		return ""
	}
	return c.tasks[n-1-c.rng.IntN(min(n, 8))]
}

func (c *caller) cancel(id string) {
	c.do(Cancel, id, func(ctx context.Context) (client.Task, error) { return c.clients[c.i].Cancel(ctx, id, "sim") })
}

func (c *caller) reschedule(id string) {
	delay := new(job.Duration(time.Duration(c.rng.Int64N(int64(longestWait))).Truncate(time.Millisecond)))
	c.do(Reschedule, id, func(ctx context.Context) (client.Task, error) {
		return c.clients[c.i].Reschedule(ctx, id, client.RescheduleRequest{Delay: delay})
	})
}

// look reads a task of any caller, and may cancel a part of it.
func (c *caller) look() {
	id := c.latest(&c.load.tasks, c.rng, 60)
	t := c.do(Look, id, func(ctx context.Context) (client.Task, error) { return c.clients[c.i].Task(ctx, id) })
	if n := len(t.Parts); n > 0 && c.rng.IntN(2) == 0 {
		c.cancel(t.Parts[c.rng.IntN(n)].ID)
	}
}

func (c *caller) do(verb Verb, id string, ask func(context.Context) (client.Task, error)) client.Task {
	if id == "" {
		c.submit()
		return client.Task{}
	}
	call := Call{Verb: verb, Task: id, Begun: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	t, err := ask(ctx)
	c.record(call, t, err)
	return t
}

// record completes a call with its answer.
func (c *caller) record(call Call, t client.Task, err error) {
	call.Ended = time.Now()
	if err != nil {
		call.Code = codeOf(err)
		c.c.Ledger.called(call)
		return
	}
	call.Task, call.State, call.Deduplicated, call.CancelPending = t.ID, t.State, t.Deduplicated, t.CancelRequested
	call.MovePending = t.RescheduleRequested
	if t.ExecuteTime != nil {
		call.Due = *t.ExecuteTime
	}
	c.c.Ledger.called(call)
}

// replay runs a dead letter again.
func (c *caller) replay() {
	id := c.dead()
	if id == "" {
		c.look()
		return
	}
	c.ask(Call{Verb: Replay, Task: id}, func(ctx context.Context, cl *client.Client) (string, error) {
		r, err := cl.ReplayDeadLetters(ctx, client.DeadLetterRequest{IDs: []string{id}})
		return verdictOf(r), err
	})
}

// replayAll replays the dead letters of a job, after it has counted them.
func (c *caller) replayAll() {
	filter := &client.DeadLetterFilter{Job: doomedJob}
	code := c.ask(Call{Verb: Replay, Arg: "count"}, func(ctx context.Context, cl *client.Client) (string, error) {
		_, err := cl.ReplayDeadLetters(ctx, client.DeadLetterRequest{Filter: filter, DryRun: true})
		return "", err
	})
	if code == "" {
		c.ask(Call{Verb: Replay, Arg: doomedJob}, func(ctx context.Context, cl *client.Client) (string, error) {
			r, err := cl.ReplayDeadLetters(ctx, client.DeadLetterRequest{Filter: filter})
			return verdictOf(r), err
		})
	}
}

func (c *caller) discard() {
	id := c.dead()
	if id == "" {
		c.look()
		return
	}
	c.ask(Call{Verb: Discard, Task: id}, func(ctx context.Context, cl *client.Client) (string, error) {
		r, err := cl.DiscardDeadLetters(ctx, client.DeadLetterRequest{IDs: []string{id}})
		return verdictOf(r), err
	})
}

// verdictOf tells what an act on one dead letter has done.
func verdictOf(r client.DeadLetterResult) string {
	if r.Done > 0 {
		return "done"
	}
	return "refused"
}

// dead finds a dead letter.
func (c *caller) dead() string {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	list, err := c.clients[c.i].DeadLetters(ctx, client.DeadLetterFilter{}, 20, "")
	if err != nil || len(list.DeadLetters) == 0 {
		return ""
	}
	return list.DeadLetters[c.rng.IntN(len(list.DeadLetters))].ID
}
