package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Dag runs one workflow of steps that do nothing, and measures from the end of what
// a step needs to its start.
type Dag struct {
	Shape string // ShapeChain or ShapeWide
	Steps int
}

// The shapes of a Dag.
const (
	ShapeChain = "chain" // one after the other
	ShapeWide  = "wide"  // one, so many beside each other, one
)

// DefaultDag is what the promise speaks of; so is a wide one of 10,000.
var DefaultDag = Dag{Shape: ShapeChain, Steps: 1000}

// DefaultWide is the join of many.
var DefaultWide = Dag{Shape: ShapeWide, Steps: 10_000}

// Name implements Scenario.
func (Dag) Name() string { return "dag" }

func (Dag) needs() needs { return needs{noop: true} }

// spec makes the workflow, its steps numbered from first on, and what each needs.
func (s Dag) spec(p *phase, first int) (spec job.WorkflowSpec, needs [][]int) {
	add := func(from ...int) {
		n := len(spec.Steps)
		step := job.Step{Name: fmt.Sprintf("s%d", n), Job: p.job, Payload: job.JSON(fill(p.id, first+n, 0))}
		for _, m := range from {
			step.Needs = append(step.Needs, fmt.Sprintf("s%d", m))
		}
		spec.Steps, needs = append(spec.Steps, step), append(needs, from)
	}
	add()
	if s.Shape == ShapeChain {
		for n := 1; n < s.Steps; n++ {
			add(n - 1)
		}
		return spec, needs
	}
	var all []int
	for n := 1; n < s.Steps-1; n++ {
		add(0)
		all = append(all, n)
	}
	add(all...)
	return spec, needs
}

func (s Dag) run(ctx context.Context, e *env, r *Result) error {
	p, err := e.newPhase(ctx, s.Steps, 0)
	if err != nil {
		return err
	}
	spec, needs := s.spec(p, 0)
	name := "bench-" + e.unique
	if _, err := e.admin.PutWorkflow(ctx, name, spec); err != nil {
		return err
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.say("dag: running a %s of %d steps", s.Shape, s.Steps)
	before, call := e.spent(), time.Now()
	run, err := e.admin.StartRun(ctx, name, client.StartRunRequest{})
	if err != nil {
		return err
	}
	began := time.Since(call)
	state, took, err := e.runEnded(ctx, run.ID, call)
	if err != nil {
		return err
	}
	e.cores(r, before)
	seen, err := p.seen()
	if err != nil {
		return err
	}
	unsuccessful := 0
	if state != "success" {
		unsuccessful = 1
	}
	r.set("tasks", float64(s.Steps))
	r.set("ack_max_ms", ms(began))
	r.set("run_s", took.Seconds())
	r.set("unsuccessful", float64(unsuccessful))
	advances, early := seen.advances(needs, 0)
	advances.spread(r, "advance_")
	r.set("before_needs", float64(early))
	v := seen.judge(s.Steps)
	v.report(r)
	return nil
}

// runEnded waits for the end of a run, and returns how long it took from a call.
func (e *env) runEnded(ctx context.Context, id string, call time.Time) (state string, took time.Duration, err error) {
	for done, since := int64(-1), time.Now(); ; {
		got, err := e.admin.Run(ctx, id, 1, "")
		if err != nil {
			return "", 0, err
		}
		if got.FinishedAt != nil {
			return got.State, got.FinishedAt.Sub(call), nil
		}
		n := got.Tasks["success"]
		e.bar("steps ended", int(n), got.StepCount)
		if n != done {
			done, since = n, time.Now()
		} else if time.Since(since) > stallLimit {
			e.say("%d of %d steps have ended, and for %s none more: %v", n, got.StepCount, stallLimit, got.Tasks)
			return got.State, time.Since(call), nil
		}
		if err := pause(ctx, statePoll); err != nil {
			return "", 0, err
		}
	}
}

// advances is how long after the last of what each step needs it started, numbered
// from first on, and how many started before it.
func (s *starts) advances(needs [][]int, first int) (out samples, early int) {
	for n, from := range needs {
		var last int64
		for _, m := range from {
			if first+m < len(s.At) {
				last = max(last, s.At[first+m])
			}
		}
		if last == 0 || first+n >= len(s.At) || s.Count[first+n] == 0 {
			continue
		}
		d := time.Duration(s.At[first+n] - last)
		if d < 0 {
			early++
		}
		out = append(out, d)
	}
	return out, early
}

func (s Dag) judge(r *Result) {
	if s.Shape == ShapeChain {
		r.atMost("advance_p50_ms", 8)
		r.atMost("advance_p99_ms", 30)
	} else {
		r.atMost("run_s", 5)
	}
	r.atMost("unsuccessful", 0)
	r.atMost("before_needs", 0)
	r.sound()
}
