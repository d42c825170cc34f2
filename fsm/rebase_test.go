package fsm

import (
	"math"
	"testing"

	"github.com/axd-project/axd/job"
)

func TestNextEpoch(t *testing.T) {
	const now = 1_800_000_000_000
	for _, tt := range []struct {
		name string
		old  uint32
		now  int64
		want uint32
	}{
		{"the first restore follows the clock", 0, now, now / 1000},
		{"a second restore of the same backup is above", 0, now + 1000, now/1000 + 1},
		{"a clock that went back", now / 1000, now - 5000, now/1000 + 1},
		{"a clock before 1970", 7, -1, 8},
		{"a clock after 2106", 7, math.MaxInt64, math.MaxUint32},
	} {
		if got, err := NextEpoch(tt.old, tt.now); got != tt.want || err != nil {
			t.Errorf("%s: %d, %v, want %d", tt.name, got, err, tt.want)
		}
	}
	if _, err := NextEpoch(math.MaxUint32, now); err == nil {
		t.Error("an epoch after the last one")
	}
}

// After a rebase tokens are above every one that a log can have given, the
// attempts of before are no worker's, and the state is whole.
func TestRebase(t *testing.T) {
	tx, _, index := newState(t)
	before := ReadInfo(tx)
	held := ListActive(tx, "w1", 10)
	if len(held) == 0 {
		t.Fatal("nothing is active")
	}
	o, err := Rebase(tx, Base{How: FromSnapshot, ClusterID: "c2", Now: 1_900_000_000_000})
	if err != nil {
		t.Fatal(err)
	}
	info := ReadInfo(tx)
	if info.ClusterID != "c2" || info.RestoreEpoch != 1_900_000_000 || info.Applied != index || info.Chain == before.Chain {
		t.Errorf("info is %+v, was %+v", info, before)
	}
	if kept, ok := ReadOrigin(tx); !ok || kept != o || o.ClusterID != "c1" || o.Epoch != info.RestoreEpoch || o.Applied != index {
		t.Errorf("origin is %+v, %v, want %+v", kept, ok, o)
	}
	for _, a := range ListActive(tx, "w1", 10) {
		if a.Boot != RebasedBoot {
			t.Errorf("attempt of task %s is held by life %q", a.Ref.ID, a.Boot)
		}
	}
	if problems := Check(tx, 10); problems != nil {
		t.Errorf("%q", problems)
	}
	// Though the log begins again below where it was, tokens rise.
	highest := held[0].Token
	m, at := NewMachine(), index
	apply := func(cmds ...Command) []Result {
		t.Helper()
		at++
		entry := Entry{At: 1_900_000_001_000}
		for _, c := range cmds {
			b, err := EncodeCommand(c)
			if err != nil {
				t.Fatal(err)
			}
			entry.Commands = append(entry.Commands, b)
		}
		b, err := EncodeEntry(entry)
		if err != nil {
			t.Fatal(err)
		}
		results, _, err := m.Apply(tx, Meta{Index: at, Term: 1}, b)
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	res := apply(RegisterWorker{Term: 1, Name: "w1", Boot: "b1"},
		LoseAttempts{Term: 1, Attempts: []AttemptRef{held[0].AttemptRef}, Outcome: job.OutcomeLost})
	if res[1].Attempts[0] != nil {
		t.Fatal(res[1].Attempts[0])
	}
	lost, _ := GetTask(tx, held[0].Ref)
	at += 1 // the retry is due later than the entry's time
	b, _ := EncodeCommand(Reschedule{Ref: lost.Ref(), Now: true})
	if lost.State == job.Pending {
		entry, _ := EncodeEntry(Entry{At: 1_900_000_001_000, Commands: [][]byte{b}})
		if _, _, err := m.Apply(tx, Meta{Index: at, Term: 1}, entry); err != nil {
			t.Fatal(err)
		}
		lost, _ = GetTask(tx, lost.Ref())
		res = apply(Assign{Term: 1, Items: []AssignItem{{Ref: lost.Ref(), Version: lost.Version, Worker: "w1", Boot: "b1"}}})
		if got := res[0].Assigned[0]; got.Err != nil || got.Token.Compare(highest) <= 0 || got.Token.Epoch != o.Epoch {
			t.Errorf("assigned %+v, the token must be above %v", got, highest)
		}
	} else {
		t.Fatalf("the lost task is %v", lost.State)
	}
	if problems := Check(tx, 10); problems != nil {
		t.Errorf("%q", problems)
	}
}
