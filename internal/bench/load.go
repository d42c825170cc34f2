package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// maxInFlight bounds the calls that an open loop has under way at one time. It
// is far above what a cluster that keeps up needs; beyond it calls start late,
// and their lateness counts.
const maxInFlight = 2000

// phase is a set of numbered tasks that are judged together. They have a job of
// their own, whose counts tell how many have ended.
type phase struct {
	e     *env
	id    int
	job   string
	total int // acknowledged or to be
	bytes int // of a payload
}

func (e *env) newPhase(ctx context.Context, total, bytes int) (*phase, error) {
	return e.newPhaseWith(ctx, total, bytes, job.Policy{})
}

func (e *env) newPhaseWith(ctx context.Context, total, bytes int, policy job.Policy) (*phase, error) {
	e.phases++
	p := &phase{e: e, id: e.phases, job: fmt.Sprintf("bench-%s-%d", e.unique, e.phases), total: total, bytes: bytes}
	_, err := e.admin.PutJob(ctx, p.job, job.Spec{Executor: job.Executor{Handler: e.handler()}, Policy: policy})
	return p, err
}

// request makes the n-th task.
func (p *phase) request(n int) client.SubmitRequest {
	return client.SubmitRequest{
		Job: p.job, Payload: fill(p.id, n, p.bytes), IdempotencyKey: fmt.Sprintf("%s-%d", p.job, n),
	}
}

// fill makes a payload of so many bytes, or the few that it needs.
func fill(phase, n, size int) json.RawMessage {
	b := fmt.Appendf(nil, `{"phase":%d,"n":%d}`, phase, n)
	if room := size - len(b) - len(`,"fill":""`); room >= 0 {
		b = append(b[:len(b)-1], `,"fill":"`...)
		b = append(b, strings.Repeat("x", room)...)
		b = append(b, `"}`...)
	}
	return b
}

// at makes a task that is due at an instant, to the millisecond.
func at(r client.SubmitRequest, due time.Time) client.SubmitRequest {
	r.ExecuteTime = due.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	return r
}

func after(r client.SubmitRequest, d time.Duration) client.SubmitRequest {
	delay := job.Duration(d)
	r.Delay = &delay
	return r
}

// clients makes clients, each of which prefers another server than the one
// before; the caller closes them.
func (e *env) clients(n int, retry time.Duration) ([]*client.Client, error) {
	return e.clientsOver(n, retry, func() *http.Client { return nil })
}

func (e *env) clientsOver(n int, retry time.Duration, carrier func() *http.Client) ([]*client.Client, error) {
	var out []*client.Client
	for i := range n {
		at := i % len(e.addr)
		c, err := client.New(client.Config{
			Addresses: append(append([]string{}, e.addr[at:]...), e.addr[:at]...), RetryTime: retry, HTTPClient: carrier(),
		})
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

func closeAll(clients []*client.Client) {
	for _, c := range clients {
		c.Close()
	}
}

// flood submits the tasks 0 to total−1 as fast as so many callers can, each
// waiting for its answer before its next call, and returns how long the calls
// took.
func (p *phase) flood(ctx context.Context, batch, callers int, task func(n int) client.SubmitRequest) (samples, error) {
	clients, err := p.e.clientsOver(callers, retryTime, func() *http.Client { return &http.Client{Transport: newWire()} })
	if err != nil {
		return nil, err
	}
	defer closeAll(clients)
	var mu sync.Mutex
	var took samples
	var next, acked atomic.Int64
	calls, ctx := errgroup.WithContext(ctx)
	for _, c := range clients {
		calls.Go(func() error {
			var mine samples
			for {
				from := int(next.Add(int64(batch))) - batch
				if from >= p.total {
					break
				}
				n := min(batch, p.total-from)
				d, err := submit(ctx, c, from, n, task)
				if err != nil {
					return err
				}
				mine = append(mine, d)
				p.e.bar("submitted", int(acked.Add(int64(n))), p.total)
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, mine...)
			return nil
		})
	}
	return took, calls.Wait()
}

// submit makes one call for n tasks; all must be taken.
func submit(ctx context.Context, c *client.Client, from, n int, task func(n int) client.SubmitRequest) (time.Duration, error) {
	if n == 1 {
		r := task(from)
		start := time.Now()
		_, err := c.Submit(ctx, r)
		return time.Since(start), err
	}
	batch := make([]client.SubmitRequest, n)
	for i := range batch {
		batch[i] = task(from + i)
	}
	start := time.Now()
	results, err := c.SubmitBatch(ctx, batch)
	took := time.Since(start)
	if err != nil {
		return took, err
	}
	for i, one := range results {
		if one.Error != nil {
			return took, fmt.Errorf("task %d was refused: %s: %s", from+i, one.Error.Code, one.Error.Detail)
		}
	}
	return took, nil
}

// pace calls f for 0 and on, to total at most, each at its time, whatever became
// of the calls before: a schedule that doesn't wait shows what a slow answer
// costs those who come after. f runs on a goroutine of its own; sent is when it
// was due to be called. It ends early, without an error, when stopped does; calls
// under way then end by themselves. It returns how many there were.
func pace(ctx, stopped context.Context, total int, rate float64, f func(ctx context.Context, n int, sent time.Time) error) (int, error) {
	calls, inner := errgroup.WithContext(ctx)
	calls.SetLimit(maxInFlight)
	begun, begin := 0, time.Now()
	for n := range total {
		sent := begin.Add(time.Duration(float64(n) / rate * float64(time.Second)))
		if pause(stopped, time.Until(sent)) != nil || inner.Err() != nil {
			break
		}
		begun++
		calls.Go(func() error { return f(inner, n, sent) })
	}
	if err := calls.Wait(); err != nil {
		return begun, err
	}
	return begun, context.Cause(ctx)
}

// ended waits until so many tasks of the phase have ended, and returns how many
// did not succeed. It gives up when nothing moves any more.
func (p *phase) ended(ctx context.Context, total int) (unsuccessful int, err error) {
	last, since := -1, time.Now()
	for {
		got, err := p.e.admin.Job(ctx, p.job)
		if err != nil {
			return 0, err
		}
		done := 0
		for state, n := range got.Tasks {
			if client.Ended(state) {
				done += int(n)
			}
		}
		p.e.bar("ended", done, total)
		if done >= total {
			return done - int(got.Tasks["success"]), nil
		}
		if done != last {
			last, since = done, time.Now()
		} else if time.Since(since) > stallLimit {
			p.e.say("%d of %d tasks have ended, and for %s none more: %v", done, total, stallLimit, got.Tasks)
			return total - int(got.Tasks["success"]), nil
		}
		if err := pause(ctx, statePoll); err != nil {
			return 0, err
		}
	}
}

// over waits until no task of the phase waits or runs any more, however long
// that takes while their number falls.
func (p *phase) over(ctx context.Context) error {
	last, since := int64(-1), time.Now()
	for {
		got, err := p.e.admin.Job(ctx, p.job)
		if err != nil {
			return err
		}
		open := int64(0)
		for state, n := range got.Tasks {
			if !client.Ended(state) {
				open += n
			}
		}
		if open == 0 {
			return nil
		}
		if open != last {
			last, since = open, time.Now()
		} else if time.Since(since) > stallLimit {
			p.e.say("%d tasks have not ended, and for %s none more: %v", open, stallLimit, got.Tasks)
			return nil
		}
		if err := pause(ctx, overPoll); err != nil {
			return err
		}
	}
}

// seen collects what the workers saw of the phase.
func (p *phase) seen() (*starts, error) {
	all := &starts{}
	for _, w := range p.e.workers {
		s, err := w.report(p.id)
		if err != nil {
			return nil, err
		}
		all.merge(s)
	}
	return all, nil
}
