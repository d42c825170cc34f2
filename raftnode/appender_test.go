package raftnode

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
)

// gatedLog holds appends back while it is closed.
type gatedLog struct {
	LogBackend
	mu     sync.Mutex
	closed chan struct{} // nil: open; else writes wait for its end
	writes [][]uint64
	err    error
}

func (h *gatedLog) hold() (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	gate := make(chan struct{})
	h.closed = gate
	return func() {
		h.mu.Lock()
		h.closed = nil
		h.mu.Unlock()
		close(gate)
	}
}

func (h *gatedLog) StoreLogs(logs []*raft.Log) error {
	h.mu.Lock()
	gate := h.closed
	var indexes []uint64
	for _, l := range logs {
		if l.Index != tailIndex {
			indexes = append(indexes, l.Index)
		}
	}
	h.writes = append(h.writes, indexes)
	h.mu.Unlock()
	if gate != nil {
		<-gate
	}
	if h.err != nil {
		return h.err
	}
	return h.LogBackend.StoreLogs(logs)
}

func aheadLog(t *testing.T) (*logStore, *gatedLog) {
	t.Helper()
	h := &gatedLog{LogBackend: memoryLog{raft.NewInmemStore()}}
	g := newGuard(time.Minute, func(int, error) {})
	t.Cleanup(g.close)
	s := newLogStore(h, "me", 1<<10, g)
	s.ahead = func() bool { return true }
	return s, h
}

// What a leader appends is there for raft at once, and durable once durable says so.
func TestLeaderAppendsAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := aheadLog(t)
		release := h.hold()
		for i := uint64(1); i <= 3; i++ { // the second and third go together
			if err := s.StoreLogs(entries(i, i, 1, 10)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		s.cache.clear()
		var l raft.Log
		if err := s.GetLog(3, &l); err != nil || l.Index != 3 {
			t.Errorf("an entry that is not durable: %v, %v", l.Index, err)
		}
		durable := make(chan struct{})
		go func() {
			if err := s.durable(2); err != nil {
				t.Error(err)
			}
			close(durable)
		}()
		synctest.Wait()
		select {
		case <-durable:
			t.Error("an entry counts as durable before it is written")
		default:
		}
		release()
		<-durable
		if err := s.appender.drain(); err != nil {
			t.Fatal(err)
		}
		if len(h.writes) != 2 || len(h.writes[1]) != 2 {
			t.Errorf("written in %v", h.writes)
		}
		if err := s.durable(99); err != nil {
			t.Errorf("nothing is left to write: %v", err)
		}
	})
}

// What a follower confirms, what a server alone decides and a truncation wait for
// the disk, and for what is still to be written before them.
func TestOnlyALeaderAppendsAhead(t *testing.T) {
	follower := entries(2, 2, 1, 10)
	follower[0].Extensions = seal(follower[0])
	for name, act := range map[string]func(s *logStore) error{
		"follower": func(s *logStore) error { return s.StoreLogs(follower) },
		"configuration": func(s *logStore) error {
			return s.StoreLogs([]*raft.Log{{Index: 2, Term: 1, Type: raft.LogConfiguration}})
		},
		"alone": func(s *logStore) error {
			s.ahead = func() bool { return false }
			return s.StoreLogs(entries(2, 2, 1, 10))
		},
		"truncation": func(s *logStore) error { return s.DeleteRange(1, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, h := aheadLog(t)
				release := h.hold()
				if err := s.StoreLogs(entries(1, 1, 1, 10)); err != nil {
					t.Fatal(err)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					if err := act(s); err != nil {
						t.Error(err)
					}
				}()
				synctest.Wait()
				select {
				case <-done:
					t.Error("it did not wait for the disk")
				default:
				}
				if len(h.writes) > 1 {
					t.Errorf("written in %v", h.writes)
				}
				release()
				<-done
			})
		})
	}
}

// A write that fails ends the process, and what waits for it never counts as durable.
func TestFailedAppendAheadIsNeverDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := aheadLog(t)
		codes := make(chan int, 1)
		s.fatal = func(code int, _ error) { codes <- code }
		s.enter(guardArmed)
		h.err = errors.New("input/output error")
		if err := s.StoreLogs(entries(1, 1, 1, 10)); err != nil {
			t.Fatal(err)
		}
		if code := <-codes; code != ExitLogFailed {
			t.Errorf("exit code %d", code)
		}
		if err := s.durable(1); err == nil {
			t.Error("it counts as durable")
		}
	})
}

// Followers may have an entry on their disks; as long as the leader hasn't, it is not
// committed, since raft counts the leader among the quorum. Here the leader and one
// follower are up: were the leader lost now, a lone copy would be left.
func TestNothingIsCommittedBeforeTheLeaderHasIt(t *testing.T) {
	inBubble(t, trio3, func(c *cluster) {
		logs := map[string]*gatedLog{}
		c.wrap = func(name string, inner LogBackend) LogBackend {
			logs[name] = &gatedLog{LogBackend: inner}
			return logs[name]
		}
		c.startAll()
		c.mustSubmit("before", 3, 10)
		l := c.leader()
		others := c.others(l)
		others[0].stop()
		release := logs[l.name].hold()
		answered := make(chan error, 1)
		go func() {
			_, err := l.submit("k", 10)
			answered <- err
		}()
		last := func(m *member) uint64 { _, last := m.log.index.bounds(); return last }
		c.until("the follower has it", func() bool { return last(others[1]) == last(l) })
		time.Sleep(testElection / 4) // the guard would soon call the disk stalled
		select {
		case err := <-answered:
			answered <- err
			t.Error("answered before the leader's disk had it")
		default:
		}
		release()
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}

// A leader that was deposed may be sent what it made itself and has not written yet:
// it must not confirm what is only in its memory.
func TestNothingIsConfirmedFromMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := pair(t)
		s, h := aheadLog(t)
		b.log = ownEntries{s, new(snapshots)}
		release := h.hold()
		made := entries(1, 1, 1, 10)
		if err := s.StoreLogs(made); err != nil {
			t.Fatal(err)
		}
		made[0].Extensions = seal(made[0])
		go func() {
			var resp raft.AppendEntriesResponse
			_ = a.AppendEntries("b", "b", &raft.AppendEntriesRequest{
				RPCHeader: raft.RPCHeader{Addr: []byte("a")}, Term: 2, Entries: made,
			}, &resp)
		}()
		synctest.Wait()
		var rpc raft.RPC
		select {
		case rpc = <-b.Consumer():
			t.Error("raft was asked to confirm an entry that is not on disk")
			release()
		default:
			release()
			rpc = <-b.Consumer()
		}
		rpc.Respond(&raft.AppendEntriesResponse{Term: 2, Success: true}, nil)
		closeBoth(t, a, b)
	})
}
