package raftnode

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"pgregory.net/rapid"
)

// Whatever raft says and however slow the reader: the last value is the present
// state, and between two leading values there is a loss.
func TestTermQueueNeverHidesALoss(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var q termQueue
		var read []Term
		now := Term{}
		for term := range uint64(rapid.IntRange(1, 30).Draw(rt, "changes")) {
			for len(q.pending) > 0 && rapid.Bool().Draw(rt, "read") {
				read = append(read, q.pending[0])
				q.taken()
			}
			now = Term{Number: term + 1, Leading: rapid.Bool().Draw(rt, "leading")}
			q.add(now)
			if len(q.pending) > 2 {
				rt.Fatalf("%d values are kept", len(q.pending))
			}
		}
		for len(q.pending) > 0 {
			read = append(read, q.pending[0])
			q.taken()
		}
		last := Term{}
		for _, r := range read {
			if r.Leading && last.Leading {
				rt.Fatalf("%v follows %v", r, last)
			}
			last = r
		}
		if last.Leading != now.Leading || now.Leading && last != now {
			rt.Fatalf("ends with %v, raft's last word was %v", last, now)
		}
	})
}

func TestTermsDrainRaftAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var won atomic.Uint64
		l := newLeadership(won.Load, won.Load)
		go l.run()
		for range 100 { // nobody reads; raft must not block
			won.Add(1)
			l.notify <- true
			l.notify <- false
		}
		won.Add(1)
		l.notify <- true
		if got := <-l.out; got != (Term{Number: won.Load(), Leading: true}) {
			t.Errorf("first read: %+v", got)
		}
		won.Add(1)
		l.notify <- true // lost and regained in one
		if got := <-l.out; got.Leading {
			t.Errorf("the loss was merged away: %+v", got)
		}
		if got := <-l.out; got != (Term{Number: won.Load(), Leading: true}) {
			t.Errorf("last read: %+v", got)
		}
		l.close()
	})
}

func TestStuckTransfer(t *testing.T) {
	inProgress := func() error { return raft.ErrLeadershipTransferInProgress }
	for name, tt := range map[string]struct {
		leading func(since time.Duration) bool
		probe   func() error
		want    bool
	}{
		"stuck":      {func(time.Duration) bool { return true }, inProgress, true},
		"succeeded":  {func(d time.Duration) bool { return d < 3*time.Second }, inProgress, false},
		"given up":   {func(time.Duration) bool { return true }, func() error { return nil }, false},
		"no quorum":  {func(time.Duration) bool { return true }, func() error { return errors.New("lost") }, false},
		"lost first": {func(time.Duration) bool { return false }, inProgress, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got := stuckTransfer(context.Background(), time.Second, func() bool { return tt.leading(time.Since(began)) }, tt.probe)
				if got != tt.want {
					t.Errorf("stuck: %v, want %v", got, tt.want)
				}
				if d := time.Since(began); tt.want && d < stuckAfter*time.Second {
					t.Errorf("judged after %v", d)
				}
			})
		})
	}
}
