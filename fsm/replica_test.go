package fsm

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// logged is an entry as the log keeps it.
type logged struct {
	meta Meta
	b    []byte
}

// compareReplicas applies the run's log on another server with troubles of its
// own, and wants the same bytes.
func (r *modelRun) compareReplicas() {
	var tx *memTx
	trouble := rapid.SampledFrom([]string{"restarts", "entries delivered twice", "transactions discarded"}).Draw(r.t, "trouble")
	switch trouble {
	case "restarts":
		tx = r.replayWithResets(r.log)
	case "entries delivered twice":
		tx = r.replayTwice(r.log)
	default:
		tx = r.replayDiscarding(r.log)
	}
	if got, want := ReadInfo(tx).Chain, ReadInfo(r.tx).Chain; got != want {
		r.t.Fatalf("%s: hash chain %x, want %x", trouble, got, want)
	}
	if got, want := StateHash(tx), StateHash(r.tx); got != want {
		r.t.Fatalf("%s: state hash %x, want %x", trouble, got, want)
	}
}

func (r *modelRun) replayWithResets(log []logged) *memTx {
	tx, m := newMemTx(), NewMachine()
	for _, e := range log {
		if rapid.Bool().Draw(r.t, "reset") {
			m = NewMachine()
		}
		mustApply(r.t, m, tx, e)
	}
	return tx
}

// replayTwice goes back in the log at times, as a restart does.
func (r *modelRun) replayTwice(log []logged) *memTx {
	tx, m := newMemTx(), NewMachine()
	for i, e := range log {
		mustApply(r.t, m, tx, e)
		for back := rapid.IntRange(-1, min(i, 3)).Draw(r.t, "back"); back >= 0; back-- {
			results, events, err := m.Apply(tx, log[i-back].meta, log[i-back].b)
			if results != nil || events != nil || err != nil {
				r.t.Fatalf("an entry applied before: %v, %v, %v", results, events, err)
			}
		}
	}
	return tx
}

// replayDiscarding loses some transactions before their commit, one entry or
// several in each.
func (r *modelRun) replayDiscarding(log []logged) *memTx {
	tx, m := newMemTx(), NewMachine()
	for i := 0; i < len(log); {
		n := min(rapid.IntRange(1, 4).Draw(r.t, "batch"), len(log)-i)
		open := tx.clone()
		for _, e := range log[i : i+n] {
			mustApply(r.t, m, open, e)
		}
		if rapid.IntRange(0, 2).Draw(r.t, "discard") == 0 {
			m.Reset()
			continue
		}
		tx = open
		i += n
	}
	return tx
}

func mustApply(t rapid.TB, m *Machine, tx Tx, e logged) {
	if _, _, err := m.Apply(tx, e.meta, e.b); err != nil {
		t.Fatal(err)
	}
}

// newState returns a state with something in every table, and the log index
// after it.
func newState(t testing.TB) (*memTx, *Machine, uint64) {
	e := newScriptEnv()
	limits := job.Policy{
		Concurrency: &job.Concurrency{Max: 2, Name: "api"}, Rate: &job.Rate{Max: 1, Per: job.Duration(time.Second), Name: "api"},
	}
	for _, line := range [][]Command{
		{
			Configure{ClusterID: "c1", FeatureLevel: 1},
			PutJob{Namespace: "default", Name: "mail", Spec: job.Spec{Executor: job.Executor{Handler: "mail"}}},
			RegisterWorker{Term: 1, Name: "w1", Boot: "b1"},
			Submit{Namespace: "default", Tasks: []job.TaskSpec{
				{Job: "mail", IdempotencyKey: "k"}, {Executor: job.Executor{Handler: "own"}, Payload: slices.Repeat([]byte("7"), maxInlineBody)}, {Job: "mail"}, {Job: "mail", Delay: 1},
				{Executor: job.Executor{Handler: "own"}, UniqueKey: "u", Policy: limits},
				{Job: "mail", Policy: job.Policy{QueueTimeout: new(job.Duration(time.Hour))}},
			}},
		},
	} {
		if out := e.apply(line); bytes.Contains([]byte(out), []byte("invalid")) {
			t.Fatal(out)
		}
	}
	for _, cmd := range []struct {
		verb string
		f    fields
	}{
		{"assign", fields{"task": "t1,t2,t3,t5", "worker": "w1"}},
		{"finished", fields{"task": "t1"}},
		{"started", fields{"task": "t2"}},
		{"expire", fields{}},
	} {
		e.apply([]Command{e.command(cmd.verb, cmd.f, "")})
	}
	seen := map[byte]bool{}
	e.tx.Ascend(nil, nil, func(k, _ []byte) bool { seen[k[0]] = true; return true })
	for table := tableMeta; table <= tableRateAge; table++ {
		if !seen[table] && table != tableAlerts && table != tableAlertAge {
			t.Fatalf("the state has no row in table %#x", table)
		}
	}
	return e.tx, e.m, e.index
}

func TestFormatOfANewerBuildIsRefused(t *testing.T) {
	for name, m := range map[string]metaRow{
		"format": {Format: Format + 1},
		"level":  {Format: Format, FeatureLevel: FeatureLevel + 1},
	} {
		tx := newMemTx()
		tx.Set(metaKey(metaState), appendMeta(nil, &m))
		if err := CheckFormat(tx); err == nil {
			t.Errorf("%s: accepted", name)
		}
		before := StateHash(tx)
		if _, _, err := NewMachine().Apply(tx, Meta{Index: 1}, nil); err == nil || StateHash(tx) != before {
			t.Errorf("%s: applied", name)
		}
	}
	if err := CheckFormat(newMemTx()); err != nil {
		t.Errorf("an empty state: %v", err)
	}
}

func TestEntryThatCantBeAppliedChangesNothing(t *testing.T) {
	tx, m, index := newState(t)
	known, _ := EncodeCommand(Submit{Namespace: "default", Tasks: []job.TaskSpec{{Job: "mail"}}})
	mixed, _ := EncodeEntry(Entry{Commands: [][]byte{known, {200}}})
	empty, _ := EncodeEntry(Entry{Commands: [][]byte{{}}})
	before := StateHash(tx)
	for name, b := range map[string][]byte{"garbage": {0xff}, "unknown code behind a known one": mixed, "command without a code": empty} {
		if _, _, err := m.Apply(tx, Meta{Index: index + 1, Term: 1}, b); err == nil {
			t.Errorf("%s: applied", name)
		}
	}
	if StateHash(tx) != before {
		t.Error("something was written")
	}
}

func TestClockIsBounded(t *testing.T) {
	tx, m := newMemTx(), NewMachine()
	b, _ := EncodeEntry(Entry{At: 1 << 62})
	mustApply(t, m, tx, logged{Meta{Index: 1}, b})
	b, _ = EncodeEntry(Entry{At: -5})
	mustApply(t, m, tx, logged{Meta{Index: 2}, b})
	if got := ReadInfo(tx).Clock; got != job.MaxTime {
		t.Errorf("the clock is %d, want %d", got, job.MaxTime)
	}
}

// TestHashChain wants the chain to move with every entry, and to differ where
// one byte of state does.
func TestHashChain(t *testing.T) {
	tx, m := newMemTx(), NewMachine()
	seen := map[uint64]bool{}
	for i := uint64(1); i <= 5; i++ {
		b, _ := EncodeEntry(Entry{At: 1})
		mustApply(t, m, tx, logged{Meta{Index: i}, b})
		chain := ReadInfo(tx).Chain
		if seen[chain] {
			t.Fatalf("entry %d: the chain %x was there before", i, chain)
		}
		seen[chain] = true
	}
	other, m2 := newMemTx(), NewMachine()
	for i := uint64(1); i <= 5; i++ {
		at := int64(1)
		if i == 3 {
			at = 2
		}
		b, _ := EncodeEntry(Entry{At: at})
		mustApply(t, m2, other, logged{Meta{Index: i}, b})
	}
	if ReadInfo(other).Chain == ReadInfo(tx).Chain {
		t.Error("another history, the same chain")
	}
}

// TestChecksumKeepsTheChain wants what servers compare: the chain before the
// newest Checksum, however far the state has gone on since.
func TestChecksumKeepsTheChain(t *testing.T) {
	tx, m := newMemTx(), NewMachine()
	plain, _ := EncodeEntry(Entry{At: 1})
	c, _ := EncodeCommand(Checksum{})
	sum, _ := EncodeEntry(Entry{At: 1, Commands: [][]byte{c}})
	index, chain := uint64(0), uint64(0)
	for i, entry := range [][]byte{plain, sum, plain, plain, sum, plain} {
		before := ReadInfo(tx).Chain
		mustApply(t, m, tx, logged{Meta{Index: uint64(i) + 1}, entry})
		if len(entry) == len(sum) {
			index, chain = uint64(i)+1, before
		}
		if got := ReadInfo(tx); got.SumIndex != index || got.SumChain != chain {
			t.Errorf("entry %d: kept %x of entry %d, want %x of %d", i+1, got.SumChain, got.SumIndex, chain, index)
		}
	}
}
