package bench

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Failover kills the leader again and again while tasks come due and others are
// submitted.
type Failover struct {
	Kills int
	Rate  float64       // tasks due a second, and as many submitted
	Ahead time.Duration // from a task's submission to its due time: well above an outage
	Every time.Duration // from kill to kill, at least
	// Writes a second, beside the tasks, that show whether writes are accepted.
	Writes float64
}

// DefaultFailover is what the promise speaks of.
var DefaultFailover = Failover{Kills: 10, Rate: 200, Ahead: 15 * time.Second, Every: 8 * time.Second, Writes: 50}

// The course of one kill.
const (
	restartAfter = time.Second            // of the killed server, once writes are accepted again
	outageLimit  = 30 * time.Second       // for writes to be accepted again
	restTime     = 500 * time.Millisecond // without a kill before the first and after each
)

// Name implements Scenario.
func (Failover) Name() string { return "failover" }

func (Failover) needs() needs { return needs{own: true, noop: true} }

// span is a piece of time.
type span struct{ from, to time.Time }

func (s span) has(at int64) bool { return at >= s.from.UnixNano() && at <= s.to.UnixNano() }

func (s Failover) run(ctx context.Context, e *env, r *Result) error {
	p, err := e.newPhase(ctx, 0, 0)
	if err != nil {
		return err
	}
	probes, err := e.startProbes(ctx, s.Writes, 0)
	if err != nil {
		return err
	}
	defer func() { _ = probes.stop() }()
	load := e.startSteady(ctx, p, s.Rate, s.Ahead)
	defer func() { _, _ = load.stop() }()
	e.say("failover: %.0f tasks a second, the first come due in %s", s.Rate, s.Ahead)
	if err := pause(ctx, s.Ahead+restTime); err != nil {
		return err
	}
	before := e.spent()
	outages, err := s.kills(ctx, e, probes)
	if err != nil {
		return err
	}
	r.set("kills", float64(len(outages)))
	e.cores(r, before)
	total, err := load.stop()
	if err != nil {
		return err
	}
	if err := probes.stop(); err != nil {
		return err
	}
	unsuccessful, err := p.ended(ctx, total)
	if err != nil {
		return err
	}
	seen, err := p.seen()
	if err != nil {
		return err
	}
	missing, err := probes.missing(ctx)
	if err != nil {
		return err
	}
	v := seen.judge(total)
	v.lost += missing
	r.set("tasks", float64(total))
	r.set("rate", s.Rate)
	r.set("unsuccessful", float64(unsuccessful))
	v.late.spread(r, "")
	v.report(r)
	during := seen.dueIn(outages)
	r.set("outage_tasks", float64(len(during)))
	during.spread(r, "lateness_")
	var gaps samples
	for _, o := range outages {
		gaps = append(gaps, o.to.Sub(o.from))
	}
	gaps.spread(r, "write_gap_")
	return nil
}

// dueIn is the lateness of the tasks that came due in one of the spans.
func (s *starts) dueIn(spans []span) samples {
	var out samples
	for n, count := range s.Count {
		for _, o := range spans {
			if count > 0 && o.has(s.Due[n]*int64(time.Millisecond)) {
				out = append(out, s.late(n))
			}
		}
	}
	return out
}

// kills kills one leader after the other, and returns from when to when writes
// were not accepted.
func (s Failover) kills(ctx context.Context, e *env, probes *probes) ([]span, error) {
	var outages []span
	for n := range s.Kills {
		e.bar("leaders killed", n, s.Kills)
		leader, err := e.cluster.AwaitLeader(ctx)
		if err != nil {
			return nil, err
		}
		excused := e.monitor.excuse(ctx)
		o := span{from: time.Now()}
		if err := leader.Kill(); err != nil {
			return nil, err
		}
		if o.to, err = probes.acceptedAfter(ctx, o.from); err != nil {
			return nil, fmt.Errorf("after the kill of %s: %w", leader.Name(), err)
		}
		if _, err := e.cluster.AwaitLeader(ctx); err != nil {
			return nil, err
		}
		excused() // what the return of the killed one causes is needless
		outages = append(outages, o)
		e.say("failover: %s killed, writes accepted again after %.0f ms", leader.Name(), ms(o.to.Sub(o.from)))
		if err := pause(ctx, restartAfter); err != nil {
			return nil, err
		}
		if err := leader.Start(); err != nil {
			return nil, err
		}
		if err := e.cluster.AwaitReady(ctx, leader); err != nil {
			return nil, err
		}
		if err := pause(ctx, max(restTime, time.Until(o.from.Add(s.Every)))); err != nil {
			return nil, err
		}
	}
	return outages, nil
}

func (Failover) judge(r *Result) {
	r.atMost("lateness_p99_ms", 50)
	r.atMost("write_gap_p99_ms", 3000)
	r.sound()
}

// steady is a load that goes on until it is stopped.
type steady struct {
	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{}
	total  int
	err    error
}

// startSteady submits numbered tasks of a phase, each due so long after its
// call, on a schedule that waits for nothing.
func (e *env) startSteady(ctx context.Context, p *phase, rate float64, ahead time.Duration) *steady {
	stopped, cancel := context.WithCancel(ctx)
	l := &steady{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(l.done)
		clients, err := e.clients(loadClients, retryTime)
		if err != nil {
			l.err = err
			return
		}
		defer closeAll(clients)
		l.total, l.err = pace(ctx, stopped, maxNumber, rate, func(ctx context.Context, n int, sent time.Time) error {
			_, err := clients[n%len(clients)].Submit(ctx, at(p.request(n), sent.Add(ahead)))
			return err
		})
	}()
	return l
}

// stop ends the load, lets its calls end, and returns how many tasks were
// acknowledged: all, or there is an error.
func (l *steady) stop() (total int, err error) {
	l.once.Do(func() { l.cancel(); <-l.done })
	return l.total, l.err
}

// probes are small writes on a schedule that waits for nothing. They tell since
// when writes are accepted again.
type probes struct {
	p      *phase
	cancel context.CancelFunc
	once   sync.Once
	done   chan struct{}
	err    error

	mu    sync.Mutex
	acks  []span // from the call to its answer, in the order of answers
	fresh chan struct{}
}

// startProbes submits tasks that never come due here. A probe that fails tells
// nothing: its call is not repeated.
func (e *env) startProbes(ctx context.Context, rate float64, payload int) (*probes, error) {
	phase, err := e.newPhase(ctx, 0, payload)
	if err != nil {
		return nil, err
	}
	clients, err := e.clients(loadClients, -1)
	if err != nil {
		return nil, err
	}
	stopped, cancel := context.WithCancel(ctx)
	b := &probes{p: phase, cancel: cancel, done: make(chan struct{}), fresh: make(chan struct{}, 1)}
	go func() {
		defer close(b.done)
		defer closeAll(clients)
		_, b.err = pace(ctx, stopped, maxNumber, rate, func(ctx context.Context, n int, _ time.Time) error {
			begin := time.Now()
			if _, err := clients[n%len(clients)].Submit(ctx, after(phase.request(n), far(n))); err == nil {
				b.ack(span{begin, time.Now()})
			}
			return nil
		})
	}()
	return b, nil
}

func (b *probes) ack(s span) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acks = append(b.acks, s)
	select {
	case b.fresh <- struct{}{}:
	default:
	}
}

func (b *probes) stop() error {
	b.once.Do(func() { b.cancel(); <-b.done })
	return b.err
}

// acceptedAfter waits for the first write that was begun after an instant to be
// acknowledged, and returns when that was.
func (b *probes) acceptedAfter(ctx context.Context, from time.Time) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, outageLimit)
	defer cancel()
	for seen := 0; ; {
		var at time.Time
		if at, seen = b.begunAfter(from, seen); !at.IsZero() {
			return at, nil
		}
		select {
		case <-b.fresh:
		case <-ctx.Done():
			return time.Time{}, fmt.Errorf("no write was accepted within %s: %w", outageLimit, context.Cause(ctx))
		}
	}
}

// begunAfter looks from an index on for a write that was begun after an instant,
// and returns when it was acknowledged, or else how far it looked.
func (b *probes) begunAfter(from time.Time, index int) (acked time.Time, looked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.acks[index:] {
		if s.from.After(from) {
			return s.to, index
		}
	}
	return time.Time{}, len(b.acks)
}

// missing counts the acknowledged probes that the cluster doesn't have.
func (b *probes) missing(ctx context.Context) (int, error) {
	got, err := b.p.e.admin.Job(ctx, b.p.job)
	if err != nil {
		return 0, err
	}
	have := 0
	for _, n := range got.Tasks {
		have += int(n)
	}
	return max(len(b.acks)-have, 0), nil
}
