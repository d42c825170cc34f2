package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// The load: what callers do, and how fast.
const (
	thinkTime   = 600 * time.Millisecond // mean pause of a busy caller between two calls
	longThink   = 10 * time.Second       // beyond it a load is one of hours
	longestWait = 25 * time.Second       // delay of a task
	callLimit   = 40 * time.Second       // for one call with its repetitions
	probeLimit  = time.Minute            // for a task that one worker alone can run
	clientHost  = "client"               // where callers are; no fault reaches it
)

// load is the workload on a cluster.
type load struct {
	c       *Cluster
	port    *Port
	clients []*client.Client
	web     []*http.Transport
	think   time.Duration // mean pause of a caller between two calls
	sink    *sink
	steady  *sink

	until  time.Time // the end of its schedules
	tables []timetable

	aside sync.WaitGroup // what callers do beside their calls

	mu    sync.Mutex
	op    int
	tasks []string // of all callers
	runs  []string
}

// newLoad makes callers, each of which knows the servers in another order.
func newLoad(c *Cluster, p Plan) (*load, error) {
	l := &load{c: c, port: c.Net.Open(clientHost), until: time.Now().Add(p.Length).Truncate(time.Second), think: p.Think}
	c.Ledger.plan = p
	var err error
	if l.sink, err = openSink(c, sinkHost); err != nil {
		return nil, err
	}
	if l.steady, err = openSink(c, steadyHost); err != nil {
		return nil, err
	}
	for i := range p.Callers {
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

// define puts jobs, workflows and schedules, once there is a leader.
func (l *load) define(ctx context.Context) error {
	all := jobs()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if _, err := l.clients[0].PutJob(ctx, name, all[name]); err != nil {
			return fmt.Errorf("define job %s: %w", name, err)
		}
	}
	if err := l.defineFlows(ctx); err != nil {
		return err
	}
	return l.defineSchedules(ctx)
}

// run calls until ctx ends, and returns when all callers have their last answer.
func (l *load) run(ctx context.Context) {
	var callers sync.WaitGroup
	for i := range l.clients {
		c := &caller{load: l, i: i, rng: l.c.rand()}
		callers.Go(func() { c.run(ctx) })
	}
	callers.Wait()
	l.aside.Wait()
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
	l.sink.close()
	l.steady.close()
}

func (l *load) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.op++
	return l.op
}

// made notes a task that was acknowledged.
func (l *load) made(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tasks = append(l.tasks, id)
}

func (l *load) began(run string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs = append(l.runs, run)
}

// latest picks one of the newest of a list that all callers share; empty: there is
// none.
func (l *load) latest(list *[]string, rng *rand.Rand, among int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(*list)
	if n == 0 {
		return ""
	}
	return (*list)[n-1-rng.IntN(min(n, among))]
}

// cards is what callers do: each of a kind as often as its number says, in random
// order, so that every kind comes up.
var cards = []struct {
	number int
	do     func(*caller)
}{
	{24, (*caller).submit},
	{8, (*caller).pinch},
	{4, (*caller).submitAgain},
	{6, (*caller).submitUnique},
	{8, func(c *caller) { c.cancel(c.recent()) }},
	{9, func(c *caller) { c.reschedule(c.recent()) }},
	{16, (*caller).look},
	{3, (*caller).replay},
	{1, (*caller).replayAll},
	{2, (*caller).discard},
	{4, (*caller).start},
	{4, (*caller).actOnRun},
	{4, (*caller).send},
	{3, (*caller).trigger},
	{2, (*caller).pauseSchedule},
	{1, (*caller).changeSchedule},
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
	var hand []int
	for pause(ctx, time.Duration(c.rng.Int64N(int64(2*c.think)))) {
		if len(hand) == 0 {
			for i, card := range cards {
				hand = append(hand, slices.Repeat([]int{i}, card.number)...)
			}
			c.rng.Shuffle(len(hand), func(i, j int) { hand[i], hand[j] = hand[j], hand[i] })
		}
		cards[hand[0]].do(c)
		hand = hand[1:]
	}
}

// ask makes a call whose answer is an object's name.
func (c *caller) ask(call Call, do func(context.Context, *client.Client) (object string, err error)) job.Code {
	return c.askThrough(c.i, call, do)
}

func (c *caller) askThrough(i int, call Call, do func(context.Context, *client.Client) (object string, err error)) job.Code {
	call.Begun = time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	object, err := do(ctx, c.clients[i%len(c.clients)])
	call.Ended = time.Now()
	if err != nil {
		call.Code = codeOf(err)
	} else if object != "" {
		call.Object = object
	}
	c.c.Ledger.called(call)
	return call.Code
}

// together does something several times at once.
func (c *caller) together(times int, do func(n int)) {
	var all sync.WaitGroup
	for n := range times {
		all.Go(func() { do(n) })
	}
	all.Wait()
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
