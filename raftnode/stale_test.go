package raftnode

import (
	"fmt"
	"testing"

	"github.com/hashicorp/raft"
)

// A leader whose entries a follower could not write goes back in the follower's log,
// until it sends a snapshot of what the follower has applied long ago. Installed, it
// would take the state back behind the follower's own snapshots, and the follower
// would refuse its next start: its disk looks as if it had lost data.
func TestAnOldSnapshotIsNotInstalled(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		c.startAll()
		c.mustSubmit("before", 20, 100)
		l := c.leader()
		f := c.others(l)[0]
		if err := l.raft.Snapshot().Error(); err != nil {
			c.t.Fatal(err)
		}
		ids := c.mustSubmit("after", 20, 100)
		c.until("the follower has all", func() bool { return f.has(ids) && f.Applied() == l.Applied() })
		if err := f.raft.Snapshot().Error(); err != nil {
			c.t.Fatal(err)
		}
		has := f.Applied()
		for _, whose := range []string{"in its log", "in its snapshot"} {
			resp := c.install(l, f)
			switch {
			case !resp.Success || resp.Term != l.Term():
				c.t.Errorf("of what is %s it was answered %+v", whose, resp)
			case f.Applied() != has || f.restored.Load() != 0:
				c.t.Fatalf("the state went from entry %d to %d, with %d restores", has, f.Applied(), f.restored.Load())
			}
			if err := f.log.DeleteRange(1, l.snaps.latest().Index+1); err != nil { // as after compaction
				c.t.Fatal(err)
			}
		}
		for _, prev := range []uint64{0, l.snaps.latest().Index, l.snaps.latest().Index + 1} { // where the leader may go on
			if resp := c.send(l, f, prev, 8); !resp.Success {
				c.t.Errorf("entries behind %d, which its snapshot holds: %+v", prev, resp)
			}
		}
		f.stop()
		f.start()
		more := c.mustSubmit("later", 5, 100)
		c.until("the follower follows", func() bool { return f.has(append(ids, more...)) })
	})
}

// send gives n entries behind prev of one server's log to another.
func (c *cluster) send(from, to *member, prev uint64, n int) (resp raft.AppendEntriesResponse) {
	c.t.Helper()
	req := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from.name), Addr: []byte(from.name)},
		Term:      from.Term(), PrevLogEntry: prev, LeaderCommitIndex: from.Applied(),
	}
	get := func(index uint64) *raft.Log {
		l := new(raft.Log)
		if err := from.log.GetLog(index, l); err != nil {
			c.t.Fatal(err)
		}
		return l
	}
	if prev > 0 {
		req.PrevLogTerm = get(prev).Term
	}
	for i := range n {
		req.Entries = append(req.Entries, get(prev+1+uint64(i)))
	}
	if err := from.transport.AppendEntries(raft.ServerID(to.name), raft.ServerAddress(to.name), req, &resp); err != nil {
		c.t.Fatal(fmt.Errorf("send entries: %w", err))
	}
	return resp
}

// install sends the newest snapshot of one server to another.
func (c *cluster) install(from, to *member) (resp raft.InstallSnapshotResponse) {
	c.t.Helper()
	list, err := from.snaps.List()
	if err != nil || len(list) == 0 {
		c.t.Fatal("no snapshot", err)
	}
	meta, data, err := from.snaps.Open(list[0].ID)
	if err != nil {
		c.t.Fatal(err)
	}
	defer data.Close()
	err = from.transport.InstallSnapshot(raft.ServerID(to.name), raft.ServerAddress(to.name), &raft.InstallSnapshotRequest{
		RPCHeader:       raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(from.name), Addr: []byte(from.name)},
		SnapshotVersion: meta.Version, Term: from.Term(), Leader: []byte(from.name),
		LastLogIndex: meta.Index, LastLogTerm: meta.Term, Size: meta.Size,
		Configuration: raft.EncodeConfiguration(meta.Configuration), ConfigurationIndex: meta.ConfigurationIndex,
	}, &resp, data)
	if err != nil {
		c.t.Fatal(fmt.Errorf("send a snapshot: %w", err))
	}
	return resp
}
