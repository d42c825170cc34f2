package bench

import (
	"context"
	"time"
)

// Immediate submits tasks that are due at once, one call each, on a schedule
// that waits for nothing, and measures from each call to the start of its
// handler.
type Immediate struct {
	Rate    float64 // calls a second
	Time    time.Duration
	Payload int // bytes
}

// DefaultImmediate is what the promise speaks of.
var DefaultImmediate = Immediate{Rate: 1000, Time: 20 * time.Second, Payload: 100}

// loadClients is how many clients carry an open loop's calls: each has
// connections of its own.
const loadClients = 12

// Name implements Scenario.
func (Immediate) Name() string { return "immediate" }

func (Immediate) needs() needs { return needs{noop: true} }

func (s Immediate) run(ctx context.Context, e *env, r *Result) error {
	total := int(s.Rate * s.Time.Seconds())
	p, err := e.newPhase(ctx, total, s.Payload)
	if err != nil {
		return err
	}
	clients, err := e.clients(loadClients, retryTime)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	e.say("immediate: submitting %.0f tasks a second for %s", s.Rate, s.Time)
	calls, acks := make([]time.Time, total), make(samples, total)
	before := e.spent()
	start := time.Now()
	_, err = pace(ctx, ctx, total, s.Rate, func(ctx context.Context, n int, sent time.Time) error {
		calls[n] = sent
		e.bar("submitted", n, total)
		_, err := clients[n%len(clients)].Submit(ctx, p.request(n))
		acks[n] = time.Since(sent)
		return err
	})
	if err != nil {
		return err
	}
	r.set("tasks_per_s", float64(total)/time.Since(start).Seconds())
	unsuccessful, err := p.ended(ctx, total)
	if err != nil {
		return err
	}
	e.cores(r, before)
	seen, err := p.seen()
	if err != nil {
		return err
	}
	r.set("tasks", float64(total))
	r.set("rate", s.Rate)
	r.set("seconds", s.Time.Seconds())
	r.set("unsuccessful", float64(unsuccessful))
	seen.sinceCalls(calls).spread(r, "")
	acks.spread(r, "ack_")
	v := seen.judge(total)
	v.report(r)
	return nil
}

// sinceCalls is how long after its call each task started.
func (s *starts) sinceCalls(calls []time.Time) samples {
	var out samples
	for n, at := range s.At {
		if s.Count[n] > 0 && n < len(calls) {
			out = append(out, time.Duration(at-calls[n].UnixNano()))
		}
	}
	return out
}

func (Immediate) judge(r *Result) {
	r.atMost("p50_ms", 4)
	r.atMost("p99_ms", 20)
	r.sound()
}

// sound judges that every task started once and in time.
func (r *Result) sound() {
	r.atMost("early", 0)
	r.atMost("lost", 0)
	r.atMost("doubled", 0)
}
