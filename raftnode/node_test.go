package raftnode

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestThreeServersCommitAndRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	ids := c.mustSubmit("k", 10, 10)
	for _, m := range c.others(nil) {
		c.until("a read on "+m.name, func() bool { return m.ReadBarrier(t.Context()) == nil })
		if !m.has(ids) {
			t.Errorf("%s: a read behind the barrier misses an acknowledged task", m.name)
		}
		if !m.HasState() || m.Stats()["log_last_index"] == 0 {
			t.Errorf("%s: has no state", m.name)
		}
	}
	c.converged()
	if err := c.leader().Bootstrap([]Server{{Name: "x", Address: "y", Voter: true}}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a second bootstrap: %v", err)
	}
	v := c.members["a"].View()
	defer v.Close()
	if info := fsm.ReadInfo(v); info.Applied == 0 || info.Chain == 0 {
		t.Errorf("no hash chain: %d %d", info.Applied, info.Chain)
	}
}

// A barrier, a no-op or a configuration at the end of the log never reaches
// apply; a read must not wait for it.
func TestReadBarrierOnIdleCluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	c.mustSubmit("k", 1, 1)
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	for range 3 {
		c.until("a barrier", func() bool { return c.leader().Barrier(ctx) == nil })
	}
	for _, m := range c.others(nil) {
		c.until("a read on "+m.name, func() bool { return m.ReadBarrier(ctx) == nil })
	}
}

func TestLeaderDiesNothingAcknowledgedIsLost(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	first := c.leader()
	var mu sync.Mutex
	var acknowledged []job.ID
	var writers sync.WaitGroup
	stop := make(chan struct{})
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id, err := first.submit(fmt.Sprintf("w%d-%d", w, i), 100)
				if err != nil {
					return // its leader is gone
				}
				mu.Lock()
				acknowledged = append(acknowledged, id)
				mu.Unlock()
			}
		})
	}
	c.until("some commits", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 50
	})
	c.partition(first.name) // as good as dead for the others
	close(stop)
	writers.Wait()
	second := first
	c.until("a read on the new leader", func() bool {
		second = c.leader(first.name)
		return second.ReadBarrier(t.Context()) == nil
	})
	if !second.has(acknowledged) {
		t.Fatal("the new leader misses an acknowledged task")
	}
	c.heal()
	c.mustSubmit("after", 1, 1)
	c.converged()
}

func TestRestartOfAll(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	ids := c.mustSubmit("k", 20, 1000)
	c.converged()
	hash := c.members["a"].hash()
	for _, m := range c.others(nil) {
		m.stop()
	}
	for _, name := range []string{"c", "a", "b"} {
		c.members[name].start()
	}
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	c.until("a read", func() bool { return c.leader().ReadBarrier(ctx) == nil })
	c.converged()
	for _, m := range c.others(nil) {
		if !m.has(ids) || m.hash() != hash {
			t.Errorf("%s: another state after the restart", m.name)
		}
	}
}

func TestFollowerFarBehindGetsSnapshot(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.adjust = func(cfg *Config) { cfg.SnapshotBytes, cfg.TrailingBytes = 64<<10, 16<<10 }
	c.startAll()
	c.mustSubmit("before", 5, 100)
	behind := c.others(c.leader())[0]
	behind.stop()
	ids := c.mustSubmit("k", 120, 4000)
	l := c.leader()
	c.until("compaction", func() bool { return l.Stats()["log_first_index"] > 20 })
	if got, all := l.Stats()["snapshots_taken"], l.Stats()["log_bytes"]; got < 2 || all > 500<<10 {
		t.Errorf("%v snapshots, %v bytes of log left", got, all)
	}
	behind.start()
	c.until("a restored snapshot", func() bool { return behind.restored.Load() > 0 })
	c.converged()
	if !behind.has(ids) {
		t.Error("a task is missing after the snapshot")
	}
	behind.stop() // and it must start again on what it received
	behind.start()
	c.mustSubmit("after", 3, 10)
	c.converged()
}

func TestGroupCommitGroups(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	const n = 1000
	var tries float64
	c.until("all commands committed", func() bool { // again if a busy machine costs the leader its lease
		l, results := c.leader(), make(chan error, n)
		tries++
		for i := range n {
			l.ProposeAsync(encode(t, fmt.Sprint(i), 10), func(r fsm.Result, err error) {
				if err == nil && (len(r.Tasks) != 1 || r.Tasks[0].Err != nil) {
					t.Errorf("unexpected result %+v", r)
				}
				results <- err
			})
		}
		var failed error
		for range n {
			failed = errors.Join(failed, <-results)
		}
		return failed == nil
	})
	var entries, events float64
	for _, m := range c.others(nil) {
		entries += m.Stats()["entries_proposed"]
		events = max(events, float64(m.events.Load()))
	}
	if entries > tries*n/10 {
		t.Errorf("%d commands took %v entries", n, entries/tries)
	}
	if events < n {
		t.Errorf("%v events for %d tasks", events, n)
	}
}

func TestStaleLeaderRefusesReads(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	c.mustSubmit("k", 1, 1)
	old := c.leader()
	c.partition(old.name)
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	if _, err := old.ConfirmLeadership(ctx); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("a cut off leader confirmed itself: %v", err)
	}
	if _, err := old.ReadIndex(ctx); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("a cut off leader gave a read index: %v", err)
	}
	if err := old.ReadBarrier(ctx); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("a cut off leader served a linearizable read: %v", err)
	}
	if _, err := c.leader(old.name).ReadIndex(ctx); err != nil {
		t.Errorf("the new leader: %v", err)
	}
}

func TestDeposedLeaderIsToldLostAndRegained(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	l := c.leader()
	first := <-l.Terms()
	if !first.Leading || first.Number != l.Term() {
		t.Fatalf("leads in term %d, was told %+v", l.Term(), first)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	to := c.others(l)[0]
	c.until("transfer away", func() bool { return l.Transfer(ctx, to.name) == nil })
	if got := c.leader(); got != to {
		t.Logf("leadership went to %s instead of %s", got.name, to.name)
	}
	c.until("transfer back", func() bool {
		cur := c.leader()
		return cur == l || cur.Transfer(ctx, l.name) == nil && c.leader() == l
	})
	// Nobody has read meanwhile: the loss is told all the same.
	if lost := <-l.Terms(); lost.Leading {
		t.Fatalf("the loss was merged away: %+v", lost)
	}
	again := <-l.Terms()
	if !again.Leading || again.Number <= first.Number {
		t.Fatalf("regained: %+v after %+v", again, first)
	}
}

func TestMembership(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	for _, m := range c.members {
		m.start()
	}
	a := c.members["a"]
	address := func(name string) string { return c.members[name].address.Load().(string) }
	if err := a.Bootstrap([]Server{{Name: "a", Address: address("a"), Voter: true}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	c.mustSubmit("k", 30, 100)
	if err := c.members["b"].AddServer(ctx, Server{Name: "c", Address: address("c")}); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("added by a follower: %v", err)
	}
	if err := a.RemoveServer(ctx, "a", false); !errors.Is(err, job.ErrConflict) {
		t.Errorf("the last voter was removed: %v", err)
	}
	if err := a.Promote(ctx, "b"); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("promoted a stranger: %v", err)
	}
	for _, name := range []string{"c", "b"} {
		if err := a.AddServer(ctx, Server{Name: name, Address: address(name)}); err != nil {
			t.Fatal(err)
		}
		if s, _ := a.server(name); s.Voter {
			t.Errorf("%s votes before it has caught up", name)
		}
		c.until("promotion of "+name, func() bool {
			err := a.AddServer(ctx, Server{Name: name, Address: address(name)})
			s, _ := a.server(name)
			return err == nil && s.Voter
		})
	}
	c.converged()
	if list, err := a.Servers(); err != nil || len(list) != 3 || list[0].Name != "a" || list[1].Name != "b" || list[2].Name != "c" {
		t.Errorf("the servers are not in the order of their names: %v, %v", list, err)
	}
	if err := a.RemoveServer(ctx, "c", false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.members["c"].Removed():
	case <-time.After(testLimit):
		t.Error("a removed server is not told")
	}
	c.mustSubmit("after", 1, 1)
}

func TestProposeOnFollowerAndAfterClose(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	l := c.leader()
	f := c.others(l)[0]
	if _, err := f.submit("x", 1); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("a follower's answer: %v", err)
	}
	if err := f.Barrier(t.Context()); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("a follower's barrier: %v", err)
	}
	if err := f.Transfer(t.Context(), ""); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("a follower's transfer: %v", err)
	}
	node := l.Node
	l.stop()
	if _, err := node.Propose(t.Context(), encode(t, "y", 1)); !errors.Is(err, job.ErrNoLeader) {
		t.Errorf("after Close: %v", err)
	}
	if _, ok := <-node.Terms(); ok {
		for range node.Terms() { // drained: it must end
		}
	}
}
