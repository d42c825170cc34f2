package trial

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/axd-project/axd/chaos/process"
)

// How soon writes have to be accepted again, at an election time-out of a second.
const (
	electBound   = 10 * time.Second
	restartBound = 15 * time.Second
	healBound    = 10 * time.Second
	noticeBound  = 20 * time.Second // where nobody is told, and time-outs have to find it
)

func serverScenarios() []Scenario {
	const group = "servers"
	return []Scenario{
		{Name: "kill-leader", Group: group, Short: true, Summary: "kill -9 of the leader, started again later", play: killLeader},
		{Name: "kill-follower", Group: group, Summary: "kill -9 of a server that does not lead", play: killFollower},
		{Name: "kill-all", Group: group, Short: true, Summary: "kill -9 of all servers at once, started again in any order", play: killAll},
		{Name: "pause-leader", Group: group, Short: true, Summary: "the leader stands still (SIGSTOP) for 0.1 to 15 s, then goes on", play: pauseLeader},
		{Name: "stutter", Group: group, Summary: "the leader stands still for 50 to 400 ms, again and again", play: stutter},
		{Name: "rolling-restart", Group: group, Summary: "each server in turn is stopped and started again, the leader last", play: rollingRestart},
	}
}

func killLeader(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, err := st.leader(ctx)
		if err != nil {
			return err
		}
		return st.killed(ctx, leader, "kill -9 of the leader "+leader.Name())
	})
}

func killFollower(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		_, s, err := st.follower(ctx)
		if err != nil {
			return err
		}
		return st.killed(ctx, s, "kill -9 of the follower "+s.Name())
	})
}

// killed kills one server and starts it again once the others go on.
func (st *stage) killed(ctx context.Context, s *process.Server, text string) error {
	f := st.fault(electBound, "%s", text)
	if err := st.kill(f, s); err != nil {
		return err
	}
	if err := st.recovered(ctx, f); err != nil {
		return err
	}
	if err := st.rest(ctx, st.between(0, 2*time.Second)); err != nil {
		return err
	}
	defer f.end(false)
	return st.restart(ctx, s)
}

func (st *stage) kill(f *Fault, s *process.Server) error {
	pid := s.PID()
	if err := s.Kill(); err != nil {
		return err
	}
	if !s.Running() && s.ExitCode() == -1 {
		f.acted("process %d ended by the signal", pid)
	}
	return nil
}

func killAll(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		f := st.fault(restartBound, "kill -9 of all servers")
		var all sync.WaitGroup
		failed := make([]error, len(st.Servers))
		for i, s := range st.Servers {
			all.Go(func() { failed[i] = s.Kill() })
		}
		all.Wait()
		ended := 0
		for i, s := range st.Servers {
			if failed[i] == nil && !s.Running() {
				ended++
			}
		}
		if ended == len(st.Servers) {
			f.acted("all %d processes ended by the signal", ended)
		}
		if err := st.rest(ctx, st.between(0, time.Second)); err != nil {
			return err
		}
		order := slices.Clone(st.Servers)
		st.rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		for _, s := range order {
			if err := s.Start(); err != nil {
				return err
			}
		}
		f.end(true)
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		for _, s := range order {
			if err := st.ready(ctx, s); err != nil {
				return err
			}
		}
		return nil
	})
}

func pauseLeader(ctx context.Context, st *stage) error {
	lengths := []time.Duration{st.between(5*time.Second, 9*time.Second), st.between(100*time.Millisecond, 1500*time.Millisecond), st.between(9*time.Second, 15*time.Second)}
	round := 0
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, err := st.leader(ctx)
		if err != nil {
			return err
		}
		length := lengths[round%len(lengths)]
		round++
		f := st.fault(electBound, "the leader %s stands still for %s", leader.Name(), length.Round(100*time.Millisecond))
		if err := st.stand(ctx, f, leader.Process, length); err != nil {
			return err
		}
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
		return st.ready(ctx, leader)
	})
}

// stand stops a process for a time.
func (st *stage) stand(ctx context.Context, f *Fault, p *process.Process, length time.Duration) error {
	if err := p.Pause(); err != nil {
		return err
	}
	stood, err := false, error(nil)
	for end := time.Now().Add(length); err == nil && time.Now().Before(end); {
		stood = stood || p.Standing()
		err = st.rest(ctx, min(20*time.Millisecond, time.Until(end)))
	}
	if stood = stood || p.Standing(); stood {
		f.acted("the kernel says that process %d stood still", p.PID())
	}
	if resumed := p.Resume(); err == nil {
		err = resumed
	}
	f.end(false)
	return err
}

func stutter(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, err := st.leader(ctx)
		if err != nil {
			return err
		}
		before := len(st.watch.led())
		f := st.fault(electBound, "the leader %s stutters for 6 s", leader.Name())
		stood := 0
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); {
			if err := leader.Pause(); err != nil {
				return err
			}
			err := st.rest(ctx, st.between(50*time.Millisecond, 400*time.Millisecond))
			if leader.Standing() {
				stood++
			}
			if resumed := leader.Resume(); err == nil {
				err = resumed
			}
			if err != nil {
				return err
			}
			if err := st.rest(ctx, st.between(50*time.Millisecond, 300*time.Millisecond)); err != nil {
				return err
			}
		}
		if stood > 0 {
			f.acted("the kernel says that process %d stood still, %d times", leader.PID(), stood)
		}
		f.end(false)
		if changes := len(st.watch.led()) - before; changes > 2 && st.speed <= 1 {
			st.violated("leadership changed %d times while its process stuttered for less than an election time-out", changes)
		}
		return st.recovered(ctx, f)
	})
}

func rollingRestart(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, err := st.leader(ctx)
		if err != nil {
			return err
		}
		for _, s := range append(st.others(leader), leader) {
			f := st.fault(electBound, "%s is stopped and started again", s.Name())
			if err := s.Stop(st.speed.scale(formTime)); err != nil {
				return err
			}
			if code := s.ExitCode(); code == 0 {
				f.acted("it ended with code 0")
			} else {
				st.violated("server %s ended with code %d at SIGTERM", s.Name(), code)
			}
			if err := st.restart(ctx, s); err != nil {
				return err
			}
			f.end(false)
			if err := st.recovered(ctx, f); err != nil {
				return err
			}
		}
		return nil
	})
}
