package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
)

// Footprint fills the cluster with waiting tasks and measures what they cost:
// memory, disk, restarts, snapshots and the punctuality of others.
type Footprint struct {
	Tasks    int
	Payload  int     // bytes
	Snapshot int     // MiB of log between snapshots; 0: the servers' default
	Writes   float64 // a second, while snapshots are awaited
	Probe    Lateness
}

// DefaultFootprint is what the promise speaks of.
var DefaultFootprint = Footprint{
	Tasks: 1_000_000, Payload: 100, Writes: 250, Probe: Lateness{Rate: 1000, Time: 15 * time.Second, Payload: 100},
}

const (
	restartLimit = 2 * time.Minute // for a server to serve again

	// While snapshots are made, writes of some size make the log grow to where
	// the servers' own setting asks for one.
	snapshotProbe   = 4 * time.Millisecond   // between two writes
	snapshotPayload = 8 << 10                // bytes of each
	snapshotLimit   = 3 * time.Minute        // for every server to have made one
	snapshotNear    = 750 * time.Millisecond // around it, a gap between writes may be its work
	snapshotLook    = 500 * time.Millisecond // between two looks at the servers' counters
)

// Name implements Scenario.
func (Footprint) Name() string { return "footprint" }

func (s Footprint) needs() needs {
	n := needs{own: true, noop: true}
	if s.Snapshot > 0 {
		n.serverArgs = []string{"--snapshot-mib", strconv.Itoa(s.Snapshot)}
	}
	return n
}

func (s Footprint) run(ctx context.Context, e *env, r *Result) error {
	none, err := e.punctuality(ctx, s.Probe)
	if err != nil {
		return err
	}
	p, err := e.newPhase(ctx, s.Tasks, s.Payload)
	if err != nil {
		return err
	}
	e.say("footprint: submitting %d tasks that wait", s.Tasks)
	before := e.spent()
	start := time.Now()
	_, err = p.flood(ctx, DefaultIngest.Batch, DefaultIngest.Callers, func(n int) client.SubmitRequest {
		return after(p.request(n), far(n))
	})
	if err != nil {
		return err
	}
	r.set("tasks", float64(s.Tasks))
	r.set("tasks_per_s", float64(s.Tasks)/time.Since(start).Seconds())
	e.cores(r, before)
	if err := e.settle(ctx); err != nil {
		return err
	}
	r.set("rss_mib_rest", mib(e.monitor.rest()))
	full, err := e.punctuality(ctx, s.Probe)
	if err != nil {
		return err
	}
	s.compare(r, none, full)
	if err := s.snapshots(ctx, e, r); err != nil {
		return err
	}
	if err := s.restarts(ctx, e, r); err != nil {
		return err
	}
	return s.complete(ctx, e, r, p)
}

// compare sets what the waiting tasks do to the punctuality of others.
func (s Footprint) compare(r *Result, none, full punctual) {
	none.late.sort()
	full.late.spread(r, "lateness_")
	without, with := none.late.quantile(0.99), full.late.quantile(0.99)
	r.set("lateness_none_p99_ms", ms(without))
	if without > 0 {
		r.set("lateness_ratio", float64(with)/float64(without))
	}
	full.early, full.lost, full.doubled = full.early+none.early, full.lost+none.lost, full.doubled+none.doubled
	full.report(r)
	r.set("unsuccessful", float64(none.unsuccessful+full.unsuccessful))
}

// complete checks that every task still waits.
func (s Footprint) complete(ctx context.Context, e *env, r *Result, p *phase) error {
	got, err := e.admin.Job(ctx, p.job)
	if err != nil {
		return err
	}
	lost, _ := r.Value("lost")
	r.set("lost", lost+float64(s.Tasks)-float64(got.Tasks["pending"]))
	return nil
}

// snapshots has writes come in until every server has made a snapshot, and
// measures what that does to them.
func (s Footprint) snapshots(ctx context.Context, e *env, r *Result) error {
	e.say("footprint: writing until every server makes a snapshot")
	b, err := e.startProbes(ctx, s.Writes, snapshotPayload)
	if err != nil {
		return err
	}
	defer func() { _ = b.stop() }()
	ctx, cancel := context.WithTimeout(ctx, snapshotLimit)
	defer cancel()
	var made []time.Time
	first, _, err := e.snapshotFigures(ctx)
	if err != nil {
		return err
	}
	for last := first; last-first < len(e.cluster.Servers); {
		if err := pause(ctx, snapshotLook); err != nil {
			return fmt.Errorf("%d snapshots within %s: %w", last-first, snapshotLimit, err)
		}
		now, _, err := e.snapshotFigures(ctx)
		if err != nil {
			return err
		}
		if now > last {
			made = append(made, time.Now())
		}
		last = now
	}
	if err := pause(ctx, snapshotNear); err != nil {
		return err
	}
	if err := b.stop(); err != nil {
		return err
	}
	taken, standstill, err := e.snapshotFigures(ctx)
	if err != nil {
		return err
	}
	near, apart := b.gaps(made, snapshotNear)
	r.set("snapshots", float64(taken))
	r.set("snapshot_pause_ms", ms(standstill))
	r.set("write_gap_snapshot_ms", ms(near))
	r.set("write_gap_none_ms", ms(apart))
	return nil
}

// gaps are the longest times without an acknowledged write: near the given
// instants, and apart from them.
func (b *probes) gaps(at []time.Time, within time.Duration) (near, apart time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := 1; i < len(b.acks); i++ {
		from, to := b.acks[i-1].to, b.acks[i].to
		isNear := false
		for _, t := range at {
			isNear = isNear || from.Before(t.Add(within)) && to.After(t.Add(-within))
		}
		if gap := to.Sub(from); isNear {
			near = max(near, gap)
		} else {
			apart = max(apart, gap)
		}
	}
	return near, apart
}

// restarts kills every server once and then all together, and measures from the
// new process to its readiness.
func (s Footprint) restarts(ctx context.Context, e *env, r *Result) error {
	excused := e.monitor.excuse(ctx)
	defer excused()
	var slowest time.Duration
	for _, server := range e.cluster.Servers {
		if err := server.Kill(); err != nil {
			return err
		}
		// The others need a leader again, else this measures their election.
		if _, err := e.cluster.AwaitLeader(ctx); err != nil {
			return err
		}
		took, err := e.restart(ctx, server)
		if err != nil {
			return err
		}
		e.say("footprint: %s serves %.2f s after its restart", server.Name(), took.Seconds())
		slowest = max(slowest, took)
	}
	r.set("restart_s", slowest.Seconds())
	var killed []error
	for _, server := range e.cluster.Servers {
		killed = append(killed, server.Kill())
	}
	if err := errors.Join(killed...); err != nil {
		return err
	}
	took, err := e.restart(ctx, e.cluster.Servers...)
	if err != nil {
		return err
	}
	e.say("footprint: all three serve %.2f s after their restart", took.Seconds())
	r.set("restart_all_s", took.Seconds())
	return nil
}

// restart starts servers together and waits until all of them serve.
func (e *env) restart(ctx context.Context, servers ...*process.Server) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, restartLimit)
	defer cancel()
	start := time.Now()
	for _, s := range servers {
		if err := s.Start(); err != nil {
			return 0, err
		}
	}
	for _, s := range servers {
		if err := e.cluster.AwaitReady(ctx, s); err != nil {
			return 0, err
		}
	}
	return time.Since(start), nil
}

// The bounds for a million tasks and for ten million.
const manyTasks = 2_000_000

func (s Footprint) judge(r *Result) {
	if s.Tasks > manyTasks {
		r.atMost("rss_mib_max", 512)
		r.atMost("restart_s", 5)
		r.atMost("lateness_ratio", 1.3)
	} else {
		r.atMost("rss_mib_max", 256)
		r.atMost("restart_s", 2)
		r.atMost("snapshot_pause_ms", 20)
	}
	r.sound()
}
