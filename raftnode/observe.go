package raftnode

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

const (
	// standstill is how many election time-outs a peer's log may stand still,
	// while the peer answers and lacks entries, before that is an alarm.
	standstill = 10
	// manyInstalls is how many snapshots in a row to one peer are an alarm.
	manyInstalls = 3
	// wastefulSize is the size of raft.db above which it is an alarm that more than
	// half of it is free: bbolt gives nothing back.
	wastefulSize = 256 << 20
	// awayBeforeRemoved times the election time-out without contact makes a
	// server believe a configuration that doesn't name it.
	awayBeforeRemoved = 3
)

// observe looks once per election time-out for what raft doesn't report.
func (n *Node) observe(ctx context.Context) {
	tick := time.NewTicker(n.cfg.ElectionTimeout)
	defer tick.Stop()
	still := make(map[string]*stillness)
	grown := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		size, free := n.logFile()
		if is := isWasteful(size, free); is != grown {
			if grown = is; is {
				n.cfg.Logger.Warn("most of the log's file is unused; it grew while snapshots failed or came late, and doesn't shrink. "+
					"To have the room back, re-seed this server: stop it, move its data directory away and start it",
					"file", filepath.Join(n.cfg.DataDir, logFile), "size_mib", size>>20, "free_mib", free>>20)
			}
		}
		if n.isRemoved() {
			n.cfg.Logger.Warn("this server is no longer a member of the cluster")
			close(n.removed)
			return
		}
		n.observePeers(still)
	}
}

// logFile returns the size of raft.db and how much of it is unused; zeros where
// the log isn't in a file.
func (n *Node) logFile() (size, free int64) {
	b, ok := n.cfg.Log.(*raftboltdb.BoltStore)
	if !ok {
		return 0, 0
	}
	info, err := os.Stat(filepath.Join(n.cfg.DataDir, logFile))
	if err != nil {
		return 0, 0
	}
	return info.Size(), int64(b.Stats().FreeAlloc)
}

func isWasteful(size, free int64) bool { return size >= wastefulSize && free > size/2 }

// stillness counts how long a peer's log has stood still.
type stillness struct {
	match uint64
	ticks int
}

func (n *Node) observePeers(still map[string]*stillness) {
	if n.raft.State() != raft.Leader {
		clear(still)
		return
	}
	servers, err := n.Servers()
	if err != nil {
		return
	}
	last, term := n.raft.LastIndex(), n.raft.CurrentTerm()
	for _, s := range servers {
		p, ok := n.transport.progressOf(raft.ServerID(s.Name), term)
		fresh := ok && time.Since(p.heard) < n.cfg.ElectionTimeout
		c := still[s.Name]
		if c == nil || !fresh || p.match >= last || p.match != c.match {
			still[s.Name] = &stillness{match: p.match}
			continue
		}
		c.ticks++
		if c.ticks%standstill == 0 {
			n.cfg.Logger.Warn("a server answers but takes no log entries; if this lasts, transfer leadership",
				"peer", s.Name, "lacks", last-p.match, "snapshots_sent", p.installs)
		}
		if p.installs >= manyInstalls && c.ticks == 1 {
			n.cfg.Logger.Warn("a server is sent snapshot after snapshot", "peer", s.Name, "snapshots_sent", p.installs)
		}
	}
}

// isRemoved reports whether the cluster goes on without this server. A leader that
// removed itself is shut down by raft. Another server has a configuration
// without it and nobody calls; a joining one is called while it reads the old
// configurations. But raft may stop replicating before the entry of the removal
// was sent. So a server that nobody calls asks, and has been removed if so many
// no longer know it that no configuration with it can be a quorum's.
func (n *Node) isRemoved() bool {
	if n.raft.State() == raft.Shutdown {
		return true
	}
	servers, err := n.Servers()
	away := time.Since(n.raft.LastContact()) > awayBeforeRemoved*n.cfg.ElectionTimeout
	if err != nil || len(servers) == 0 || !away || n.raft.State() == raft.Leader {
		return false
	}
	if !slices.ContainsFunc(servers, func(s Server) bool { return s.Name == n.cfg.Name }) {
		return true
	}
	began := time.Now()
	var asked sync.WaitGroup
	voters := 0
	for _, s := range servers {
		if s.Voter {
			voters++
		}
		if s.Voter && s.Name != n.cfg.Name {
			asked.Go(func() { n.transport.askMembership(s.Name) })
		}
	}
	asked.Wait()
	refusals := 0
	for _, s := range servers {
		if s.Voter && n.transport.refusedSince(s.Name, began) {
			refusals++
		}
	}
	quorum := voters/2 + 1
	return refusals > voters-quorum
}

// Stats returns figures for /metrics and axd cluster status. Times are in
// seconds, sizes in bytes.
func (n *Node) Stats() map[string]float64 {
	first, last := n.log.index.bounds()
	snap := n.snaps.latest()
	all, behind := n.log.index.bytes(snap.Index)
	n.batch.mu.Lock()
	queued, queuedBytes := len(n.batch.queue), n.batch.bytes
	n.batch.mu.Unlock()
	s := map[string]float64{
		"term":                       float64(n.raft.CurrentTerm()),
		"leading":                    0,
		"commit_index":               float64(n.raft.CommitIndex()),
		"applied_index":              float64(n.Applied()),
		"log_first_index":            float64(first),
		"log_last_index":             float64(last),
		"log_bytes":                  float64(all),
		"log_bytes_since_snapshot":   float64(behind),
		"snapshot_index":             float64(snap.Index),
		"snapshot_bytes":             float64(snap.Size),
		"snapshots_taken":            float64(n.snapshotter.taken.Load()),
		"snapshot_failures":          float64(n.snapshotter.failures.Load()),
		"snapshot_pause_seconds_max": n.applier.pause.get(),
		"restore_seconds":            n.applier.lastRestore.get(),
		"queued_commands":            float64(queued),
		"queued_bytes":               float64(queuedBytes),
		"entries_in_flight":          float64(n.batch.inFlight.Load()),
		"entries_proposed":           float64(n.batch.entries.Load()),
		"commands_proposed":          float64(n.batch.commands.Load()),
		"commands_refused":           float64(n.batch.refused.Load()),
	}
	if size, free := n.logFile(); size > 0 {
		s["log_file_bytes"], s["log_file_free_bytes"] = float64(size), float64(free)
	}
	n.peerStats(s)
	return s
}

// peerStats adds how far the others are behind, seen by the leader, or how long
// ago the leader was heard.
func (n *Node) peerStats(s map[string]float64) {
	if n.raft.State() != raft.Leader {
		if at := n.raft.LastContact(); !at.IsZero() {
			s["last_contact_seconds"] = time.Since(at).Seconds()
		}
		return
	}
	s["leading"] = 1
	servers, err := n.Servers()
	if err != nil {
		return
	}
	last := n.raft.LastIndex()
	for _, server := range servers {
		if p, ok := n.transport.progressOf(raft.ServerID(server.Name), n.raft.CurrentTerm()); ok {
			s["peer_lag_entries_"+server.Name] = float64(last - min(last, p.match))
			s["peer_contact_seconds_"+server.Name] = time.Since(p.heard).Seconds()
		}
	}
}
