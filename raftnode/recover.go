package raftnode

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// replayChunk is how many entries are applied at a time.
const replayChunk = 64

// Recovery tells what a server's disk holds, and what becomes of it when the
// server goes on alone.
type Recovery struct {
	Servers     []Server // of the cluster whose quorum is lost, by this disk
	Term        uint64   // of the newest entry or snapshot
	Applied     uint64   // the state's newest entry
	Last        uint64   // the newest entry that the disk holds
	Uncommitted int      // entries behind Applied: they count as committed from now on
	Epoch       uint32   // of tokens, after a recovery
}

// Survey reads the log of a server that is stopped, without changing it: how many
// entries there are, and the configuration it knows. Damage is an error.
func Survey(dir, name string, newest store.SnapshotMeta, applied uint64) (Recovery, error) {
	backend, err := openReadOnly(dir)
	if err != nil {
		return Recovery{}, err
	}
	l := newLogStore(backend, name, 256<<10, newGuard(surveyStall, func(int, error) {}))
	rec, err := survey(l, newest, applied)
	l.guard.close()
	return rec, errors.Join(err, backend.Close())
}

// surveyStall is far beyond a slow disk: nobody waits for a survey but a person.
const surveyStall = 10 * time.Minute

func survey(l *logStore, newest store.SnapshotMeta, applied uint64) (Recovery, error) {
	if err := l.scan(); err != nil {
		return Recovery{}, fmt.Errorf("the Raft log is damaged: %w", err)
	}
	return surveyed(l, newest, applied)
}

// surveyed reports on a log that has been scanned.
func surveyed(l *logStore, newest store.SnapshotMeta, applied uint64) (Recovery, error) {
	first, last := l.index.bounds()
	rec := Recovery{Term: newest.Term, Applied: applied, Last: max(last, newest.Index)}
	var conf raft.Configuration
	if newest.ID != "" {
		meta, err := raftMeta(newest)
		if err != nil {
			return rec, err
		}
		conf = meta.Configuration
	}
	for i := max(first, 1); i <= last; i++ {
		var entry raft.Log
		if err := l.GetLog(i, &entry); err != nil {
			return rec, err
		}
		rec.Term = entry.Term
		switch {
		case entry.Type == raft.LogConfiguration:
			conf = raft.DecodeConfiguration(entry.Data)
		case entry.Type == raft.LogCommand && i > applied:
			rec.Uncommitted++
		}
	}
	rec.Servers = serversOf(conf)
	return rec, nil
}

// serversOf lists a configuration by name: Raft's own order is that of joining.
func serversOf(c raft.Configuration) []Server {
	var servers []Server
	for _, s := range c.Servers {
		servers = append(servers, Server{Name: string(s.ID), Address: string(s.Address), Voter: s.Suffrage == raft.Voter})
	}
	slices.SortFunc(servers, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return servers
}

// Recover makes a stopped server a cluster of one, with everything that its disk
// holds: for when a quorum of servers is lost for good. Entries that had not
// been committed as far as this server knew count as committed; what others
// acknowledged and this one never got is lost. The state is rebased, so that
// tokens rise. The servers of before must never start again with their data.
//
// A crash on the way leaves a server that can't lead, and Recover can be
// repeated. Of cfg it takes Name, DataDir, Home, Logger.
func Recover(cfg Config) (Recovery, error) {
	backend, err := openFile(cfg)
	if err != nil {
		return Recovery{}, err
	}
	var failed error
	n := &Node{cfg: cfg}
	n.cfg.Fatal = func(_ int, err error) { failed = err }
	n.log = newLogStore(backend, cfg.Name, 256<<10, newGuard(surveyStall, n.fatal))
	rec, err := n.recover()
	if failed != nil {
		err = failed
	}
	return rec, errors.Join(err, n.closeLog())
}

func (n *Node) recover() (Recovery, error) {
	if err := n.log.load(); err != nil {
		return Recovery{}, fmt.Errorf("the Raft log is damaged: %w", err)
	}
	n.snaps = newSnapshots(n.cfg.Home)
	if err := n.checkFit(); err != nil {
		return Recovery{}, err
	}
	rec, err := surveyed(n.log, n.snaps.latest(), appliedIndex(n.cfg.Home))
	if err != nil {
		return rec, err
	}
	at := slices.IndexFunc(rec.Servers, func(s Server) bool { return s.Name == n.cfg.Name })
	if at < 0 {
		return rec, job.Conflict("name", "is not a member of the cluster by its own log, so it has nothing to recover", n.cfg.Name)
	}
	if err := n.replay(rec); err != nil {
		return rec, err
	}
	rec.Epoch, err = n.goAlone(rec, rec.Servers[at].Address)
	return rec, err
}

// replay applies what the log holds beyond the state.
func (n *Node) replay(rec Recovery) error {
	n.applier = &applier{
		home: n.cfg.Home, machine: fsm.NewMachine(), snaps: n.snaps, log: n.log, guard: n.log.guard, fatal: n.fatal, applied: &watermark{},
	}
	n.applier.applied.set(rec.Applied)
	first, last := n.log.index.bounds()
	for from := max(first, rec.Applied+1); from <= last; from += replayChunk {
		var chunk []*raft.Log
		for i := from; i <= min(last, from+replayChunk-1); i++ {
			l := new(raft.Log)
			if err := n.log.GetLog(i, l); err != nil {
				return err
			}
			chunk = append(chunk, l)
		}
		n.applier.ApplyBatch(chunk)
		if n.applier.closed {
			return errors.New("an entry can't be applied")
		}
	}
	return nil
}

// goAlone rebases the state and makes it a snapshot whose configuration names
// this server alone, in place of the log.
func (n *Node) goAlone(rec Recovery, address string) (epoch uint32, err error) {
	batch := n.cfg.Home.State().Batch()
	origin, err := fsm.Rebase(batch, fsm.Base{How: fsm.FromRecovery, Now: time.Now().UnixMilli()})
	if err != nil {
		batch.Discard()
		return 0, err
	}
	batch.Commit()
	of, err := n.applier.generation()
	if err != nil {
		return 0, err
	}
	cp, err := n.applier.checkpoint(of)
	if err != nil {
		return 0, err
	}
	conf := raft.Configuration{Servers: []raft.Server{{
		ID: raft.ServerID(n.cfg.Name), Address: raft.ServerAddress(address), Suffrage: raft.Voter,
	}}}
	e, err := msgpack.Marshal(extra{Version: raft.SnapshotVersionMax, Configuration: raft.EncodeConfiguration(conf), ConfigIndex: 1})
	if err != nil {
		return 0, errors.Join(err, cp.Discard())
	}
	sink, err := n.cfg.Home.Create(store.SnapshotMeta{Index: rec.Last, Term: rec.Term, Extra: e})
	if err == nil {
		err = sink.Adopt(cp)
	}
	if err != nil {
		return 0, errors.Join(err, cp.Discard())
	}
	if err := sink.Close(); err != nil {
		return 0, err
	}
	if err := n.log.wipe(); err != nil {
		return 0, err
	}
	return origin.Epoch, n.cfg.Home.Reap(1)
}
