package chaos

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"
)

// TestThirtyMinutesOfWorkflows: schedules and workflows through half an hour of faults,
// in which the clocks of Berlin go forward. Every time has its verdict, and no step
// begins before what it needs. Under the race detector it is half a minute.
func TestThirtyMinutesOfWorkflows(t *testing.T) {
	seed, given := envNumber(t, envSeed)
	if !given {
		seed = rand.Uint64() % 1e9
	}
	length := 30 * time.Minute
	if simLength < time.Minute {
		length = simLength
	}
	p := NewPlan(seed, length)
	p.Callers, p.Streams = 2, 1
	if n, given := envNumber(t, envStreams); given {
		p.Streams = int(n)
	}
	t.Logf("%s=%d", envSeed, seed) // shown even if the bubble is stuck
	began := time.Now()
	var r Report
	live(t, func() {
		pause(context.Background(), time.Until(time.Date(2027, 3, 28, 0, 45, 0, 0, time.UTC)))
		r = Run(p, slog.DiscardHandler)
	}, func() bool { return r.Ended > 0 })
	for _, v := range r.Violations {
		t.Error(v)
	}
	if t.Failed() {
		path, err := save(r, fmt.Sprintf("run it again: %s=%d go test ./chaos -run %s", envSeed, seed, t.Name()))
		t.Logf("plan of %vits report: %s %v", p, path, err)
	}
	fmt.Printf("workflows: seed %d, %v virtual in %.1f s, verdicts %v, %d runs, %d steps, %d attempts, %d calls (%d done), settled in %v, %s\n", seed,
		r.Virtual.Round(time.Second), time.Since(began).Seconds(), r.Verdicts, r.Runs, r.Steps, r.Attempts, r.Calls, r.Answered,
		r.Settled.Round(time.Second), FaultLine(r.Faults))
}
