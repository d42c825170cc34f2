package raftnode

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// pipeListener accepts in-memory connections.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error   { close(l.closed); return nil }
func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case l.conns <- far:
		return near, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// pair starts two transports that reach each other.
func pair(t *testing.T) (a, b *transport) {
	t.Helper()
	listeners := map[string]*pipeListener{"a": newPipeListener(), "b": newPipeListener()}
	logger := newRaftLogger(slog.New(slog.DiscardHandler))
	start := func(name string) *transport {
		return newTransport(Config{
			Name: name, Listener: listeners[name], ElectionTimeout: time.Second,
			Dial: func(ctx context.Context, name, _ string) (net.Conn, error) {
				if listeners[name] == nil {
					return nil, errors.New("unreachable")
				}
				return listeners[name].dial(ctx)
			},
		}, func(string) (string, bool) { return "", true }, func(string) bool { return true }, onDisk{}, logger)
	}
	return start("a"), start("b")
}

// onDisk is a log that is always written.
type onDisk struct{}

func (onDisk) durable(uint64) error { return nil }

func (onDisk) covers(uint64, uint64) bool { return false }

func (onDisk) compacted() uint64 { return 0 }

func closeBoth(t *testing.T, a, b *transport) {
	t.Helper()
	if err := errors.Join(a.Close(), b.Close()); err != nil {
		t.Error(err)
	}
}

func TestTransportKeepsWhatRaftAsksFor(t *testing.T) {
	var tr raft.Transport = &transport{}
	if _, ok := tr.(raft.WithPreVote); !ok {
		t.Error("PreVote would silently be off")
	}
	if _, ok := tr.(raft.WithClose); !ok {
		t.Error("raft would not close the transport")
	}
}

// What a follower's log has behind the entries of a request may be of another leader.
func TestNoMoreIsCommittedThanWasCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		go func() {
			rpc := <-b.Consumer()
			if got := rpc.Command.(*raft.AppendEntriesRequest).LeaderCommitIndex; got != 5 {
				t.Errorf("raft would commit up to entry %d, want 5", got)
			}
			rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
		}()
		var resp raft.AppendEntriesResponse
		req := &raft.AppendEntriesRequest{Term: 1, PrevLogEntry: 5, PrevLogTerm: 1, LeaderCommitIndex: 9}
		if err := a.AppendEntries("b", "b", req, &resp); err != nil || !resp.Success {
			t.Errorf("response %+v, error %v", resp, err)
		}
		closeBoth(t, a, b)
	})
}

// A heartbeat must reach the main loop although raft has set a handler for it.
func TestHeartbeatsHaveNoFastPath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		b.SetHeartbeatHandler(func(raft.RPC) { t.Error("a heartbeat took the fast path") })
		go func() {
			rpc := <-b.Consumer()
			rpc.Respond(&raft.AppendEntriesResponse{Term: 1, Success: true}, nil)
		}()
		var resp raft.AppendEntriesResponse
		heartbeat := &raft.AppendEntriesRequest{RPCHeader: raft.RPCHeader{Addr: []byte("a")}, Term: 1}
		if err := a.AppendEntries("b", "b", heartbeat, &resp); err != nil || !resp.Success {
			t.Errorf("heartbeat: %+v, %v", resp, err)
		}
		if _, err := a.AppendEntriesPipeline("b", "b"); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
			t.Errorf("pipelining is on: %v", err)
		}
		closeBoth(t, a, b)
	})
}

// A sender that dies silently in the middle of a snapshot frees the
// receiver's main loop in bounded time, and draining the rest costs no more.
func TestStalledSenderFreesTheReceiver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		hung, release := make(chan struct{}), make(chan struct{})
		go func() {
			body := io.MultiReader(&io.LimitedReader{R: zeros{}, N: 1 << 20}, blocked{hung, release})
			var resp raft.InstallSnapshotResponse
			_ = a.InstallSnapshot("b", "b", &raft.InstallSnapshotRequest{Size: 1 << 30}, &resp, body)
		}()
		if _, ok := (<-b.Consumer()).Command.(*raft.AppendEntriesRequest); !ok {
			t.Error("no heartbeat comes before a snapshot")
		}
		rpc := <-b.Consumer()
		began := time.Now()
		n, err := io.Copy(io.Discard, rpc.Reader)
		if err == nil || n == 0 {
			t.Errorf("read %d bytes of a dead sender: %v", n, err)
		}
		if _, err := io.Copy(io.Discard, rpc.Reader); err == nil {
			t.Error("draining went on")
		}
		if d := time.Since(began); d > 6*time.Second {
			t.Errorf("the receiver was held for %v", d)
		}
		rpc.Respond(nil, errors.New("short read"))
		<-hung
		close(release)
		closeBoth(t, a, b)
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// blocked is a disk that hangs: the sender's side of a silent death.
type blocked struct{ hung, release chan struct{} }

func (b blocked) Read([]byte) (int, error) {
	close(b.hung)
	<-b.release
	return 0, io.ErrUnexpectedEOF
}

// The receiver gives idle connections up; the sender must not lose a request
// to that.
func TestIdleConnectionsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stop := make(chan struct{})
		go func() {
			for {
				select {
				case rpc := <-b.Consumer():
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				case <-stop:
					return
				}
			}
		}()
		for range 5 {
			var resp raft.RequestVoteResponse
			if err := a.RequestVote("b", "b", &raft.RequestVoteRequest{Term: 1}, &resp); err != nil || !resp.Granted {
				t.Errorf("vote: %+v, %v", resp, err)
			}
			var hb raft.AppendEntriesResponse
			if err := a.AppendEntries("b", "b", &raft.AppendEntriesRequest{Term: 1}, &hb); err != nil {
				t.Errorf("after idling: %v", err)
			}
			time.Sleep(time.Minute)
		}
		close(stop)
		closeBoth(t, a, b)
	})
}

func TestDamagedEntriesDontReachRaft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		stop := make(chan struct{})
		go func() {
			select {
			case rpc := <-b.Consumer():
				t.Error("a damaged entry reached raft")
				rpc.Respond(&raft.AppendEntriesResponse{Success: true}, nil)
			case <-stop:
			}
		}()
		l := entries(1, 1, 1, 10)[0]
		l.Extensions = seal(l)
		l.Data[3] ^= 4
		var resp raft.AppendEntriesResponse
		err := a.AppendEntries("b", "b", &raft.AppendEntriesRequest{Term: 1, Entries: []*raft.Log{l}}, &resp)
		if err == nil || !strings.Contains(err.Error(), errDamaged.Error()) {
			t.Errorf("a damaged entry was answered with %+v, %v", resp, err)
		}
		close(stop)
		closeBoth(t, a, b)
	})
}

// A candidate that is sent a snapshot by a leader which dies then votes for others.
func TestASnapshotOfADeadLeaderHoldsNoVoteBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		logger := newRaftLogger(slog.New(slog.DiscardHandler))
		log := newLogStore(memoryLog{raft.NewInmemStore()}, "b", 1<<10, newGuard(time.Hour, func(int, error) {}))
		conf := raft.DefaultConfig()
		conf.LocalID, conf.Logger, conf.NoLegacyTelemetry, conf.SnapshotInterval = "b", logger, true, never
		r, err := raft.NewRaft(conf, noState{}, log, log, raft.NewInmemSnapshotStore(), b)
		if err != nil {
			t.Fatal(err)
		}
		members := raft.Configuration{Servers: []raft.Server{{ID: "a", Address: "a"}, {ID: "b", Address: "b"}, {ID: "c", Address: "c"}}}
		if err := r.BootstrapCluster(members).Error(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); r.State() != raft.Candidate && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		}
		header := func(name string) raft.RPCHeader {
			return raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(name), Addr: []byte(name)}
		}
		var installed raft.InstallSnapshotResponse
		snapshot := &raft.InstallSnapshotRequest{
			RPCHeader: header("a"), SnapshotVersion: raft.SnapshotVersionMax, Term: r.CurrentTerm(), LastLogIndex: 10, LastLogTerm: 1,
			Configuration: raft.EncodeConfiguration(members), ConfigurationIndex: 1,
		}
		_ = a.InstallSnapshot("b", "b", snapshot, &installed, strings.NewReader("")) // noState takes none
		if leader, _ := r.LeaderWithID(); leader != "a" {
			t.Fatalf("after a snapshot %q leads", leader)
		}
		time.Sleep(time.Minute)
		var vote raft.RequestPreVoteResponse
		ask := &raft.RequestPreVoteRequest{RPCHeader: header("c"), Term: r.CurrentTerm() + 1, LastLogIndex: 100, LastLogTerm: 1}
		if err := a.RequestPreVote("b", "b", ask, &vote); err != nil || !vote.Granted {
			t.Errorf("a minute after the leader's death a server with a longer log is told %+v, %v", vote, err)
		}
		if err := r.Shutdown().Error(); err != nil {
			t.Error(err)
		}
		log.guard.close()
		closeBoth(t, a, b)
	})
}

// Raft only refuses a removed server; it must also be told why.
func TestStrangersAreToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		b.member = func(name string) bool { return name != "a" }
		began := time.Now()
		time.Sleep(time.Second)
		var resp raft.RequestPreVoteResponse
		ask := &raft.RequestPreVoteRequest{RPCHeader: raft.RPCHeader{ID: []byte("a")}}
		if err := a.RequestPreVote("b", "b", ask, &resp); err == nil {
			t.Error("a stranger got a pre-vote")
		}
		if !a.refusedSince("b", began) || a.refusedSince("b", time.Now()) || a.refusedSince("c", began) {
			t.Error("the refusal was not noted")
		}
		time.Sleep(time.Second)
		a.held.Store(true) // asking is no candidacy
		again := time.Now()
		time.Sleep(time.Second)
		if a.askMembership("b"); !a.refusedSince("b", again) {
			t.Error("the answer to a question was not noted")
		}
		closeBoth(t, a, b)
	})
}

func TestHeldVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		a.held.Store(true)
		var vote raft.RequestVoteResponse
		if err := a.RequestVote("b", "b", &raft.RequestVoteRequest{}, &vote); !errors.Is(err, errHeld) {
			t.Errorf("vote: %v", err)
		}
		var pre raft.RequestPreVoteResponse
		if err := a.RequestPreVote("b", "b", &raft.RequestPreVoteRequest{}, &pre); !errors.Is(err, errHeld) {
			t.Errorf("pre-vote: %v", err)
		}
		var now raft.TimeoutNowResponse
		if err := b.TimeoutNow("a", "a", &raft.TimeoutNowRequest{}, &now); err == nil {
			t.Error("took leadership over while votes are held back")
		}
		closeBoth(t, a, b)
	})
}
