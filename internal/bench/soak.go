package bench

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

// Soak keeps a steady load up, in and out, and looks for what grows or slows.
type Soak struct {
	Time      time.Duration
	Rate      float64       // tasks a second, in and out
	Spread    time.Duration // delays are even from nothing to this
	Retention time.Duration // of ended tasks
	Snapshot  int           // MiB of log between snapshots
}

// DefaultSoak is what the promise speaks of.
var DefaultSoak = Soak{
	Time: 15 * time.Minute, Rate: 1000, Spread: 5 * time.Minute, Retention: 2 * time.Minute, Snapshot: 4,
}

const (
	soakBatch   = 20          // tasks of one call
	soakPace    = 5000        // first tasks submitted a second, at least
	soakMinute  = time.Minute // that is compared at both ends
	diskEvery   = 5 * time.Second
	soakPayload = 100
)

// Name implements Scenario.
func (Soak) Name() string { return "soak" }

func (s Soak) needs() needs {
	return needs{own: true, noop: true, serverArgs: []string{
		"--retention", job.Duration(s.Retention).String(), "--snapshot-mib", strconv.Itoa(s.Snapshot),
	}}
}

func (s Soak) run(ctx context.Context, e *env, r *Result) error {
	p, err := e.newPhase(ctx, 0, soakPayload)
	if err != nil {
		return err
	}
	begin, first, err := s.prefill(ctx, e, p)
	if err != nil {
		return err
	}
	before := e.spent()
	disk := watchDisk(ctx, e.cluster)
	defer disk.stop()
	mark := e.monitor.mark()
	total, err := s.keepUp(ctx, e, p, first)
	if err != nil {
		return err
	}
	e.cores(r, before)
	end := time.Now()
	memory := e.monitor.series(mark)
	sizes := disk.stop()
	e.say("soak: the last of %d tasks come due within %s", total, s.Spread)
	if err := p.over(ctx); err != nil {
		return err
	}
	seen, err := p.seen()
	if err != nil {
		return err
	}
	taken, standstill, err := e.snapshotFigures(ctx)
	if err != nil {
		return err
	}
	minute := min(soakMinute, end.Sub(begin)/3)
	head := seen.dueIn([]span{{begin, begin.Add(minute)}}).sort()
	tail := seen.dueIn([]span{{end.Add(-minute), end}}).sort()
	v := seen.judge(total)
	r.set("tasks", float64(total))
	r.set("rate", s.Rate)
	r.set("seconds", s.Time.Seconds())
	r.set("snapshots", float64(taken))
	r.set("snapshot_pause_ms", ms(standstill))
	v.late.spread(r, "lateness_")
	v.report(r)
	r.set("lateness_first_p99_ms", ms(head.quantile(0.99)))
	r.set("lateness_last_p99_ms", ms(tail.quantile(0.99)))
	if first := head.quantile(0.99); first > 0 {
		r.set("lateness_ratio", float64(tail.quantile(0.99))/float64(first))
	}
	r.set("rss_growth", growth(memory))
	r.set("disk_growth", growth(sizes))
	return nil
}

// prefill submits the tasks that would be waiting had the load gone on for
// ever: as many come due at first as later. It returns when that begins and how
// many there are.
func (s Soak) prefill(ctx context.Context, e *env, p *phase) (begin time.Time, tasks int, err error) {
	p.total = int(s.Rate * s.Spread.Seconds() / 2)
	begin = time.Now().Add(e.opts.Lead + time.Duration(float64(p.total)/soakPace*float64(time.Second)))
	e.say("soak: submitting %d tasks to begin with", p.total)
	_, err = p.flood(ctx, aheadBatch, aheadCallers, func(n int) client.SubmitRequest {
		// Of two draws the earlier: the density falls evenly to nothing.
		in := time.Duration(min(rand.Int64N(int64(s.Spread)), rand.Int64N(int64(s.Spread))))
		return at(s.request(p, n), begin.Add(in))
	})
	if err == nil {
		err = pause(ctx, time.Until(begin))
	}
	return begin, p.total, err
}

// keepUp submits at the rate for the time, numbering from first, and returns
// how many tasks there are then.
func (s Soak) keepUp(ctx context.Context, e *env, p *phase, first int) (total int, err error) {
	clients, err := e.clients(loadClients, retryTime)
	if err != nil {
		return 0, err
	}
	defer closeAll(clients)
	e.say("soak: %.0f tasks a second in and out for %s", s.Rate, s.Time)
	calls := int(s.Rate * s.Time.Seconds() / soakBatch)
	_, err = pace(ctx, ctx, calls, s.Rate/soakBatch, func(ctx context.Context, n int, _ time.Time) error {
		e.bar("calls", n, calls)
		_, err := submit(ctx, clients[n%len(clients)], first+n*soakBatch, soakBatch, func(n int) client.SubmitRequest {
			return after(s.request(p, n), time.Duration(rand.Int64N(int64(s.Spread))).Truncate(time.Millisecond))
		})
		return err
	})
	return first + calls*soakBatch, err
}

// request is a task whose key is kept no longer than the task: a day's keys, as by
// default, would not level off.
func (s Soak) request(p *phase, n int) client.SubmitRequest {
	r := p.request(n)
	r.IdempotencyWindow = new(job.Duration(s.Retention))
	return r
}

func (s Soak) judge(r *Result) {
	r.atMost("lateness_ratio", 1.3)
	r.atMost("rss_growth", 1.1)
	r.atMost("disk_growth", 1.1)
	r.sound()
}

// growth compares the last quarter of a series with the one before it, by their
// medians: what levels off stays near 1.
func growth(series []int64) float64 {
	n := len(series)
	if n < 4 {
		return 0
	}
	before, last := median(series[n/2:3*n/4]), median(series[3*n/4:])
	if before == 0 {
		return 0
	}
	return float64(last) / float64(before)
}

func median(series []int64) int64 {
	s := slices.Sorted(slices.Values(series))
	return s[len(s)/2]
}

// diskWatch samples what the servers' data takes on disk.
type diskWatch struct {
	cancel context.CancelFunc
	done   sync.WaitGroup
	sizes  []int64
}

func watchDisk(ctx context.Context, c *process.Cluster) *diskWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &diskWatch{cancel: cancel}
	w.done.Go(func() {
		every(ctx, diskEvery, func() {
			if n, err := c.DiskUsage(); err == nil {
				w.sizes = append(w.sizes, n)
			}
		})
	})
	return w
}

// stop ends the watch and returns what it saw.
func (w *diskWatch) stop() []int64 {
	w.cancel()
	w.done.Wait()
	return w.sizes
}
