package server

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/job"
)

func (n *node) until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// votes waits until a cluster has so many servers, all with a vote.
func (n *node) votes(t *testing.T, want int) {
	t.Helper()
	n.until(t, "all servers vote", func() bool {
		got, err := n.Cluster(t.Context())
		return err == nil && len(got.Servers) == want &&
			!slices.ContainsFunc(got.Servers, func(s client.Server) bool { return !s.Voter })
	})
}

// A snapshot is saved through one follower and restored through the other: the
// leader fetches it. What came in between is gone on every server.
func TestRestoreThroughAFollower(t *testing.T) {
	nodes, _ := three(t)
	leading := func(n *node) bool { return n.leading.Load() }
	nodes[0].until(t, "one leads", func() bool { return slices.ContainsFunc(nodes, leading) }) // ready comes before
	followers := slices.DeleteFunc(slices.Clone(nodes), leading)
	if len(followers) != 2 {
		t.Fatalf("%d followers", len(followers))
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	c := clientOf(t, followers[0])
	kept := submit(t, c, "nobody").ID
	var saved bytes.Buffer
	if _, err := c.SaveSnapshot(ctx, &saved); err != nil {
		t.Fatal(err)
	}
	gone := submit(t, c, "nobody").ID
	rep, err := InspectSnapshot(bytes.NewReader(saved.Bytes()), t.TempDir())
	if err != nil || len(rep.Problems) > 0 || rep.Tasks["pending"] != 1 {
		t.Fatalf("inspected %+v, %v", rep, err)
	}

	other := clientOf(t, followers[1])
	in := bytes.NewReader(saved.Bytes())
	if _, err := other.RestoreSnapshot(ctx, in, in.Size(), false); !client.IsCode(err, job.CodeConflict) {
		t.Fatalf("a cluster with tasks was given up: %v", err)
	}
	damaged := bytes.Clone(saved.Bytes())
	damaged[len(damaged)*2/3] ^= 1
	if _, err := other.RestoreSnapshot(ctx, bytes.NewReader(damaged), in.Size(), true); !client.IsCode(err, job.CodeInvalid) {
		t.Fatalf("a damaged snapshot: %v", err)
	}
	out, err := other.RestoreSnapshot(ctx, in, in.Size(), true)
	if err != nil || out.Epoch == 0 {
		t.Fatalf("restored %+v, %v", out, err)
	}
	nodes[0].votes(t, 3)
	for _, n := range nodes {
		c := clientOf(t, n)
		if _, err := c.Task(ctx, kept); err != nil {
			t.Errorf("%s: the task from before is missing: %v", n.Name(), err)
		}
		if _, err := c.Task(ctx, gone); !client.IsCode(err, job.CodeNotFound) {
			t.Errorf("%s: the task from after is there: %v", n.Name(), err)
		}
		if epoch := n.info().RestoreEpoch; epoch != out.Epoch {
			t.Errorf("%s: epoch %d, want %d", n.Name(), epoch, out.Epoch)
		}
	}
	check, err := other.CheckCluster(ctx)
	if err != nil || !check.OK || len(check.Servers) != 3 {
		t.Errorf("checked %+v, %v", check, err)
	}
	got, err := c.TransferLeadership(ctx, "")
	if err != nil || got.Leader == got.From {
		t.Errorf("transferred %+v, %v", got, err)
	}
}

// A restore begins the leader's work anew, in the same term. A session from before is
// none of it: the worker has to say hello again, or gets no work.
func TestARestoreEndsSessions(t *testing.T) {
	gossip := freeAddress(t)
	n := start(t, Config{Name: "s1", DataDir: t.TempDir(), Gossip: gossip})
	n.await(t)
	startWorker(t, "w1", []string{gossip})
	c := clientOf(t, n)
	wait(t, c, submit(t, c, "ok").ID, "success")
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var saved bytes.Buffer
	if _, err := c.SaveSnapshot(ctx, &saved); err != nil {
		t.Fatal(err)
	}
	term, sess := n.node.Term(), n.sessions.byName("w1")
	in := bytes.NewReader(saved.Bytes())
	if _, err := c.RestoreSnapshot(ctx, in, in.Size(), true); err != nil {
		t.Fatal(err)
	}
	select {
	case <-sess.conn.Done():
	case <-time.After(within):
		t.Fatal("the session from before the restore goes on")
	}
	n.until(t, "the worker has a session of the new loop", func() bool {
		is := n.sessions.byName("w1")
		return is != nil && is != sess
	})
	if is := n.node.Term(); is != term {
		t.Logf("term %d became %d meanwhile, so this run shows nothing", term, is)
	}
}

// A new server that gossip doesn't reach waits, and an operator adds it.
func TestJoinWithoutGossip(t *testing.T) {
	base := t.TempDir()
	s1 := start(t, Config{Name: "s1", DataDir: filepath.Join(base, "s1"), Gossip: freeAddress(t), BootstrapExpect: 1})
	s1.await(t)
	s2 := start(t, Config{Name: "s2", DataDir: filepath.Join(base, "s2"), Gossip: freeAddress(t), Join: []string{freeAddress(t)}})
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	c := clientOf(t, s1)
	for name, address := range map[string]string{"s3": s2.RPCAddr(), "s2": freeAddress(t), "s1": s1.RPCAddr()} {
		if err := c.JoinServer(ctx, name, address); !client.IsCode(err, job.CodeConflict) {
			t.Errorf("%s at the wrong place: %v", name, err)
		}
	}
	for range 2 { // an answer may get lost, and the wish is repeated
		if err := c.JoinServer(ctx, "s2", s2.RPCAddr()); err != nil {
			t.Fatal(err)
		}
	}
	s2.await(t)
	s1.votes(t, 2)
	if id := s2.clusterID(); id == "" || id != s1.clusterID() {
		t.Errorf("s2 is of cluster %q, s1 of %q", id, s1.clusterID())
	}
	if err := c.JoinServer(ctx, "s2", s2.RPCAddr()); !client.IsCode(err, job.CodeConflict) {
		t.Errorf("a member was added again: %v", err)
	}
}

func TestChecksAreCompared(t *testing.T) {
	row := func(name, sum string, index uint64, err string) client.ServerCheck {
		return client.ServerCheck{Name: name, Checksum: sum, ChecksumIndex: index, Error: err}
	}
	for _, tt := range []struct {
		name   string
		rows   []client.ServerCheck
		ok     bool
		agrees string
	}{
		{"all agree", []client.ServerCheck{row("a", "x", 9, ""), row("b", "x", 9, ""), row("c", "x", 9, "")}, true, "abc"},
		{"one differs", []client.ServerCheck{row("a", "y", 9, ""), row("b", "x", 9, ""), row("c", "x", 9, "")}, false, "bc"},
		{"one is silent", []client.ServerCheck{row("a", "x", 9, ""), row("b", "", 0, "gone"), row("c", "x", 9, "")}, false, "ac"},
		{"one is behind", []client.ServerCheck{row("a", "x", 9, ""), row("b", "z", 4, ""), row("c", "x", 9, "")}, false, "ac"},
	} {
		got := compareChecks(tt.rows)
		agrees := ""
		for _, s := range got.Servers {
			if s.Agrees {
				agrees += s.Name
			}
		}
		if got.OK != tt.ok || agrees != tt.agrees {
			t.Errorf("%s: %v, %q agree", tt.name, got.OK, agrees)
		}
	}
}
