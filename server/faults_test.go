package server

import (
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/axd-project/axd/cluster"
	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
	"github.com/axd-project/axd/scheduler"
)

// Raft leads before the clock is agreed; what is proposed in between must
// not be stamped by this server's own wall clock. (The batcher takes 0 as "not
// agreed yet" and answers no_leader.)
func TestNothingIsStampedBeforeTheClockIsAnchored(t *testing.T) {
	_, c := newHands()
	s := &Server{clock: c}
	if got := s.raftConfig().Now(); got != 0 {
		t.Errorf("an unanchored server stamps entries with %d, want 0", got)
	}
	c.anchor(c.wallLead())
	s.vouch.seen(c.Now(), c.wallLead())
	if got := s.raftConfig().Now(); got == 0 {
		t.Error("an anchored server stamps nothing")
	}
}

// Four new servers with --bootstrap-expect 3, one more than expected: s1 has heard
// of s2 and s3, s2 of s3 and s4. If both began a cluster, {s1, s3} and {s2, s4}
// would be a quorum each. So nobody begins one before the others have promised
// themselves to it, and here s3 and s4 never answer.
func TestMoreServersThanExpectedDontBeginTwoClusters(t *testing.T) {
	base := t.TempDir()
	open := func(name string) *Server {
		s, err := New(Config{
			Name: name, DataDir: filepath.Join(base, name), HTTP: "127.0.0.1:0", RPC: "127.0.0.1:0",
			Gossip: freeAddress(t), Join: []string{freeAddress(t)}, BootstrapExpect: 3, Logger: testLog(t),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.release)
		return s
	}
	member := func(name string) cluster.Member {
		return cluster.Member{Role: cluster.RoleServer, Name: name, RPC: "127.0.0." + name[1:] + ":1", Liveness: cluster.Alive}
	}
	s1, s2 := open("s1"), open("s2")
	err1 := s1.begin(t.Context(), []cluster.Member{member("s2"), member("s3")})
	err2 := s2.begin(t.Context(), []cluster.Member{member("s3"), member("s4")})
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	if s1.node.HasState() || s2.node.HasState() {
		t.Error("a server has begun a cluster that nobody promised itself to")
	}
}

// A burst of assigns to one worker with many slots must not overflow its queue,
// which would close the connection: what one turn of the loop assigns shares frames.
func TestABurstToABigWorkerKeepsItsConnection(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conns := make(chan *rpc.Conn, 1)
	mux := rpc.NewMux(ln)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = mux.Serve(ctx, func() rpc.Hello { return rpc.Hello{Role: "server", Name: "s1"} }, nil,
			func(_ context.Context, r *rpc.Request) (any, error) { conns <- r.Conn; return rpc.Empty{}, nil })
	}()
	defer func() { cancel(); <-served }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	w, err := rpc.Dial(ctx, nc, rpc.Hello{Role: "worker", Name: "w"}, func(context.Context, *rpc.Request) (any, error) { return nil, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.Call(ctx, "hello", rpc.Empty{}, nil); err != nil {
		t.Fatal(err)
	}
	s := newSession(<-conns, &rpc.WorkerHello{Name: "w", Boot: "b", Slots: fsm.MaxSlots}, func() int64 { return 1 })
	go s.send()
	for turn := range 4 { // as many assigns as may be in flight
		items := make([]scheduler.Dispatch, 500)
		for i := range items {
			items[i].Executor, items[i].Payload = job.Executor{Handler: "h"}, make([]byte, 8<<10)
			items[i].Task.Namespace, items[i].Task.ID = "default", job.NewID(int64(turn), uint64(i), 0)
		}
		s.Dispatch(1, items)
	}
	select {
	case <-s.Gone():
		t.Error("the connection of a healthy worker was closed by a burst of 2,000 dispatches")
	case <-time.After(100 * time.Millisecond):
	}
}
