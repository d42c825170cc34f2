package bench

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/job"
)

// Cron creates schedules that each fire once a minute, spread over it, and measures
// how long after their planned times the no-op handlers start.
type Cron struct {
	Schedules int
	Overlap   string // the schedules' rule; empty: the default
	Time      time.Duration
	Payload   int // bytes
}

// DefaultCron is what the promise speaks of.
var DefaultCron = Cron{Schedules: 100_000, Time: time.Minute, Payload: 60}

const (
	cronCallers = 64
	cronClients = 8
	cronProbe   = 1000 // schedules without times that tell how long it takes to create the others
	cronSpare   = 1.5  // of that time
)

// Name implements Scenario.
func (Cron) Name() string { return "cron" }

func (Cron) needs() needs { return needs{noop: true} }

func (s Cron) run(ctx context.Context, e *env, r *Result) error {
	p, err := e.newPhase(ctx, s.Schedules, s.Payload)
	if err != nil {
		return err
	}
	e.say("cron: creating %d schedules", s.Schedules)
	probed := time.Now()
	if err := e.createAll(ctx, p.job+"-probe", cronProbe, func(int) job.ScheduleSpec { return job.ScheduleSpec{Job: p.job} }); err != nil {
		return err
	}
	created := time.Now()
	lead := time.Duration(float64(created.Sub(probed)) * cronSpare * float64(s.Schedules) / cronProbe)
	begin := created.Add(lead + 2*e.opts.Lead).Truncate(time.Second)
	if err := e.createAll(ctx, p.job, s.Schedules, func(n int) job.ScheduleSpec { return s.spec(p, n, begin) }); err != nil {
		return err
	}
	r.set("creates_per_s", float64(s.Schedules)/time.Since(created).Seconds())
	if time.Now().Add(e.opts.Lead).After(begin) {
		return fmt.Errorf("creating took longer than %s, so times were late before they were there; lower --schedules", lead)
	}
	if err := pause(ctx, time.Until(begin)); err != nil {
		return err
	}
	leader, err := e.leader(ctx)
	if err != nil {
		return err
	}
	before, own := e.spent(), cpuSpent(leader)
	if err := pause(ctx, s.Time); err != nil {
		return err
	}
	if leader != nil {
		r.set("cpu_cores_leader", (cpuSpent(leader)-own).Seconds()/time.Since(before.at).Seconds())
	}
	e.cores(r, before)
	unsuccessful, err := p.ended(ctx, s.Schedules)
	if err != nil {
		return err
	}
	seen, err := p.seen()
	if err != nil {
		return err
	}
	r.set("schedules", float64(s.Schedules))
	r.set("unsuccessful", float64(unsuccessful))
	v := seen.judge(s.Schedules)
	v.late.spread(r, "")
	v.late.spread(r, "lateness_")
	v.report(r)
	return nil
}

// spec is the n-th schedule; it has one time within the minute that is measured.
func (s Cron) spec(p *phase, n int, begin time.Time) job.ScheduleSpec {
	at := begin.Add(time.Duration(float64(s.Time) * float64(n) / float64(s.Schedules)))
	return job.ScheduleSpec{
		Job: p.job, Payload: job.JSON(fill(p.id, n, s.Payload)), Every: job.Duration(time.Minute),
		Anchor: job.Timestamp(at.UnixMilli()), Start: job.Timestamp(begin.UnixMilli()),
		End: job.Timestamp(begin.Add(s.Time).UnixMilli()), Overlap: job.Overlap(s.Overlap),
	}
}

// createAll puts so many schedules, by many callers.
func (e *env) createAll(ctx context.Context, name string, total int, spec func(n int) job.ScheduleSpec) error {
	clients, err := e.clients(cronClients, retryTime)
	if err != nil {
		return err
	}
	defer closeAll(clients)
	var next, done atomic.Int64
	calls, ctx := errgroup.WithContext(ctx)
	for i := range cronCallers {
		c := clients[i%len(clients)]
		calls.Go(func() error {
			for {
				n := int(next.Add(1)) - 1
				if n >= total {
					return nil
				}
				if _, err := c.PutSchedule(ctx, fmt.Sprintf("%s-%d", name, n), spec(n)); err != nil {
					return err
				}
				e.bar("created", int(done.Add(1)), total)
			}
		})
	}
	return calls.Wait()
}

// leader is the process that leads; nil where it is not the bench's own.
func (e *env) leader(ctx context.Context) (*process.Process, error) {
	if e.cluster == nil {
		return nil, nil
	}
	got, err := e.admin.Cluster(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range e.cluster.Servers {
		if p.Name() == got.Leader {
			return p.Process, nil
		}
	}
	return nil, fmt.Errorf("no server of the bench leads: the leader is %q", got.Leader)
}

func cpuSpent(p *process.Process) time.Duration {
	if p == nil {
		return 0
	}
	u, err := p.Usage()
	if err != nil {
		return 0
	}
	return u.CPU
}

func (Cron) judge(r *Result) {
	r.atMost("p99_ms", 50)
	r.atMost("cpu_cores_leader", 0.5)
	r.sound()
}
