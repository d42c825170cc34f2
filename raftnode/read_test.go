package raftnode

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// One round serves all who came before it began, and only those.
func TestConfirmationsShareRounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds atomic.Int32
		began := make(chan struct{}, 10)
		release := make(chan struct{})
		c := &confirmer{ask: func() round {
			n := rounds.Add(1)
			began <- struct{}{}
			<-release
			return round{term: uint64(n)}
		}}
		var callers sync.WaitGroup
		ask := func(want uint64) {
			callers.Go(func() {
				r, err := c.confirm(context.Background())
				if err != nil || r.term != want {
					t.Errorf("round %d, %v, want %d", r.term, err, want)
				}
			})
		}
		ask(1)
		<-began
		for range 100 { // too late for the first round: its questions are out
			ask(2)
		}
		synctest.Wait()
		release <- struct{}{}
		<-began
		release <- struct{}{}
		callers.Wait()
		c.rounds.Wait()
		if rounds.Load() != 2 {
			t.Errorf("%d rounds for 101 callers", rounds.Load())
		}
	})
}

func TestConfirmEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		c := &confirmer{ask: func() round { <-release; return round{} }}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := c.confirm(ctx); err == nil {
			t.Error("confirmed without a round")
		}
		close(release)
		c.rounds.Wait()
	})
}

func TestWatermark(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watermark
		var waiters sync.WaitGroup
		for i := uint64(1); i <= 10; i++ {
			waiters.Go(func() {
				if err := w.wait(context.Background(), i); err != nil {
					t.Error(err)
				}
				if got := w.get(); got < i {
					t.Errorf("woken at %d, waited for %d", got, i)
				}
			})
		}
		for i := uint64(1); i <= 10; i++ {
			synctest.Wait()
			w.set(i)
		}
		waiters.Wait()
		w.set(3)
		if w.get() != 10 {
			t.Error("went back")
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := w.wait(ctx, 11); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}
