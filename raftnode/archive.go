package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// Archive makes an archive of the state as it is now, for a backup. The caller
// removes it.
func (n *Node) Archive() (*store.Archive, error) {
	of, err := n.applier.generation()
	if err != nil {
		return nil, err
	}
	cp, err := n.applier.checkpoint(of)
	if err != nil {
		return nil, err
	}
	applied := cp.Applied()
	term, err := n.termOf(applied)
	if err != nil {
		return nil, errors.Join(err, cp.Discard())
	}
	return n.cfg.Home.Export(cp, store.ArchiveMeta{Index: applied, Term: term, Created: time.Now().UnixMilli()})
}

// termOf returns the term of an entry that was applied; of one that the log no
// longer holds, that of the newest snapshot.
func (n *Node) termOf(index uint64) (uint64, error) {
	var l raft.Log
	err := n.log.GetLog(index, &l)
	if errors.Is(err, raft.ErrLogNotFound) {
		return n.snaps.latest().Term, nil
	}
	return l.Term, err
}

// Restore replaces the state of the whole cluster by an archive's, which must be
// sound: a state that can't be installed ends the process. Before anything is
// touched, allow says whether the state may go; no command can come in between.
//
// While the others still have the old state they must not elect a leader among
// themselves, which would bring it back. So they lose their votes first: this
// server alone is the quorum, and each gets its vote again once it has the new
// state (Promote). An error of code unknown_outcome means that the state may
// have been replaced.
func (n *Node) Restore(ctx context.Context, a *store.Archive, allow func(store.View) error) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	defer n.batch.resume()
	if err := n.batch.pause(ctx); err != nil {
		return err
	}
	if err := n.Barrier(ctx); err != nil {
		return err
	}
	if err := n.allowed(allow); err != nil {
		return err
	}
	if err := n.demoteOthers(ctx); err != nil {
		return err
	}
	if err := n.await(ctx, func() raft.Future { return done{n.install(a)} }); err != nil {
		return job.Errorf(job.CodeUnknownOutcome, "the restore was begun and may have been done: "+err.Error())
	}
	return nil
}

// demoteOthers leaves this server the only one with a vote. Those that don't
// answer go first, so that each step has its quorum.
func (n *Node) demoteOthers(ctx context.Context) error {
	servers, err := n.Servers()
	if err != nil {
		return err
	}
	answering := n.askAlive(ctx, servers)
	var silent, others []Server
	for _, s := range servers {
		switch {
		case !s.Voter || s.Name == n.cfg.Name:
		case answering[s.Name]:
			others = append(others, s)
		default:
			silent = append(silent, s)
		}
	}
	for _, s := range append(silent, others...) {
		if err := n.demote(ctx, s.Name); err != nil {
			return fmt.Errorf("take the vote of server %s, which must not count until it has the restored state: %w", s.Name, err)
		}
	}
	return nil
}

func (n *Node) allowed(allow func(store.View) error) error {
	v := n.View()
	defer v.Close()
	return allow(v)
}

// install hands an archive to raft, which gives it an index above all others and
// sends it to every server.
func (n *Node) install(a *store.Archive) error {
	meta := a.Meta()
	r, err := a.Open()
	if err != nil {
		return err
	}
	err = n.raft.Restore(&raft.SnapshotMeta{Version: raft.SnapshotVersionMax, Index: meta.Index, Term: meta.Term, Size: meta.Size},
		io.NopCloser(r), 0)
	return errors.Join(err, r.Close())
}

// done is a future that has come.
type done struct{ err error }

// Error implements raft.Future.
func (d done) Error() error { return d.err }
