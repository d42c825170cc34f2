package bench

import (
	"context"
	"time"
)

// Idle lets three servers stand without workers or load.
type Idle struct{ Time time.Duration }

// DefaultIdle is what the promise speaks of.
var DefaultIdle = Idle{Time: 60 * time.Second}

// Name implements Scenario.
func (Idle) Name() string { return "idle" }

func (Idle) needs() needs { return needs{own: true, quiet: true} }

func (s Idle) run(ctx context.Context, e *env, r *Result) error {
	e.say("idle: watching three servers for %s", s.Time)
	if err := pause(ctx, e.opts.Settle); err != nil {
		return err
	}
	before, start := e.spent(), time.Now()
	each := e.eachCPU()
	if err := pause(ctx, s.Time); err != nil {
		return err
	}
	wall := time.Since(start)
	busiest := time.Duration(0)
	for i, cpu := range e.eachCPU() {
		busiest = max(busiest, cpu-each[i])
	}
	e.cores(r, before)
	r.set("seconds", s.Time.Seconds())
	r.set("cpu_percent_max", 100*busiest.Seconds()/wall.Seconds())
	r.set("rss_mib_rest", mib(e.monitor.rest()))
	return nil
}

// eachCPU is each server's processor time so far.
func (e *env) eachCPU() []time.Duration {
	var out []time.Duration
	for _, s := range e.cluster.Servers {
		u, err := s.Usage()
		if err != nil {
			u.CPU = 0
		}
		out = append(out, u.CPU)
	}
	return out
}

func (Idle) judge(r *Result) {
	r.atMost("cpu_percent_max", 2)
	r.atMost("rss_mib_max", 60)
}
