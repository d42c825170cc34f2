package trial

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

const (
	settleTime = 60 * time.Second // for all tasks to end after all is healed
	toldTime   = 60 * time.Second // for all callbacks to be taken
	agreeTime  = 20 * time.Second
	stopTime   = 20 * time.Second
)

// brokenError is a promise that was not kept, where it keeps a scenario from going on.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// settle lets the cluster come to rest after all is healed, and ends it.
func (st *stage) settle(ctx context.Context) error {
	st.net.Heal()
	st.load.stop()
	for _, s := range st.Servers {
		if err := st.ready(ctx, s); err != nil {
			return err
		}
	}
	for _, step := range []func(context.Context) error{st.load.quiet, st.employed, st.ended, st.told, st.agreed} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	var err error
	if st.after, err = st.holdings(ctx); err != nil {
		return err
	}
	return st.stopAll(ctx)
}

// waits asks until done says nil; that it never does breaks a promise.
func (st *stage) waits(ctx context.Context, limit time.Duration, done func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, st.speed.scale(limit))
	defer cancel()
	for {
		err := done(ctx)
		if err == nil {
			return nil
		}
		if rest := st.rest(ctx, lookEvery); errors.Is(rest, context.DeadlineExceeded) {
			return &brokenError{fmt.Errorf("%s after all was healed %w", limit, err)}
		} else if rest != nil {
			return rest
		}
	}
}

// employed wants every worker to do something that no other can.
func (st *stage) employed(ctx context.Context) error {
	var all sync.WaitGroup
	failed := make([]error, workers)
	for i, w := range st.workers[:workers] {
		all.Go(func() {
			r := client.SubmitRequest{Executor: st.attempts.command(0, 0), Policy: policy(), IdempotencyKey: "probe-" + st.names[w]}
			r.Selector = map[string]string{"node": st.names[w]}
			failed[i] = st.waits(ctx, settleTime, func(ctx context.Context) error {
				t, err := st.operator().Submit(ctx, r) // again and again the same task
				if err == nil && t.State != job.Success.String() {
					err = fmt.Errorf("a task that worker %s alone can run is %s", st.names[w], t.State)
				}
				return err
			})
		})
	}
	all.Wait()
	return errors.Join(failed...)
}

// ended wants every task to have ended.
func (st *stage) ended(ctx context.Context) error {
	return st.waits(ctx, settleTime, func(ctx context.Context) error {
		stats, err := st.operator().Stats(ctx)
		if err != nil {
			return err
		}
		for state, n := range stats.Tasks {
			if n > 0 && !client.Ended(state) {
				return fmt.Errorf("%d tasks are %s", n, state)
			}
		}
		return nil
	})
}

// told wants every callback to be taken. Those that wait for their next try are
// sent at once.
func (st *stage) told(ctx context.Context) error {
	return st.waits(ctx, toldTime, func(ctx context.Context) error {
		owed, err := st.operator().Callbacks(ctx, "owed", 1000, "")
		if err != nil || len(owed.Callbacks) == 0 {
			return err
		}
		for _, c := range owed.Callbacks {
			if _, err := st.operator().Redeliver(ctx, c.ID); err != nil {
				return err
			}
		}
		return fmt.Errorf("%d callbacks are owed", len(owed.Callbacks))
	})
}

// agreed wants all servers to have applied the same entries, after the last write.
func (st *stage) agreed(ctx context.Context) error {
	st.watch.stop()
	var clients []*client.Client
	for _, s := range st.Servers {
		c, err := client.New(client.Config{Addresses: []string{s.HTTP}, Stale: true, RetryTime: -1})
		if err != nil {
			return err
		}
		defer c.Close()
		clients = append(clients, c)
	}
	return st.waits(ctx, agreeTime, func(ctx context.Context) error {
		var applied []uint64
		for _, c := range clients {
			got, err := c.Cluster(ctx)
			if err != nil {
				return err
			}
			applied = append(applied, got.Applied)
		}
		if slices.Max(applied) != slices.Min(applied) {
			return fmt.Errorf("the servers have applied entries up to %d", applied)
		}
		return nil
	})
}

// stopAll ends workers, then servers, the leader last, each in order.
func (st *stage) stopAll(ctx context.Context) error {
	for _, w := range st.workers {
		if err := w.Stop(st.speed.scale(stopTime)); err != nil {
			return &brokenError{err}
		}
	}
	leader, err := st.leader(ctx)
	if err != nil {
		return err
	}
	for _, s := range append(st.others(leader), leader) {
		if err := s.Stop(st.speed.scale(stopTime)); err != nil {
			return &brokenError{err}
		}
		if code := s.ExitCode(); code != 0 {
			st.violated("server %s ended with code %d at SIGTERM; the end of its log:\n%s", s.Name(), code, s.Tail())
		}
	}
	return nil
}
