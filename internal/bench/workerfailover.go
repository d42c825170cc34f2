package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// WorkerFailover kills a worker while its tasks run.
type WorkerFailover struct {
	Tasks int // that run; half of them are idempotent
}

// DefaultWorkerFailover is what the promise speaks of.
var DefaultWorkerFailover = WorkerFailover{Tasks: 2000}

const (
	failoverWorkers = 5
	runPause        = 2 * time.Second  // from the start of all to the kill
	againTime       = 20 * time.Second // from the kill to the end: a lease, and time for what must not happen
	holdTime        = time.Hour        // that a task runs, unless it is stopped
	detectPoll      = 20 * time.Millisecond
)

// Name implements Scenario.
func (WorkerFailover) Name() string { return "worker-failover" }

func (WorkerFailover) needs() needs { return needs{noop: true, workers: failoverWorkers} }

// held makes a phase's tasks run for longer than the scenario.
func (p *phase) held(n int) client.SubmitRequest {
	r := p.request(n)
	r.Payload = fmt.Appendf(nil, `{"phase":%d,"n":%d,"work_ms":%d}`, p.id, n, holdTime.Milliseconds())
	return r
}

func (s WorkerFailover) run(ctx context.Context, e *env, r *Result) error {
	if left := (e.opts.Workers - 1) * e.opts.Slots * (100 - job.DefaultHighSlots) / 100; left < s.Tasks {
		return job.Invalid("--slots", fmt.Sprintf("are too few: when a worker is killed the others have %d slots for normal priority, and %d tasks run",
			left, s.Tasks), strconv.Itoa(e.opts.Slots))
	}
	var phases []*phase
	for i, policy := range []job.Policy{{}, {Idempotent: new(true)}} {
		p, err := e.newPhaseWith(ctx, (s.Tasks+1-i)/2, 0, policy)
		if err != nil {
			return err
		}
		if _, err := p.flood(ctx, aheadBatch, 1, p.held); err != nil {
			return err
		}
		phases = append(phases, p)
	}
	for _, p := range phases {
		if err := p.run(ctx); err != nil {
			return err
		}
	}
	e.say("worker-failover: %d tasks run", s.Tasks)
	if err := pause(ctx, runPause); err != nil {
		return err
	}
	victim := e.workers[0]
	killed := time.Now()
	if err := victim.Kill(); err != nil {
		return err
	}
	detected, err := e.notAlive(ctx, victim.Name())
	if err != nil {
		return err
	}
	e.say("worker-failover: %s killed, noticed after %.0f ms", victim.Name(), ms(detected.Sub(killed)))
	if err := pause(ctx, time.Until(killed.Add(againTime))); err != nil {
		return err
	}
	r.set("tasks", float64(s.Tasks))
	r.set("detected_ms", ms(detected.Sub(killed)))
	moved, lost, doubled := 0, 0, 0
	for i, p := range phases {
		seen := &starts{}
		for _, w := range e.workers[1:] {
			one, err := w.report(p.id)
			if err != nil {
				return err
			}
			seen.merge(one)
		}
		v := seen.judge(p.total)
		lost, doubled = lost+v.lost, doubled+v.doubled
		again := seen.after(killed)
		moved += len(again)
		again.spread(r, []string{"again_", "idempotent_"}[i])
	}
	r.set("moved", float64(moved))
	r.set("lost", float64(lost))
	r.set("doubled", float64(doubled))
	return nil
}

// run waits until all tasks of a phase run.
func (p *phase) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stallLimit)
	defer cancel()
	for {
		got, err := p.e.admin.Job(ctx, p.job)
		if err != nil {
			return err
		}
		running := int(got.Tasks["running"])
		p.e.bar("running", running, p.total)
		if running >= p.total {
			return nil
		}
		if err := pause(ctx, statePoll); err != nil {
			return fmt.Errorf("%d of %d tasks run: %w", running, p.total, err)
		}
	}
}

// notAlive waits until the servers no longer call a worker alive.
func (e *env) notAlive(ctx context.Context, name string) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, stallLimit)
	defer cancel()
	for {
		got, err := e.admin.Cluster(ctx)
		if err != nil {
			return time.Time{}, err
		}
		alive := false
		for _, w := range got.Workers {
			alive = alive || w.Name == name && w.State == "alive"
		}
		if !alive {
			return time.Now(), nil
		}
		if err := pause(ctx, detectPoll); err != nil {
			return time.Time{}, fmt.Errorf("%s is still called alive: %w", name, err)
		}
	}
}

// after is how long after an instant those tasks started that started after it.
func (s *starts) after(t time.Time) samples {
	var out samples
	for n, count := range s.Count {
		if d := time.Duration(s.At[n] - t.UnixNano()); count > 0 && d > 0 {
			out = append(out, d)
		}
	}
	return out
}

func (WorkerFailover) judge(r *Result) {
	r.atMost("detected_ms", 2000)
	r.atMost("again_max_ms", 12_000)
	r.atMost("idempotent_max_ms", 4000)
	r.atMost("lost", 0)
	r.atMost("doubled", 0)
}
