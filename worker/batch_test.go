package worker

import (
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/rpc"
)

// What is not committed is sent again, and that alone; what is refused is done.
func TestEachResultOfABatchHasItsVerdict(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		items := make([]rpc.DispatchItem, 60)
		for i := range items {
			items[i] = b.in(time.Second)
		}
		refused, again := items[7].Ref, map[rpc.Ref]bool{items[0].Ref: true, items[30].Ref: true}
		b.verdict = func(m rpc.Finished) (reply rpc.FinishedReply) {
			for i, r := range m.Results {
				if r.Ref == refused {
					reply.Refused = append(reply.Refused, rpc.Refusal{At: i, Why: "late"})
				}
				if again[r.Ref] {
					delete(again, r.Ref)
					reply.Again = append(reply.Again, rpc.Refusal{At: i, Why: "queue full"})
				}
			}
			return reply
		}
		b.dispatch(items...)
		b.pass(10 * time.Second)
		got := map[rpc.Ref]int{}
		for len(b.finished) > 0 {
			got[(<-b.finished).Ref]++
		}
		for i, item := range items {
			want := 1
			if i == 0 || i == 30 {
				want = 2
			}
			if got[item.Ref] != want {
				t.Errorf("result %d was sent %d times, want %d", i, got[item.Ref], want)
			}
		}
		if s := b.w.Stats(); s.Owed != 0 || s.Finished != 60 {
			t.Errorf("got %+v", s)
		}
	})
}

// Results that come while the leader commits others leave together.
func TestResultsThatWaitLeaveTogether(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *arming) {
		var frames, most atomic.Int64
		b.verdict = func(m rpc.Finished) rpc.FinishedReply {
			frames.Add(1)
			most.Store(max(most.Load(), int64(len(m.Results))))
			return rpc.FinishedReply{}
		}
		b.with(func() { b.slowFinish = 100 * time.Millisecond })
		var items []rpc.DispatchItem
		for i := range 200 { // one each millisecond
			items = append(items, b.in(time.Second+time.Duration(i)*time.Millisecond))
		}
		b.dispatch(items...)
		b.pass(5 * time.Second)
		if s := b.w.Stats(); s.Owed != 0 || s.Finished != 200 {
			t.Errorf("got %+v", s)
		}
		if frames.Load() > 30 || most.Load() > maxResults {
			t.Errorf("200 results left in %d messages of at most %d", frames.Load(), most.Load())
		}
	})
}

// Results and give-backs that alternate must not each take a message.
func TestMessagesAreOfOneKindAndFull(t *testing.T) {
	t.Parallel()
	tb := newTable(1)
	for i := range 3 * maxResults {
		e := entryOf(i)
		if i%2 == 1 {
			e = spooled{Ref: e.Ref, GiveBack: "no free slot"}
		}
		tb.owe(e, nil)
	}
	tb.owe(spooled{Ref: refOf(-1), GiveBack: "revoked"}, nil)
	tb.owe(spooled{Ref: refOf(-2), Result: make([]byte, maxResultBytes+1)}, nil)
	sizes, next := map[string][]int{}, map[string]uint64{}
	for more := true; more; {
		var entries []spooled
		entries, more = tb.take()
		reason := entries[0].GiveBack
		sizes[reason] = append(sizes[reason], len(entries))
		for _, e := range entries {
			index := tokenOf(e.Ref).Index
			if e.GiveBack != reason || index < next[reason] {
				t.Fatalf("%q at %d after %d of %q", e.GiveBack, index, next[reason], reason)
			}
			next[reason] = index
		}
	}
	if got := sizes[""]; !slices.Equal(got, []int{maxResults, maxResults / 2, 1}) {
		t.Errorf("messages of %v results", got)
	}
	if got := sizes["no free slot"]; len(got) != (3*maxResults/2+maxGiveBacks-1)/maxGiveBacks || got[0] != maxGiveBacks {
		t.Errorf("messages of %v give-backs", got)
	}
	if len(sizes["revoked"]) != 1 {
		t.Errorf("got %v", sizes)
	}
}

// An attempt of this process that ran when the worker died is lost: the next
// life says so at once, since the process's end was the attempt's.
func TestHandlersAttemptOfAnEarlierLifeIsLost(t *testing.T) {
	t.Parallel()
	dir, next := t.TempDir(), t.TempDir()
	l := newLeader(t)
	startWorker(t, l, func(c *Config) { c.DataDir = dir })
	long, short := l.item(handler("wait")), l.item(handler("echo"))
	l.dispatch(long, short)
	receive(t, l.started, patience)
	receive(t, l.finished, patience)
	eventually(t, patience, "it is noted alone", func() bool {
		held := journaled(t, dir)
		return len(held) == 1 && held[0] == liveRecord{entry: spooled{Ref: long.Ref}, runs: true}.name()
	})
	b, err := os.ReadFile(fileIn(dir, journalName)) // as a kill would leave it
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(fileIn(next, journalName), b, 0o600); err != nil {
		t.Fatal(err)
	}
	other := newLeader(t)
	w, _ := startWorker(t, other, func(c *Config) { c.DataDir = next })
	f := receive(t, other.finished, patience)
	if f.Ref != long.Ref || job.Outcome(f.Outcome) != job.OutcomeLost {
		t.Errorf("got %+v", f)
	}
	eventually(t, patience, "it is forgotten", func() bool { return w.Stats().Owed == 0 && len(journaled(t, next)) == 0 })
	l.kill(long.Ref, rpc.KillCancel)
	receive(t, l.finished, patience)
}
