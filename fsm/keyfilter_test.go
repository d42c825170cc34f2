package fsm

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/axd-project/axd/job"
)

// keyTx counts the looks for idempotency keys.
type keyTx struct {
	*memTx
	gets int
}

func (k *keyTx) Get(b []byte) ([]byte, bool) {
	if b[0] == tableKeys {
		k.gets++
	}
	return k.memTx.Get(b)
}

// A filter must never deny a row that is there: not while it is built, not while
// rows come and go, not when it has become too small.
func TestKeyFilterDeniesNoRow(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	tx := newMemTx()
	var f keyFilter
	var live []key
	add := func(n int) {
		k := key{}.idempotency("ns", strconv.Itoa(n))
		tx.Set(k, []byte{1})
		f.add(k)
		live = append(live, append(key{}, k...))
	}
	n, completed, rebuilt := 0, 0, 0
	for range 400 {
		for range 1 + rng.IntN(1000) {
			add(n)
			n++
		}
		for range min(rng.IntN(700), len(live)-1) {
			i := rng.IntN(len(live))
			tx.Delete(live[i])
			f.deleted++
			live[i] = live[len(live)-1]
			live = live[:len(live)-1]
		}
		before := f.ready
		f.grow(tx)
		if f.ready != before {
			completed++
			if before != nil {
				rebuilt++
			}
		}
		for range 300 {
			if k := live[rng.IntN(len(live))]; !f.mayHold(k) {
				t.Fatalf("denied %q, which has a row; %d rows, filter of %d", k, len(live), f.ready.keys)
			}
		}
	}
	if completed < 3 || rebuilt < 2 {
		t.Errorf("%d filters were completed, %d of them in place of another", completed, rebuilt)
	}
	denied := 0
	for i := range 10_000 {
		if !f.mayHold(key{}.idempotency("ns", "absent-"+strconv.Itoa(i))) {
			denied++
		}
	}
	if denied < 9700 {
		t.Errorf("only %d of 10000 absent keys were denied", denied)
	}
}

// The filter is a cache: a machine without it, over the same state, finds the same
// tasks, and one with it doesn't look for new keys.
func TestKeyFilterSparesLooks(t *testing.T) {
	tx := &keyTx{memTx: newMemTx()}
	tx.fast = true
	m, index := NewMachine(), uint64(0)
	submit := func(from, n int) []SubmitResult {
		t.Helper()
		c := Submit{Namespace: "default"}
		for i := range n {
			c.Tasks = append(c.Tasks, job.TaskSpec{
				Executor: job.Executor{Handler: "mail"}, Delay: job.Duration(time.Hour), IdempotencyKey: "order-" + strconv.Itoa(from+i),
			})
		}
		b, err := EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := EncodeEntry(Entry{At: scriptStart, Commands: [][]byte{b}})
		if err != nil {
			t.Fatal(err)
		}
		index++
		results, _, err := m.Apply(tx, Meta{Index: index}, entry)
		if err != nil {
			t.Fatal(err)
		}
		return results[0].Tasks
	}
	submit(0, 1) // completes the filter of an empty table
	tx.gets = 0
	const tasks = 3 * filterScan
	first := submit(1, tasks)
	if tx.gets > tasks/50 {
		t.Errorf("%d looks for %d new keys", tx.gets, tasks)
	}
	m.Reset()
	for i, want := range first {
		if i%500 != 0 {
			continue
		}
		if got := submit(1+i, 1)[0]; !got.Deduplicated || got.ID != want.ID {
			t.Errorf("key %d after a restart: %+v", i, got)
		}
	}
	if m.keys.ready == nil {
		t.Error("the filter was not built again")
	}
	if got := submit(1, 1)[0]; !got.Deduplicated || got.ID != first[0].ID {
		t.Errorf("with the filter built again: %+v", got)
	}
}

func BenchmarkKeyFilter(b *testing.B) {
	f := newBloom(1 << 20)
	for i := range uint64(1 << 20) {
		f.add(xxhash.Sum64String(strconv.FormatUint(i, 10)))
	}
	k := key{}.idempotency("default", "order-123456")
	held := 0
	for b.Loop() {
		if f.mayHold(xxhash.Sum64(k)) {
			held++
		}
	}
}
