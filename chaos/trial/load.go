package trial

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

const (
	callers   = 3
	thinkTime = 180 * time.Millisecond // mean pause of a caller between two calls
	callTime  = 40 * time.Second       // for one call with its repetitions
	longDelay = 4 * time.Second        // the most that a task is put off

	stepJob    = "axd-chaos-step"
	graph      = "axd-chaos-graph"
	everyName  = "axd-chaos-every"
	cronName   = "axd-chaos-cron"
	everyTime  = time.Second
	cronPlan   = "*/2 * * * * *"
	stepTime   = 60 * time.Millisecond
	defineTime = 20 * time.Second
)

// load is the callers and what they were told.
type load struct {
	st      *stage
	clients []*client.Client
	cancel  context.CancelFunc
	asking  context.Context // of every call
	giveUp  context.CancelFunc
	calling sync.WaitGroup
	own     *own // the caller's own definitions; nil: ours

	mu    sync.Mutex
	op    int
	calls []chaos.Call
	runs  []string
	hooks map[string]bool // tasks whose end is to be told
}

// newLoad makes callers, each of which knows the servers in another order.
func newLoad(st *stage) (*load, error) {
	l := &load{st: st, hooks: map[string]bool{}}
	l.asking, l.giveUp = context.WithCancel(context.Background())
	addresses := st.HTTP()
	for i := range callers {
		mine := append(append([]string(nil), addresses[i%len(addresses):]...), addresses[:i%len(addresses)]...)
		c, err := client.New(client.Config{Addresses: mine, RetryTime: callTime})
		if err != nil {
			return nil, err
		}
		l.clients = append(l.clients, c)
	}
	if st.cfg.Config == "" {
		return l, nil
	}
	var err error
	l.own, err = loadOwn(st.cfg.Config)
	return l, err
}

// policy is that of every task of ours.
func policy() job.Policy {
	return job.Policy{
		Grace: new(job.Duration(time.Second)),
		Retry: &job.Retry{MaxRetries: new(10), Initial: job.Duration(300 * time.Millisecond), Cap: job.Duration(2 * time.Second)},
	}
}

// start defines what is fired by itself, and lets the callers begin.
func (l *load) start(ctx context.Context) error {
	ctx, done := context.WithTimeout(ctx, defineTime)
	defer done()
	if err := l.define(ctx); err != nil {
		return fmt.Errorf("define the workload: %w", err)
	}
	var work context.Context
	work, l.cancel = context.WithCancel(context.Background())
	for i, c := range l.clients {
		caller := &caller{load: l, c: c, rng: rand.New(rand.NewPCG(l.st.rng.Uint64(), uint64(i)))}
		l.calling.Go(func() { caller.run(work) })
	}
	return nil
}

func (l *load) define(ctx context.Context) error {
	c := l.clients[0]
	if l.own != nil {
		return l.own.apply(ctx, c)
	}
	if _, err := c.PutJob(ctx, stepJob, job.Spec{Executor: l.st.attempts.command(stepTime, 0), Policy: policy()}); err != nil {
		return err
	}
	spec := job.WorkflowSpec{Steps: []job.Step{
		{Name: "a", Job: stepJob},
		{Name: "b", Job: stepJob, Needs: []string{"a"}},
		{Name: "c", Job: stepJob, Needs: []string{"a"}},
		{Name: "d", Job: stepJob, Needs: []string{"b", "c"}},
	}}
	if _, err := c.PutWorkflow(ctx, graph, spec); err != nil {
		return err
	}
	for name, s := range map[string]job.ScheduleSpec{
		everyName: {Job: stepJob, Every: job.Duration(everyTime), Overlap: job.OverlapAllow, Misfire: job.MisfireAll},
		cronName:  {Job: stepJob, Cron: cronPlan, Overlap: job.OverlapAllow, Misfire: job.MisfireLatest},
	} {
		if _, err := c.PutSchedule(ctx, name, s); err != nil {
			return err
		}
	}
	return nil
}

// stop ends the callers, each after its last answer.
func (l *load) stop() {
	if l.cancel != nil {
		l.cancel()
	}
	l.calling.Wait()
}

// quiet stops what is fired by itself.
func (l *load) quiet(ctx context.Context) error {
	names := []string{everyName, cronName}
	if l.own != nil {
		names = l.own.schedules()
	}
	for _, name := range names {
		if _, err := l.clients[0].PauseSchedule(ctx, name, "the trial is over"); err != nil {
			return fmt.Errorf("pause schedule %s: %w", name, err)
		}
	}
	return nil
}

// abandon ends the callers without their answers.
func (l *load) abandon() {
	l.giveUp()
	l.stop()
}

func (l *load) close() {
	for _, c := range l.clients {
		c.Close()
	}
}

func (l *load) called(c chaos.Call) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, c)
}

func (l *load) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.op++
	return l.op
}

// acknowledged counts the calls that were answered with success.
func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.runs)
	for _, c := range l.calls {
		if c.Code == "" {
			n++
		}
	}
	return n
}

// caller makes one call after the other.
type caller struct {
	*load
	c     *client.Client
	rng   *rand.Rand
	tasks []string
	keyed []client.SubmitRequest
}

func (c *caller) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		switch roll := c.rng.IntN(100); {
		case c.own != nil:
			c.startOwn()
		case roll < 4:
			c.startRun(graph)
		case roll < 60 || len(c.tasks) == 0:
			c.submit()
		case roll < 68 && len(c.keyed) > 0: // an old one again
			c.put(c.keyed[c.rng.IntN(len(c.keyed))], 0)
		case roll < 76:
			c.withdraw(c.recent())
		case roll < 84:
			c.reschedule(c.recent())
		default:
			c.look(c.tasks[c.rng.IntN(len(c.tasks))])
		}
		timer.Reset(time.Duration(c.rng.Int64N(int64(2 * thinkTime))))
	}
}

// request is a random task.
func (c *caller) request() client.SubmitRequest {
	work, fails := 50*time.Millisecond, 0
	switch c.rng.IntN(20) {
	case 0:
		fails = 1
	case 1, 2:
		work = time.Duration(300+c.rng.IntN(1200)) * time.Millisecond
	case 3: // outlives a lease
		work = leaseTTL + time.Duration(1000+c.rng.IntN(1500))*time.Millisecond
	}
	r := client.SubmitRequest{Executor: c.st.attempts.command(work, fails), Policy: policy()}
	if c.rng.IntN(2) == 0 {
		r.Delay = new(job.Duration(time.Duration(c.rng.Int64N(int64(longDelay))).Truncate(time.Millisecond)))
	}
	if c.rng.IntN(3) == 0 {
		r.Priority = job.Priorities[c.rng.IntN(len(job.Priorities))]
	}
	if c.rng.IntN(4) == 0 {
		r.CallbackURL = c.st.sink.url
	}
	return r
}

// submit asks for a task: half of them under a key, and some of these twice at once
// or once more with another body.
func (c *caller) submit() {
	r := c.request()
	if c.rng.IntN(2) == 0 {
		c.keep(c.put(r, 0))
		return
	}
	r.IdempotencyKey = fmt.Sprintf("key-%d", c.next())
	c.keyed = append(c.keyed, r)
	switch c.rng.IntN(6) {
	case 0: // two callers at once
		var other sync.WaitGroup
		other.Go(func() { c.put(r, 0) })
		c.keep(c.put(r, 0))
		other.Wait()
	case 1: // again, with another body
		c.keep(c.put(r, 0))
		r.Executor = c.st.attempts.command(51*time.Millisecond, 0)
		c.put(r, 1)
	default:
		c.keep(c.put(r, 0))
	}
}

func (c *caller) keep(id string) {
	if id != "" {
		c.tasks = append(c.tasks, id)
	}
}

func (c *caller) recent() string {
	n := len(c.tasks)
	return c.tasks[n-1-c.rng.IntN(min(n, 8))]
}

func (c *caller) put(r client.SubmitRequest, body int) string {
	call := chaos.Call{Verb: chaos.Submit, Key: r.IdempotencyKey, Body: body, Begun: time.Now()}
	if r.Delay != nil {
		call.Delay = time.Duration(*r.Delay)
	}
	t, err := c.do(call, func(ctx context.Context) (client.Task, error) { return c.c.Submit(ctx, r) })
	if err != nil {
		return ""
	}
	if r.CallbackURL != "" {
		c.mu.Lock()
		c.hooks[t.ID] = true
		c.mu.Unlock()
	}
	return t.ID
}

func (c *caller) withdraw(id string) {
	_, _ = c.do(chaos.Call{Verb: chaos.Cancel, Task: id, Begun: time.Now()}, func(ctx context.Context) (client.Task, error) {
		return c.c.Cancel(ctx, id, "axd chaos")
	})
}

func (c *caller) reschedule(id string) {
	delay := new(job.Duration(time.Duration(c.rng.Int64N(int64(longDelay))).Truncate(time.Millisecond)))
	_, _ = c.do(chaos.Call{Verb: chaos.Reschedule, Task: id, Begun: time.Now()}, func(ctx context.Context) (client.Task, error) {
		return c.c.Reschedule(ctx, id, client.RescheduleRequest{Delay: delay})
	})
}

func (c *caller) look(id string) {
	_, _ = c.do(chaos.Call{Verb: chaos.Look, Task: id, Begun: time.Now()}, func(ctx context.Context) (client.Task, error) {
		return c.c.Task(ctx, id)
	})
}

func (c *caller) startRun(workflow string) {
	ctx, cancel := context.WithTimeout(c.asking, callTime)
	defer cancel()
	run, err := c.c.StartRun(ctx, workflow, client.StartRunRequest{})
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = append(c.runs, run.ID)
}

// do makes a call and records its answer.
func (c *caller) do(call chaos.Call, ask func(context.Context) (client.Task, error)) (client.Task, error) {
	ctx, cancel := context.WithTimeout(c.asking, callTime)
	defer cancel()
	t, err := ask(ctx)
	call.Ended = time.Now()
	if err != nil {
		call.Code = codeOf(err)
	} else {
		call.Task, call.State, call.Deduplicated, call.CancelPending = t.ID, t.State, t.Deduplicated, t.CancelRequested
		if t.ExecuteTime != nil {
			call.Due = *t.ExecuteTime
		}
	}
	c.called(call)
	return t, err
}

func codeOf(err error) job.Code {
	var answer *client.Error
	var ours *job.Error
	switch {
	case errors.As(err, &answer):
		return answer.Code
	case errors.As(err, &ours):
		return ours.Code
	}
	return job.CodeUnknownOutcome
}
