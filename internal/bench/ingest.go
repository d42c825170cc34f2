package bench

import (
	"context"
	"time"

	"github.com/axd-project/axd/client"
)

// Ingest submits delayed tasks with idempotency keys as fast as the callers can,
// each waiting for its answer.
type Ingest struct {
	Tasks   int
	Batch   int // tasks of one call
	Callers int
	Payload int // bytes
}

// DefaultIngest is what the promise speaks of.
var DefaultIngest = Ingest{Tasks: 200_000, Batch: 500, Callers: 8, Payload: 100}

// The delays lie far enough ahead that nothing comes due meanwhile.
const (
	farDelay  = time.Hour
	farSpread = 24 * time.Hour
)

// far is the delay of the n-th waiting task: spread, and not in the
// order of submission.
func far(n int) time.Duration {
	return farDelay + time.Duration(uint32(n)*2654435761)*(farSpread>>32) //nolint:gosec // it scatters
}

// Name implements Scenario.
func (s Ingest) Name() string {
	if s.Batch == 1 {
		return "ingest-single"
	}
	return "ingest"
}

func (Ingest) needs() needs { return needs{} }

func (s Ingest) run(ctx context.Context, e *env, r *Result) error {
	p, err := e.newPhase(ctx, s.Tasks, s.Payload)
	if err != nil {
		return err
	}
	e.say("%s: submitting %d delayed tasks, %d a call, %d callers", s.Name(), s.Tasks, s.Batch, s.Callers)
	before := e.spent()
	start := time.Now()
	took, err := p.flood(ctx, s.Batch, s.Callers, func(n int) client.SubmitRequest { return after(p.request(n), far(n)) })
	if err != nil {
		return err
	}
	wall := time.Since(start)
	e.cores(r, before)
	r.set("tasks", float64(s.Tasks))
	r.set("batch", float64(s.Batch))
	r.set("callers", float64(s.Callers))
	r.set("seconds", wall.Seconds())
	r.set("tasks_per_s", float64(s.Tasks)/wall.Seconds())
	took.spread(r, "")
	return nil
}

func (s Ingest) judge(r *Result) {
	if s.Batch == 1 {
		r.fast(8_000)
		r.atMost("p99_ms", 30)
		return
	}
	r.fast(50_000)
}
