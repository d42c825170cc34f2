package bench

import (
	"context"
	"time"

	"github.com/axd-project/axd/client"
)

// Drain submits immediate no-op tasks as fast as the callers can, and measures
// from the first call until all have ended.
type Drain struct {
	Tasks   int
	Batch   int // tasks of one call
	Callers int
	Payload int // bytes
}

// DefaultDrain is what the promise speaks of.
var DefaultDrain = Drain{Tasks: 100_000, Batch: 500, Callers: 8, Payload: 100}

// Name implements Scenario.
func (Drain) Name() string { return "drain" }

func (Drain) needs() needs { return needs{noop: true} }

func (s Drain) run(ctx context.Context, e *env, r *Result) error {
	p, err := e.newPhase(ctx, s.Tasks, s.Payload)
	if err != nil {
		return err
	}
	e.say("drain: submitting %d immediate tasks and waiting for their end", s.Tasks)
	before := e.spent()
	start := time.Now()
	took, err := p.flood(ctx, s.Batch, s.Callers, func(n int) client.SubmitRequest { return p.request(n) })
	if err != nil {
		return err
	}
	unsuccessful, err := p.ended(ctx, s.Tasks)
	if err != nil {
		return err
	}
	wall := time.Since(start)
	e.cores(r, before)
	seen, err := p.seen()
	if err != nil {
		return err
	}
	r.set("tasks", float64(s.Tasks))
	r.set("batch", float64(s.Batch))
	r.set("callers", float64(s.Callers))
	r.set("seconds", wall.Seconds())
	r.set("tasks_per_s", float64(s.Tasks)/wall.Seconds())
	r.set("unsuccessful", float64(unsuccessful))
	took.spread(r, "ack_")
	v := seen.judge(s.Tasks)
	v.report(r)
	return nil
}

func (Drain) judge(r *Result) {
	r.fast(15_000)
	r.sound()
}
