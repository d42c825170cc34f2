package raftnode

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// heldRaft answers entries when told to.
type heldRaft struct {
	entries chan *heldFuture
}

type heldFuture struct {
	commands int
	bytes    int
	answer   chan error
	results  []fsm.Result // nil: all went well
}

func (h *heldRaft) ApplyLog(l raft.Log, _ time.Duration) raft.ApplyFuture {
	e, err := fsm.DecodeEntry(l.Data)
	if err != nil {
		panic(err)
	}
	f := &heldFuture{commands: len(e.Commands), bytes: len(l.Data), answer: make(chan error, 1)}
	h.entries <- f
	return f
}

func (f *heldFuture) Error() error  { return <-f.answer }
func (f *heldFuture) Index() uint64 { return 1 }
func (f *heldFuture) Response() any {
	if f.results != nil {
		return f.results
	}
	return make([]fsm.Result, f.commands)
}

// startBatcher runs a batcher over a raft that answers on demand.
func startBatcher() (*batcher, *heldRaft) {
	h := &heldRaft{entries: make(chan *heldFuture, 100)}
	b := newBatcher(h, func() int64 { return 1 }, time.Second)
	go b.run()
	return b, h
}

// outcomes collects what proposers are told.
type outcomes chan error

func (o outcomes) propose(b *batcher, size int) *proposal {
	p := &proposal{command: make([]byte, size), done: func(_ fsm.Result, err error) { o <- err }}
	b.add(p)
	return p
}

func TestBatcherSendsTheFirstAtOnceAndGathersTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 100)
		o.propose(b, 10)
		synctest.Wait()
		first := <-h.entries
		for range gatherAtLeast - 1 {
			o.propose(b, 10)
		}
		synctest.Wait()
		if len(h.entries) != 0 {
			t.Error("a small entry was sent beside one in flight")
		}
		first.answer <- nil
		synctest.Wait()
		second := <-h.entries
		if first.commands != 1 || second.commands != gatherAtLeast-1 {
			t.Errorf("entries of %d and %d commands", first.commands, second.commands)
		}
		second.answer <- nil
		synctest.Wait()
		for range gatherAtLeast {
			if err := <-o; err != nil {
				t.Error(err)
			}
		}
		b.close()
	})
}

// Patient commands wait for others for a moment after an entry, but not for what is
// not patient.
func TestBatcherLetsPatientCommandsGather(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 100)
		propose := func(patient bool) {
			b.add(&proposal{command: make([]byte, 10), patient: patient, done: func(_ fsm.Result, err error) { o <- err }})
			synctest.Wait()
		}
		sent := func(what string, commands int) {
			t.Helper()
			synctest.Wait()
			if len(h.entries) != 1 {
				t.Fatalf("%s: %d entries", what, len(h.entries))
			}
			f := <-h.entries
			if f.commands != commands {
				t.Errorf("%s: an entry of %d commands, want %d", what, f.commands, commands)
			}
			f.answer <- nil
			synctest.Wait()
		}
		time.Sleep(patience)
		propose(true)
		sent("after a pause one goes at once", 1)
		propose(true)
		time.Sleep(patience - 1)
		propose(true)
		if len(h.entries) != 0 {
			t.Error("patient commands did not wait for others")
		}
		time.Sleep(time.Nanosecond)
		sent("they wait no longer than that", 2)
		propose(true)
		propose(false)
		sent("one in a hurry takes them with it", 2)
		for range gatherAtLeast {
			propose(true)
		}
		sent("many wait for nothing", gatherAtLeast)
		b.close()
	})
}

// An entry that apply refuses whole has done nothing. Whoever takes results for
// verdicts must not see it as one: a worker would forget what it owes.
func TestAnEntryThatDidNothingIsNotCommitted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 3)
		for _, refusal := range []*job.Error{nil, job.Errorf(job.CodeNoLeader, "ahead"), job.Errorf(job.CodeStale, "too late")} {
			o.propose(b, 10)
			synctest.Wait()
			f := <-h.entries
			f.results = []fsm.Result{{Err: refusal}}
			f.answer <- nil
			err := <-o
			if want := refusal != nil && refusal.Code == job.CodeNoLeader; want != errors.Is(err, job.ErrNoLeader) || !want && err != nil {
				t.Errorf("a command with the result %v is answered with the error %v", refusal, err)
			}
		}
		b.close()
	})
}

func TestBatcherLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 3*maxQueued)
		for range maxQueued + maxInFlight*maxEntryCommand + 1000 {
			o.propose(b, 1)
			synctest.Wait()
		}
		if len(h.entries) != maxInFlight {
			t.Errorf("%d entries in flight, want %d", len(h.entries), maxInFlight)
		}
		if err := <-o; !errors.Is(err, &job.Error{Code: job.CodeOverloaded}) {
			t.Errorf("a full queue answered %v", err)
		}
		o.propose(b, maxCommandBytes+1)
		for err := range o {
			if errors.Is(err, &job.Error{Code: job.CodeTooLarge}) {
				break
			}
		}
		for len(h.entries) > 0 {
			f := <-h.entries
			if f.commands > maxEntryCommand {
				t.Errorf("an entry of %d commands", f.commands)
			}
			f.answer <- nil
			synctest.Wait()
		}
		b.close()
	})
}

func TestBatcherSplitsByBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 100)
		o.propose(b, 1)
		synctest.Wait()
		first := <-h.entries
		for range 12 {
			o.propose(b, 100<<10)
		}
		o.propose(b, 2*fsm.MaxEntryBytes) // larger than an entry: alone
		first.answer <- nil
		for got := 1; got < 14; {
			f := <-h.entries
			if f.bytes > fsm.MaxEntryBytes && f.commands != 1 {
				t.Errorf("an entry of %d bytes with %d commands", f.bytes, f.commands)
			}
			got += f.commands
			f.answer <- nil
		}
		b.close()
	})
}

func TestErrorClasses(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want job.Code
	}{
		{raft.ErrNotLeader, job.CodeNoLeader},
		{raft.ErrEnqueueTimeout, job.CodeNoLeader},
		{raft.ErrLeadershipTransferInProgress, job.CodeNoLeader},
		{raft.ErrLeadershipLost, job.CodeUnknownOutcome},
		{raft.ErrRaftShutdown, job.CodeUnknownOutcome},
		{raft.ErrAbortedByRestore, job.CodeUnknownOutcome},
		{errors.New("no space left on device"), job.CodeUnknownOutcome},
	} {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, h := startBatcher()
				o := make(outcomes, 1)
				o.propose(b, 1)
				(<-h.entries).answer <- tt.err
				if err := <-o; !errors.Is(err, &job.Error{Code: tt.want}) {
					t.Errorf("got %v, want %s", err, tt.want)
				}
				b.close()
			})
		})
	}
}

// Raft may never answer: the caller is told in time, the entry still
// counts as in flight, and who waits behind it is known not to be committed.
func TestBatcherDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 10)
		o.propose(b, 1)
		synctest.Wait()
		stuck := <-h.entries
		o.propose(b, 1)
		began := time.Now()
		if err := <-o; !errors.Is(err, job.ErrOverloaded) {
			t.Errorf("what waits behind a stuck entry: %v", err)
		}
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("it waited %v", d)
		}
		if err := <-o; !errors.Is(err, job.ErrUnknownOutcome) {
			t.Errorf("what is in a stuck entry: %v", err)
		}
		o.propose(b, 1)
		synctest.Wait()
		if len(h.entries) != 0 {
			t.Error("an unanswered entry no longer counts as in flight")
		}
		stuck.answer <- raft.ErrLeadershipLost
		synctest.Wait()
		(<-h.entries).answer <- nil
		if err := <-o; err != nil {
			t.Error(err)
		}
		b.close()
	})
}

func TestBatcherCloseAnswersAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, h := startBatcher()
		o := make(outcomes, 10)
		o.propose(b, 1)
		synctest.Wait()
		inFlight := <-h.entries
		o.propose(b, 1)
		synctest.Wait()
		go b.close()
		if err := <-o; !errors.Is(err, job.ErrNoLeader) {
			t.Errorf("what was never proposed: %v", err)
		}
		inFlight.answer <- raft.ErrRaftShutdown
		if err := <-o; !errors.Is(err, job.ErrUnknownOutcome) {
			t.Errorf("what was in flight: %v", err)
		}
		o.propose(b, 1)
		if err := <-o; !errors.Is(err, job.ErrNoLeader) {
			t.Errorf("after close: %v", err)
		}
	})
}
