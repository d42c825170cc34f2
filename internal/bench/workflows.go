package bench

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Workflows runs many small workflows, each once, spread over a time: two sources,
// a join, a fan of four, a second join, and two steps behind it.
type Workflows struct {
	Workflows int
	Time      time.Duration
}

// DefaultWorkflows is what the promise speaks of: 50,000 tasks.
var DefaultWorkflows = Workflows{Workflows: 5000, Time: 3 * time.Minute}

// stepsEach is how many steps each workflow has.
const stepsEach = 10

// graphOfTen is what each step needs.
var graphOfTen = [stepsEach][]int{{}, {}, {0, 1}, {2}, {2}, {2}, {2}, {3, 4, 5, 6}, {7}, {8}}

// Name implements Scenario.
func (Workflows) Name() string { return "workflows" }

func (Workflows) needs() needs { return needs{noop: true, workers: 10, slots: 20} }

func (s Workflows) run(ctx context.Context, e *env, r *Result) error {
	total := s.Workflows * stepsEach
	p, err := e.newPhase(ctx, total, 0)
	if err != nil {
		return err
	}
	clients, err := e.clients(loadClients, retryTime)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	if err := s.define(ctx, e, p, clients); err != nil {
		return err
	}
	if err := e.settle(ctx); err != nil {
		return err
	}
	e.say("workflows: running %d workflows of %d steps over %s", s.Workflows, stepsEach, s.Time)
	before := e.spent()
	var mu sync.Mutex
	var acks samples
	_, err = pace(ctx, ctx, s.Workflows, float64(s.Workflows)/s.Time.Seconds(), func(ctx context.Context, n int, sent time.Time) error {
		e.bar("started", n, s.Workflows)
		_, err := clients[n%len(clients)].StartRun(ctx, e.workflowName(n), client.StartRunRequest{})
		mu.Lock()
		acks = append(acks, time.Since(sent))
		mu.Unlock()
		return err
	})
	if err != nil {
		return err
	}
	unsuccessful, err := p.ended(ctx, total)
	if err != nil {
		return err
	}
	e.cores(r, before)
	seen, err := p.seen()
	if err != nil {
		return err
	}
	var advances samples
	early := 0
	for n := range s.Workflows {
		d, before := seen.advances(graphOfTen[:], n*stepsEach)
		advances, early = append(advances, d...), early+before
	}
	r.set("tasks", float64(total))
	r.set("workflows", float64(s.Workflows))
	r.set("seconds", s.Time.Seconds())
	r.set("unsuccessful", float64(unsuccessful))
	r.set("before_needs", float64(early))
	advances.spread(r, "advance_")
	acks.spread(r, "ack_")
	v := seen.judge(total)
	v.report(r)
	return nil
}

func (e *env) workflowName(n int) string { return fmt.Sprintf("bench-%s-%d", e.unique, n) }

// define puts the workflows.
func (s Workflows) define(ctx context.Context, e *env, p *phase, clients []*client.Client) error {
	calls, ctx := errgroup.WithContext(ctx)
	for i, c := range clients {
		calls.Go(func() error {
			for n := i; n < s.Workflows; n += len(clients) {
				var spec job.WorkflowSpec
				for m, from := range graphOfTen {
					step := job.Step{Name: fmt.Sprintf("s%d", m), Job: p.job, Payload: job.JSON(fill(p.id, n*stepsEach+m, 0))}
					for _, f := range from {
						step.Needs = append(step.Needs, fmt.Sprintf("s%d", f))
					}
					spec.Steps = append(spec.Steps, step)
				}
				if _, err := c.PutWorkflow(ctx, e.workflowName(n), spec); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return calls.Wait()
}

func (Workflows) judge(r *Result) {
	r.atMost("advance_p99_ms", 30)
	r.atMost("cpu_cores_servers", 1.2)
	r.atMost("unsuccessful", 0)
	r.atMost("before_needs", 0)
	r.sound()
}
