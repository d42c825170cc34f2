package trial

import (
	"context"
	"time"

	"github.com/axd-project/axd/chaos/proxy"
)

func networkScenarios() []Scenario {
	const group = "network"
	return []Scenario{
		{Name: "partition-leader", Group: group, Short: true, Summary: "the leader and one worker are cut off from the others (silently)", play: partitionLeader(proxy.Cut)},
		{Name: "reset-leader", Group: group, Summary: "as partition-leader, but connections are reset", play: partitionLeader(proxy.Reset)},
		{Name: "partition-follower", Group: group, Summary: "a server that does not lead is cut off from all", play: partitionFollower},
		{Name: "one-way", Group: group, Summary: "what the leader sends to one other server, or that one to it, is lost", play: oneWay},
		{Name: "one-way-deaf", Group: group, Summary: "the leader is heard by all and hears nobody", play: deafLeader},
		{Name: "bridge", Group: group, Summary: "two servers don't reach each other, the third reaches both", play: bridge},
		{Name: "no-majority", Group: group, Summary: "all three servers are cut off from each other", play: noMajority},
		{Name: "slow-network", Group: group, Summary: "all traffic takes 20 to 80 ms longer and gossip loses 10 %", play: slowNetwork},
		{Name: "narrow-network", Group: group, Summary: "each connection carries 64 KiB a second", play: narrowNetwork},
		{Name: "gossip-loss", Group: group, Summary: "gossip loses 40 % of its datagrams", play: gossipLoss},
		{Name: "gossip-partition", Group: group, Summary: "gossip alone is cut between all; Raft and calls pass", play: gossipPartition},
	}
}

func (st *stage) serverNames() []string {
	var out []string
	for _, s := range st.Servers {
		out = append(out, s.Name())
	}
	return out
}

func (st *stage) nodeNames() []string {
	out := st.serverNames()
	for _, w := range st.workers {
		out = append(out, st.names[w])
	}
	return out
}

// split sets what becomes of what passes between two groups, both ways.
func (st *stage) split(a, b []string, r proxy.Rule, on ...proxy.Plane) {
	for _, x := range a {
		for _, y := range b {
			if x != y {
				st.net.Set(x, y, r, on...)
				st.net.Set(y, x, r, on...)
			}
		}
	}
}

// without leaves names out.
func without(all []string, out ...string) []string {
	var left []string
	for _, name := range all {
		keep := true
		for _, o := range out {
			keep = keep && o != name
		}
		if keep {
			left = append(left, name)
		}
	}
	return left
}

// trouble is one fault of the network: it is set, lasts, and is healed.
type trouble struct {
	text       string
	bound      time.Duration
	length     time.Duration
	quorumless bool
	set        func()
}

// cause makes a fault of the network.
func (st *stage) cause(ctx context.Context, t trouble) error {
	before := st.net.Total()
	f := st.fault(t.bound, "%s, for %s", t.text, t.length.Round(100*time.Millisecond))
	t.set()
	defer st.net.Heal()
	began := time.Now()
	if !t.quorumless {
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
	}
	if left := t.length - time.Since(began); left > 0 {
		if err := st.rest(ctx, left); err != nil {
			return err
		}
	}
	st.net.Heal()
	f.end(t.quorumless)
	did := st.net.Total()
	if did.Acted() > before.Acted() {
		f.acted("the proxies held back %d bytes and ends, reset %d connections, dropped %d datagrams, delayed %d bytes",
			did.Held-before.Held, did.Resets-before.Resets, did.Dropped-before.Dropped, did.Delayed-before.Delayed)
	}
	if t.quorumless {
		if err := st.recovered(ctx, f); err != nil {
			return err
		}
	}
	for _, s := range st.Servers {
		if err := st.ready(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func partitionLeader(mode proxy.Mode) func(context.Context, *stage) error {
	return func(ctx context.Context, st *stage) error {
		return st.rounds(ctx, func(ctx context.Context) error {
			leader, err := st.leader(ctx)
			if err != nil {
				return err
			}
			with := st.names[st.workers[st.rng.IntN(len(st.workers))]]
			minority := []string{leader.Name(), with}
			return st.cause(ctx, trouble{
				text: "the leader " + leader.Name() + " and worker " + with + " are cut off", bound: noticeBound, length: 8 * time.Second,
				set: func() { st.split(minority, without(st.nodeNames(), minority...), proxy.Rule{Mode: mode}) },
			})
		})
	}
}

func partitionFollower(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		_, s, err := st.follower(ctx)
		if err != nil {
			return err
		}
		return st.cause(ctx, trouble{
			text: "the follower " + s.Name() + " is cut off", bound: electBound, length: 8 * time.Second,
			set: func() { st.split([]string{s.Name()}, st.nodeNames(), proxy.Rule{Mode: proxy.Cut}) },
		})
	})
}

func oneWay(ctx context.Context, st *stage) error {
	out := st.rng.IntN(2) == 0
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, s, err := st.follower(ctx)
		if err != nil {
			return err
		}
		from, to := leader.Name(), s.Name()
		if out = !out; out {
			from, to = to, from
		}
		return st.cause(ctx, trouble{
			text: "nothing that " + from + " sends reaches " + to, bound: electBound, length: 8 * time.Second,
			set: func() { st.net.Set(from, to, proxy.Rule{Mode: proxy.Cut}) },
		})
	})
}

func deafLeader(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, err := st.leader(ctx)
		if err != nil {
			return err
		}
		return st.cause(ctx, trouble{
			text: "nothing reaches the leader " + leader.Name(), bound: noticeBound, length: 10 * time.Second,
			set: func() {
				for _, n := range without(st.nodeNames(), leader.Name()) {
					st.net.Set(n, leader.Name(), proxy.Rule{Mode: proxy.Cut})
				}
			},
		})
	})
}

func bridge(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		leader, s, err := st.follower(ctx)
		if err != nil {
			return err
		}
		before := len(st.watch.led())
		err = st.cause(ctx, trouble{
			text: leader.Name() + ", who leads, and " + s.Name() + " don't reach each other", bound: electBound, length: 8 * time.Second,
			set: func() { st.split([]string{leader.Name()}, []string{s.Name()}, proxy.Rule{Mode: proxy.Cut}) },
		})
		if changes := len(st.watch.led()) - before; changes > 2 && st.speed <= 1 {
			st.violated("leadership changed %d times while two servers did not reach each other", changes)
		}
		return err
	})
}

func noMajority(ctx context.Context, st *stage) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		return st.cause(ctx, trouble{
			text: "no server reaches another", bound: restartBound, length: 6 * time.Second, quorumless: true,
			set: func() { st.split(st.serverNames(), st.serverNames(), proxy.Rule{Mode: proxy.Cut}) },
		})
	})
}

func slowNetwork(ctx context.Context, st *stage) error {
	return everywhere(ctx, st, "all traffic is slow", proxy.Rule{Delay: 20 * time.Millisecond, Jitter: 60 * time.Millisecond, Loss: 0.1})
}

func narrowNetwork(ctx context.Context, st *stage) error {
	return everywhere(ctx, st, "all connections are narrow", proxy.Rule{Bandwidth: 64 << 10})
}

func gossipLoss(ctx context.Context, st *stage) error {
	return everywhere(ctx, st, "gossip loses 40 %", proxy.Rule{Loss: 0.4}, proxy.Gossip)
}

func gossipPartition(ctx context.Context, st *stage) error {
	return everywhere(ctx, st, "gossip is cut between all", proxy.Rule{Mode: proxy.Cut}, proxy.Gossip)
}

func everywhere(ctx context.Context, st *stage, text string, r proxy.Rule, on ...proxy.Plane) error {
	return st.rounds(ctx, func(ctx context.Context) error {
		return st.cause(ctx, trouble{
			text: text, bound: electBound, length: 8 * time.Second,
			set: func() { st.split(st.nodeNames(), st.nodeNames(), r, on...) },
		})
	})
}
