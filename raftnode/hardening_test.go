package raftnode

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

var trio3 = []string{"a", "b", "c"}

// A leader dies without a word in the middle of a snapshot that it sends. The one
// that receives is needed for a quorum, and must not wait for the rest for ever.
func TestSnapshotSenderThatFallsSilentIsSucceeded(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.adjust = func(cfg *Config) { cfg.SnapshotBytes, cfg.TrailingBytes = 64<<10, 16<<10 }
		c.startAll()
		c.mustSubmit("before", 5, 100)
		l := c.leader()
		behind := c.others(l)[0]
		behind.stop()
		ids := c.mustSubmit("k", 120, 4000)
		c.until("compaction", func() bool { return l.Stats()["log_first_index"] > 20 })
		const sent = 6 << 10
		if size := l.Stats()["snapshot_bytes"]; size < 2*sent {
			c.t.Fatalf("the snapshot has %v bytes", size)
		}
		c.wires.silence(l.name, behind.name, sent)
		behind.start()
		c.until("the leader falls silent", func() bool { return c.wires.isMute(l.name) })
		if behind.restored.Load() > 0 {
			c.t.Fatal("the whole snapshot has been received")
		}
		began := time.Now()
		next := c.leader(l.name)
		if took := time.Since(began); took > writeStall+10*testElection {
			c.t.Errorf("without a leader for %v", took)
		}
		c.until("the other catches up", func() bool { return behind.has(ids) })
		if _, err := next.submit("after", 10); err != nil {
			c.t.Error(err)
		}
	})
}

// A server that was away for longer than the log reaches back catches up while
// the others are written to all the time, with a few snapshots at most. While it
// is sent one, several more are made: without the log that is kept behind them it
// would be sent the next one, for ever.
func TestFollowerFarBehindCatchesUpUnderLoad(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.adjust = func(cfg *Config) { cfg.SnapshotBytes, cfg.TrailingBytes = 128<<10, 1<<20 }
		c.wires.drag = 300 * time.Millisecond // some 150 entries, or 600 KB of log
		c.startAll()
		c.mustSubmit("before", 5, 100)
		l := c.leader()
		behind := c.others(l)[0]
		behind.stop()
		c.mustSubmit("away", 400, 4000)
		c.until("compaction", func() bool { return l.Stats()["log_first_index"] > 20 })
		behind.start()
		var last job.ID
		n := 0
		c.until("it has what was written a moment ago", func() bool {
			if got := behind.restored.Load(); got > 3 {
				c.t.Fatalf("it was sent %d snapshots and is still behind", got)
			}
			n++
			before := last // a follower learns with the next entry that one is committed
			id, err := l.submit(fmt.Sprintf("load-%d", n), 4000)
			if err == nil {
				last = id
			}
			return behind.restored.Load() > 0 && behind.has([]job.ID{before})
		})
		c.mustSubmit("load-goes-on", 100, 4000)
		c.until("it follows", func() bool { return behind.Applied() == l.Applied() })
		if got := behind.restored.Load(); got > 3 {
			c.t.Errorf("it was sent %d snapshots", got)
		}
	})
}

// A server comes back at another address under its name; nobody changes Raft's
// configuration, which still has the old one.
func TestServerThatMovedIsFollowed(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.startAll()
		c.mustSubmit("k", 3, 10)
		for range 2 { // the leader first, then another one
			l := c.leader()
			old := l.address.Load().(string)
			l.stop()
			c.mustSubmit("away", 3, 10)
			l.start()
			if l.address.Load().(string) == old {
				c.t.Fatal("it has not moved")
			}
			c.converged()
			servers, err := c.leader().Servers()
			if err != nil {
				c.t.Fatal(err)
			}
			for _, s := range servers {
				if s.Name == l.name && s.Address != old && s.Address == l.address.Load().(string) {
					c.t.Errorf("the configuration was changed to %s", s.Address)
				}
			}
		}
		// All of them at once: no address of the configuration holds any more.
		for _, name := range trio3 {
			c.members[name].stop()
		}
		for _, name := range trio3 {
			c.members[name].start()
		}
		c.mustSubmit("after", 3, 10)
		c.converged()
	})
}

// stall makes a member's log hang, and with it, once it changes its configuration,
// its main loop, which goes on believing whatever it believed.
func stall(c *cluster) map[string]*breakable {
	hung := map[string]*breakable{}
	c.wrap = func(name string, inner LogBackend) LogBackend {
		hung[name] = &breakable{LogBackend: inner}
		return hung[name]
	}
	c.adjust = func(cfg *Config) { cfg.StallLimit = time.Hour }
	return hung
}

// A leader is stopped, as by SIGSTOP, while another one is elected and commits.
// When it goes on it still believes that it leads. It must not serve a read, and
// of what it was asked to commit it can only say that it doesn't know.
func TestStoppedLeaderServesNoOldRead(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		hung := stall(c)
		c.startAll()
		c.mustSubmit("k", 1, 1)
		old := c.leader()
		c.partition(old.name)
		release := make(chan struct{})
		hung[old.name].hang.Store(&release)
		outcome := make(chan error, 1)
		old.ProposeAsync(encode(c.t, "in flight", 1), func(_ fsm.Result, err error) { outcome <- err })
		synctest.Wait()
		old.raft.AddNonvoter("x", "x", 0, 0) // it is written before raft goes on
		next := (*member)(nil)
		c.until("a successor that has committed", func() bool {
			next = c.leader(old.name)
			_, err := next.submit("newer", 1)
			return err == nil
		})
		c.heal()
		if old.raft.State() != raft.Leader {
			c.t.Fatal("the old leader knows already")
		}
		ctx := c.t.Context()
		if err := old.ReadBarrier(ctx); !errors.Is(err, job.ErrNoLeader) {
			c.t.Errorf("an old leader served a read at entry %d, %d is committed: %v", old.Applied(), next.Applied(), err)
		}
		if _, err := old.ConfirmLeadership(ctx); !errors.Is(err, job.ErrNoLeader) {
			c.t.Errorf("an old leader was confirmed: %v", err)
		}
		hung[old.name].hang.Store(nil)
		close(release)
		if err := <-outcome; !errors.Is(err, job.ErrUnknownOutcome) {
			c.t.Errorf("of what was in flight it says %v", err)
		}
		c.converged()
	})
}

// What became of a command is told in three classes, while leaders are parted
// from the others with commands in flight, time and again: acknowledged ones are
// there, those told not to be committed are not and never come, and of those
// with an unknown outcome a second try makes one task, whatever the first did.
func TestOutcomesAreWhatTheySay(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.startAll()
		outcomes := map[string]error{}
		for round := range 6 {
			l := c.leader()
			type told struct {
				key string
				err error
			}
			answers := make(chan told, 1000)
			propose := func(n int) {
				for i := range n {
					key := fmt.Sprintf("%d-%d-%s", round, i, l.name)
					l.ProposeAsync(encode(c.t, key, 2000), func(_ fsm.Result, err error) { answers <- told{key, err} })
				}
			}
			key := fmt.Sprintf("%d-first", round)
			_, outcomes[key] = l.submit(key, 2000)
			propose(20)
			c.partition(l.name)
			l.ProposeAsync(encode(c.t, fmt.Sprintf("%d-cut", round), 2000), func(_ fsm.Result, err error) {
				answers <- told{fmt.Sprintf("%d-cut", round), err}
			})
			c.leader(l.name)
			c.until("the old one knows", func() bool { return l.raft.State() != raft.Leader })
			l.ProposeAsync(encode(c.t, fmt.Sprintf("%d-late", round), 2000), func(_ fsm.Result, err error) {
				answers <- told{fmt.Sprintf("%d-late", round), err}
			})
			for range 22 {
				a := <-answers
				outcomes[a.key] = a.err
			}
			c.heal()
			c.converged()
		}
		classes := map[string]int{}
		for key, err := range outcomes {
			switch {
			case err == nil:
				classes["acknowledged"]++
			case errors.Is(err, job.ErrUnknownOutcome):
				classes["unknown"]++
				if _, err := c.leader().submit(key, 2000); err != nil {
					c.t.Errorf("a second try of %s: %v", key, err)
				}
			case errors.Is(err, job.ErrNoLeader), errors.Is(err, job.ErrOverloaded):
				classes["not committed"]++
			default:
				c.t.Errorf("%s: %v", key, err)
			}
		}
		c.converged()
		for _, m := range c.members {
			got := m.keys()
			for key, err := range outcomes {
				notCommitted := errors.Is(err, job.ErrNoLeader) || errors.Is(err, job.ErrOverloaded)
				if want := 1; notCommitted && got[key] > 0 || !notCommitted && got[key] != want {
					c.t.Errorf("%s has %d tasks of key %s, whose first outcome was %v", m.name, got[key], key, err)
				}
			}
		}
		for _, class := range []string{"acknowledged", "unknown", "not committed"} {
			if classes[class] == 0 {
				c.t.Errorf("no command was %s: %v", class, classes)
			}
		}
	})
}

// keys counts a member's tasks by their idempotency keys.
func (m *member) keys() map[string]int {
	v := m.View()
	defer v.Close()
	out := map[string]int{}
	cursor := ""
	for {
		page, err := fsm.ListTasks(v, fsm.TaskFilter{}, cursor, 0, 0)
		if err != nil {
			m.c.t.Fatal(err)
		}
		for i := range page.Tasks {
			out[page.Tasks[i].IdempotencyKey]++
		}
		if cursor = page.Next; cursor == "" {
			return out
		}
	}
}

// A leader is parted with entries that nobody else gets. The others go on from
// before them, snapshot, and forget their log: the old leader's log conflicts with
// the snapshot that it is sent. It would be sent it again for ever
// (hashicorp/raft#697); instead its log goes, the process ends, and the next one
// catches up.
func TestSnapshotIntoAConflictingLog(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.startAll()
		ids := c.mustSubmit("k", 20, 100)
		old := c.leader()
		c.partition(old.name)
		for last := old.raft.LastIndex() + maxInFlight; old.raft.LastIndex() < last; time.Sleep(time.Millisecond) { // none of these is committed
			for i := range gatherAtLeast {
				old.ProposeAsync(encode(c.t, fmt.Sprint("conflict", i), 10_000), func(fsm.Result, error) {})
			}
		}
		next := c.leader(old.name)
		id, err := next.submit("newer", 10)
		if err != nil {
			c.t.Fatal(err)
		}
		rc := next.raft.ReloadableConfig()
		rc.TrailingLogs = 0
		if err := errors.Join(next.raft.ReloadConfig(rc), next.raft.Snapshot().Error()); err != nil {
			c.t.Fatal(err)
		}
		if snap := next.snaps.latest(); old.raft.LastIndex() < snap.Index {
			c.t.Fatalf("the old leader's log ends at %d, the snapshot at %d", old.raft.LastIndex(), snap.Index)
		}
		c.heal()
		old.diedWith(ExitReseed, "restart this server")
		old.stop()
		old.start()
		c.converged()
		if !old.has(append(ids, id)) {
			c.t.Error("a task is missing after the re-seed")
		}
		c.mustSubmit("after", 3, 10)
	})
}

// The request that tells a follower to stand for leader never ends, and no
// deadline ends it. Raft then refuses all writes for good and leads on
// (hashicorp/raft#696); instead the process ends, and the others go on.
func TestTransferThatNeverEndsEndsTheProcess(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.startAll()
		ids := c.mustSubmit("k", 5, 100)
		c.wires.stuck = make(chan struct{})
		old := c.leader()
		if err := old.Transfer(context.Background(), ""); !errors.Is(err, job.ErrNoLeader) {
			c.t.Fatalf("a transfer that sticks gave %v", err)
		}
		if _, err := old.submit("refused", 10); err == nil {
			c.t.Fatal("a write went through: the transfer isn't stuck")
		}
		old.diedWith(ExitStuck, "blocks every write")
		close(c.wires.stuck) // the end of the process ends its connections
		old.stop()
		next := c.leader(old.name)
		if id, err := next.submit("after", 10); err != nil || !next.has(append(ids, id)) {
			c.t.Errorf("after the end of the old leader: %v", err)
		}
	})
}
