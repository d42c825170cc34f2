package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// The load: what callers do, and how fast.
const (
	thinkTime   = 600 * time.Millisecond // mean pause of a busy caller between two calls
	longestWait = 25 * time.Second       // delay of a task
	callLimit   = 40 * time.Second       // for one call with its repetitions
	probeLimit  = time.Minute            // for a task that one worker alone can run
	clientHost  = "client"               // where callers are; no fault reaches it
)

// The jobs of the load, by what they are to show.
const (
	plainJob  = "plain"  // retries a little
	shortJob  = "short"  // has a time-out that hanging attempts meet
	steadyJob = "steady" // goes on when its worker loses the leader
)

func jobs() map[string]job.Spec {
	duration := func(d time.Duration) *job.Duration { return new(job.Duration(d)) }
	retry := &job.Retry{MaxRetries: new(4), Initial: job.Duration(500 * time.Millisecond), Cap: job.Duration(5 * time.Second)}
	sim := job.Executor{Handler: handlerName}
	return map[string]job.Spec{
		plainJob:  {Executor: sim, Policy: job.Policy{Retry: retry, Grace: duration(time.Second)}},
		shortJob:  {Executor: sim, Policy: job.Policy{Retry: retry, Grace: duration(time.Second), Timeout: duration(4 * time.Second)}},
		steadyJob: {Executor: sim, Policy: job.Policy{Retry: retry, Timeout: duration(6 * time.Second), OnDisconnect: job.DisconnectContinue}},
	}
}

// load is the workload on a cluster.
type load struct {
	c       *Cluster
	port    *Port
	clients []*client.Client
	web     []*http.Transport
	think   time.Duration // mean pause of a caller between two calls

	mu sync.Mutex
	op int
}

// newLoad makes callers, each of which knows the servers in another order.
func newLoad(c *Cluster, callers int) (*load, error) {
	l := &load{c: c, port: c.Net.Open(clientHost)}
	for i := range callers {
		var addresses []string
		for j := range c.Servers {
			addresses = append(addresses, c.Servers[(i+j)%len(c.Servers)].Name+":7480")
		}
		t := &http.Transport{DialContext: l.dial, MaxIdleConnsPerHost: 4}
		cl, err := client.New(client.Config{Addresses: addresses, HTTPClient: &http.Client{Transport: t}})
		if err != nil {
			return nil, err
		}
		l.clients, l.web = append(l.clients, cl), append(l.web, t)
	}
	return l, nil
}

// defineJobs puts the jobs, once there is a leader.
func (l *load) defineJobs(ctx context.Context) error {
	for name, spec := range jobs() {
		if _, err := l.clients[0].PutJob(ctx, name, spec); err != nil {
			return fmt.Errorf("define job %s: %w", name, err)
		}
	}
	return nil
}

// run calls until ctx ends, and returns when all callers have their last answer.
func (l *load) run(ctx context.Context) {
	var callers sync.WaitGroup
	for i := range l.clients {
		c := &caller{load: l, i: i, rng: l.c.rand()}
		callers.Go(func() { c.run(ctx) })
	}
	callers.Wait()
}

// probe gives every worker a task that no other can run: after all is healed each
// has to be at work.
func (l *load) probe() error {
	ctx, cancel := context.WithTimeout(l.c.ctx, probeLimit)
	defer cancel()
	var asked sync.WaitGroup
	failed := make([]error, len(l.c.Workers))
	for i, w := range l.c.Workers {
		asked.Go(func() {
			r := client.SubmitRequest{Job: plainJob, Payload: json.RawMessage(`{}`), IdempotencyKey: "probe-" + w.Name}
			r.Selector = map[string]string{workerLabel: w.Name}
			t, err := l.clients[0].Submit(ctx, r)
			for err == nil && !client.Ended(t.State) && pause(ctx, lookAgain) {
				t, err = l.clients[0].Task(ctx, t.ID)
			}
			if err == nil && t.State != job.Success.String() {
				err = errors.New("it is " + t.State)
			}
			if err != nil {
				failed[i] = fmt.Errorf("a task for worker %s has not run %v after all was healed: %w", w.Name, probeLimit, err)
			}
		})
	}
	asked.Wait()
	return errors.Join(failed...)
}

func (l *load) dial(ctx context.Context, _, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	return l.port.Dial(ctx, address)
}

func (l *load) close() {
	for _, t := range l.web {
		t.CloseIdleConnections()
	}
	l.port.Close(false)
}

func (l *load) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.op++
	return l.op
}

// caller makes one call after the other. What it cancels and moves are its own
// tasks, so that the order of what it asks of a task is known.
type caller struct {
	*load
	i     int
	rng   *rand.Rand
	tasks []string
	keyed []client.SubmitRequest
}

func (c *caller) run(ctx context.Context) {
	for pause(ctx, time.Duration(c.rng.Int64N(int64(2*c.think)))) {
		switch roll := c.rng.IntN(100); {
		case roll < 3:
			c.start()
		case roll < 50 || len(c.tasks) == 0:
			c.submit()
		case roll < 60:
			c.pinch()
		case roll < 65 && len(c.keyed) > 0: // an old one again
			c.put(c.rng.IntN(len(c.clients)), c.keyed[c.rng.IntN(len(c.keyed))], 0)
		case roll < 72:
			c.cancel(c.recent())
		case roll < 82:
			c.reschedule(c.recent())
		default:
			c.look()
		}
	}
}

// request is a random task.
func (c *caller) request(op int) client.SubmitRequest {
	b := behaviour{Op: op, RunMS: c.rng.Int64N(400)}
	r := client.SubmitRequest{Job: plainJob}
	switch c.rng.IntN(20) {
	case 0, 1:
		b.Fail = 1 + c.rng.IntN(2)
	case 2:
		b.Fail = 99
	case 3:
		r.Job, b.Hang = shortJob, c.rng.IntN(2) == 0
	case 4, 5:
		r.Job, b.RunMS = steadyJob, 1000+c.rng.Int64N(3000)
	case 6:
		b.RunMS = 2000 + c.rng.Int64N(6000)
	case 7: // outlives a lease
		b.RunMS = 12_000 + c.rng.Int64N(12_000)
	}
	r.Payload, _ = json.Marshal(b) // plain fields
	if c.rng.IntN(3) > 0 {
		r.Delay = new(job.Duration(time.Duration(c.rng.Int64N(int64(longestWait))).Truncate(time.Millisecond)))
	}
	if c.rng.IntN(2) == 0 {
		r.Priority = job.Priorities[c.rng.IntN(len(job.Priorities))]
	}
	return r
}

// submit asks for a task: half of them under a key, and some of these by several
// callers at once or once more with another body.
func (c *caller) submit() {
	op := c.next()
	r := c.request(op)
	if c.rng.IntN(2) == 0 {
		if id := c.put(c.i, r, 0); id != "" {
			c.tasks = append(c.tasks, id)
		}
		return
	}
	r.IdempotencyKey = fmt.Sprintf("key-%d", op)
	c.keyed = append(c.keyed, r)
	var first string
	if c.rng.IntN(3) > 0 {
		first = c.put(c.i, r, 0)
	} else {
		var race sync.WaitGroup
		for n := range 2 + c.rng.IntN(2) {
			race.Go(func() {
				id := c.put((c.i+n)%len(c.clients), r, 0)
				if n == 0 {
					first = id
				}
			})
		}
		race.Wait()
	}
	if first != "" {
		c.tasks = append(c.tasks, first)
	}
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
	c.tasks = append(c.tasks, id)
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

func (c *caller) some() string { return c.tasks[c.rng.IntN(len(c.tasks))] }

// recent prefers tasks that may still wait.
func (c *caller) recent() string {
	n := len(c.tasks)
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

func (c *caller) look() {
	id := c.some()
	c.do(Look, id, func(ctx context.Context) (client.Task, error) { return c.clients[c.i].Task(ctx, id) })
}

func (c *caller) do(verb Verb, id string, ask func(context.Context) (client.Task, error)) {
	call := Call{Verb: verb, Task: id, Begun: time.Now()}
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	t, err := ask(ctx)
	c.record(call, t, err)
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
	if t.ExecuteTime != nil {
		call.Due = *t.ExecuteTime
	}
	c.c.Ledger.called(call)
}

func codeOf(err error) job.Code {
	var answer *client.Error
	var own *job.Error
	switch {
	case errors.As(err, &answer):
		return answer.Code
	case errors.As(err, &own):
		return own.Code
	}
	return job.CodeUnknownOutcome
}
