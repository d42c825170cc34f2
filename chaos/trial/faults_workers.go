package trial

import (
	"context"
	"net/http"
	"time"

	"github.com/axd-project/axd/chaos/process"
	"github.com/axd-project/axd/chaos/proxy"
)

func workerScenarios() []Scenario {
	const group = "workers"
	return []Scenario{
		{Name: "kill-worker", Group: group, Short: true, Summary: "kill -9 of a worker, started again later", play: killWorker},
		{Name: "hang-worker", Group: group, Summary: "a worker stands still (SIGSTOP) for longer than its lease, then goes on", play: hangWorker},
		{Name: "cut-worker", Group: group, Summary: "a worker is cut off from all servers for longer than its lease", play: cutWorker},
		{Name: "twin-worker", Group: group, Summary: "a second process with a worker's name", play: twinWorker},
		{Name: "slow-callbacks", Group: group, Summary: "the receiver of callbacks is slow, answers 503 or ends connections", play: slowCallbacks},
	}
}

func (st *stage) someWorker() *process.Worker { return st.workers[st.rng.IntN(workers)] }

func killWorker(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		w := st.someWorker()
		f := st.fault(time.Second, "kill -9 of worker %s", st.names[w])
		pid := w.PID()
		if err := w.Kill(); err != nil {
			return err
		}
		if !w.Running() && w.ExitCode() == -1 {
			f.acted("process %d ended by the signal", pid)
		}
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		away := st.between(200*time.Millisecond, leaseTTL+3*time.Second)
		if err := st.rest(ctx, away); err != nil {
			return err
		}
		err := w.Start()
		f.end(false)
		return err
	})
}

func hangWorker(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		w := st.someWorker()
		length := leaseTTL + st.between(3*time.Second, 5*time.Second)
		f := st.fault(time.Second, "worker %s stands still for %s", st.names[w], length.Round(100*time.Millisecond))
		if err := st.stand(ctx, f, w.Process, length); err != nil {
			return err
		}
		return st.recovered(ctx, f)
	})
}

func cutWorker(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		name := st.names[st.someWorker()]
		return st.cause(ctx, trouble{
			text: "worker " + name + " is cut off from all servers", bound: time.Second, length: leaseTTL + st.between(3*time.Second, 5*time.Second),
			set: func() { st.split([]string{name}, st.serverNames(), proxy.Rule{Mode: proxy.Cut}) },
		})
	})
}

// twinBound is how soon a second worker of a name has to end: it is refused at once,
// and tries for a while, since it may be the first one's next life.
const twinBound = 25 * time.Second

func twinWorker(ctx context.Context, st *stage) error {
	round := 0
	return st.rounds(ctx, func(ctx context.Context) error {
		w := st.someWorker()
		round++
		name := st.names[w]
		twin, err := st.worker(name, name+"-twin"+string(rune('0'+round%10)))
		if err != nil {
			return err
		}
		st.workers = st.workers[:workers]
		f := st.fault(time.Second, "a second worker %s is started", name)
		if err := twin.Start(); err != nil {
			return err
		}
		select {
		case <-twin.Done():
			f.acted("it ended by itself with code %d", twin.ExitCode())
		case <-w.Done():
			st.violated("worker %s ended with code %d because of one that came later", name, w.ExitCode())
		case <-time.After(st.speed.scale(twinBound)):
			f.acted("it has not ended within %s", twinBound)
			st.violated("two workers named %s live beside each other", name)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		f.end(false)
		if err := twin.Kill(); err != nil {
			return err
		}
		return st.recovered(ctx, f)
	})
}

func slowCallbacks(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		f := st.fault(time.Second, "callbacks meet a receiver in trouble, for 10s")
		st.sink.trouble(func(n int) (time.Duration, int) {
			switch n % 3 {
			case 0:
				return 3 * time.Second, http.StatusOK
			case 1:
				return 0, http.StatusServiceUnavailable
			}
			return 0, 0
		})
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		err := st.rest(ctx, 10*time.Second)
		if met := st.sink.trouble(nil); met > 0 {
			f.acted("%d requests met it", met)
		}
		f.end(false)
		return err
	})
}
