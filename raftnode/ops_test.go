package raftnode

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// backup makes an archive on one member's disk, rebased and ready to restore.
func (m *member) backup() *store.Archive {
	m.c.t.Helper()
	made, err := m.Archive()
	if err != nil {
		m.c.t.Fatal(err)
	}
	r, err := made.Open()
	if err != nil {
		m.c.t.Fatal(err)
	}
	stream, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close(), made.Remove()); err != nil {
		m.c.t.Fatal(err)
	}
	a, err := store.Unpack(m.fs, "incoming", bytes.NewReader(stream))
	if err == nil {
		err = a.Rewrite(func(s store.Store) error {
			b := s.Batch()
			defer b.Discard()
			if _, err := fsm.Rebase(b, fsm.Base{How: fsm.FromSnapshot, Now: time.Now().UnixMilli()}); err != nil {
				return err
			}
			b.Commit()
			return nil
		})
	}
	if err != nil {
		m.c.t.Fatal(err)
	}
	return a
}

// A restore takes the whole cluster back, one server that can't be reached
// included, and no command comes in between what allow saw and the new state.
func TestRestore(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	kept := c.mustSubmit("kept", 20, 100)
	l := c.leader()
	archive := l.backup()
	gone := c.mustSubmit("gone", 3, 100)
	away := c.others(l)[1]
	c.partition(away.name)
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()

	refused := errors.New("no")
	if err := l.Restore(ctx, archive, func(store.View) error { return refused }); !errors.Is(err, refused) {
		t.Fatalf("a refusal became %v", err)
	}
	gone = append(gone, c.mustSubmit("after a refusal", 1, 1)...)
	err := l.Restore(ctx, archive, func(v store.View) error {
		if _, ok := fsm.GetTask(v, fsm.TaskRef{Namespace: job.DefaultNamespace, ID: gone[3]}); !ok {
			t.Error("allow doesn't see what was acknowledged")
		}
		if _, err := l.submit("in between", 1); !errors.Is(err, job.ErrNoLeader) {
			t.Errorf("a command in between: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if !l.has(kept) || l.has(gone[:1]) || l.restored.Load() != 1 {
		t.Error("the state is not that of the archive")
	}
	// The one that is away lacks a single entry by number, but it is a whole state.
	if err := l.Promote(ctx, away.name); !errors.Is(err, job.ErrConflict) {
		t.Errorf("a server without the restored state got its vote: %v", err)
	}
	c.heal()
	for _, m := range c.others(l) {
		c.until("the vote of "+m.name, func() bool {
			_ = l.Promote(ctx, m.name) // a conflict until it has caught up
			s, _ := l.server(m.name)
			return s.Voter
		})
		if !m.has(kept) || m.has(gone[:1]) {
			t.Errorf("%s votes without the restored state", m.name)
		}
	}
	more := c.mustSubmit("more", 5, 100)
	c.converged()
	l.stop()
	if n := c.leader(); !n.has(kept) || !n.has(more) {
		t.Error("the next leader has another state")
	}
	l.start()
	c.converged()
	if err := archive.Remove(); err != nil {
		t.Error(err)
	}
}

// One server of three goes on alone with what its disk holds: also what it had
// not been able to commit.
func TestRecover(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	kept := c.mustSubmit("kept", 20, 100)
	l := c.leader()
	c.partition(l.name)
	short, cancel := context.WithTimeout(t.Context(), testElection/4)
	defer cancel()
	if _, err := l.Propose(short, encode(t, "uncommitted", 1)); !errors.Is(err, job.ErrUnknownOutcome) {
		t.Fatalf("a proposal without a quorum: %v", err)
	}
	for _, m := range append(c.others(l), l) {
		m.stop()
	}
	c.heal()

	var err error
	if l.home, err = store.OpenHome(l.fs, "state", store.Options{}); err != nil {
		t.Fatal(err)
	}
	snaps := newSnapshots(l.home)
	seen, err := Survey(l.dir, l.name, snaps.latest(), appliedIndex(l.home))
	if err != nil || seen.Uncommitted == 0 || len(seen.Servers) != 3 {
		t.Errorf("surveyed %+v, %v", seen, err)
	}
	rec, err := Recover(Config{Name: l.name, DataDir: l.dir, Home: l.home})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Uncommitted != seen.Uncommitted || rec.Last != seen.Last || rec.Epoch == 0 {
		t.Errorf("recovered %+v, surveyed %+v", rec, seen)
	}
	again, err := Recover(Config{Name: l.name, DataDir: l.dir, Home: l.home})
	if err != nil || again.Epoch <= rec.Epoch || again.Last != rec.Last {
		t.Errorf("a second recovery: %+v, %v", again, err)
	}
	if _, err := Recover(Config{Name: "stranger", DataDir: l.dir, Home: l.home}); !errors.Is(err, job.ErrConflict) {
		t.Errorf("recovered under a stranger's name: %v", err)
	}
	if err := l.home.Close(); err != nil {
		t.Fatal(err)
	}
	l.start()
	c.until("the recovered server leads", func() bool { return c.leader() == l })
	if !l.has(kept) {
		t.Error("tasks are missing")
	}
	v := l.View()
	problems := fsm.Check(v, 10)
	info := fsm.ReadInfo(v)
	uncommitted := fsm.CountTasks(v, "")[job.Pending] == int64(len(kept))+1
	v.Close()
	if problems != nil || info.RestoreEpoch != again.Epoch || !uncommitted {
		t.Errorf("problems %q, epoch %d, the uncommitted task is there: %v", problems, info.RestoreEpoch, uncommitted)
	}
	for _, m := range c.members { // the others come back as new servers
		if m == l {
			continue
		}
		m.wipe()
		m.start()
		ctx, cancel := context.WithTimeout(t.Context(), testLimit)
		defer cancel()
		c.until(m.name+" votes", func() bool {
			err := l.AddServer(ctx, Server{Name: m.name, Address: m.address.Load().(string)})
			s, _ := l.server(m.name)
			return err == nil && s.Voter
		})
	}
	c.mustSubmit("after", 3, 10)
	c.converged()
}

// A removal that would leave too few is refused with the numbers; so is a hand-over
// to a server that is dead.
func TestRemovalAndTransferKeepTheQuorum(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "a", "b", "c")
	c.startAll()
	c.mustSubmit("k", 3, 10)
	l := c.leader()
	alive, dead := c.others(l)[0], c.others(l)[1]
	dead.stop()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	err := l.RemoveServer(ctx, alive.name, false)
	if !errors.Is(err, job.ErrConflict) || !strings.Contains(err.Error(), "only 1 would answer, and 2 must; start "+dead.name) {
		t.Errorf("removing one of two that live: %v", err)
	}
	c.until("the dead one's silence is noticed", func() bool { return l.CaughtUp(dead.name) != nil })
	if err := l.Transfer(ctx, dead.name); !errors.Is(err, job.ErrConflict) {
		t.Errorf("handed over to a dead server: %v", err)
	}
	if err := l.RemoveServer(ctx, "nobody", false); !errors.Is(err, job.ErrNotFound) {
		t.Errorf("removing a stranger: %v", err)
	}
	if err := l.RemoveServer(ctx, dead.name, false); err != nil {
		t.Errorf("removing the dead one: %v", err)
	}
	if err := l.Transfer(ctx, ""); err != nil {
		t.Errorf("handing over to the one that is left: %v", err)
	}
	c.mustSubmit("after", 1, 1)
}
