package store

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crashOften returns a file system that keeps crash clones of itself: one
// before each change on disk with the given probability.
func crashOften(rng *rand.Rand, percent int) (fs vfs.FS, mem *vfs.MemFS, clones *[]*vfs.MemFS) {
	mem = vfs.NewCrashableMem()
	clones = new([]*vfs.MemFS)
	lock := make(chan struct{}, 1) // the engine's goroutines change files too
	fs = errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead {
			return nil
		}
		lock <- struct{}{}
		defer func() { <-lock }()
		if rng.IntN(100) < percent {
			*clones = append(*clones, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}))
		}
		return nil
	}))
	return fs, mem, clones
}

// Without a write-ahead log, a crash at any moment must leave the batches up to
// some applied index and nothing of the later ones.
func TestCrashLeavesPrefixOfBatches(t *testing.T) {
	crashes := 0
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		fs, mem, clones := crashOften(rng, 3)
		if err := (disk{mem}).makeDir("d"); err != nil {
			t.Fatal(err)
		}
		s, err := Open(fs, "d/state", small(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := (disk{mem}).syncDir("d"); err != nil {
			t.Fatal(err)
		}
		*clones = nil
		states := []map[string]string{{}}
		flushed := map[*vfs.MemFS]int{} // clones taken after a flush hold at least that
		for i := 1; i <= 150; i++ {
			states = append(states, randomBatch(rng, s, states[i-1], i))
			switch rng.IntN(12) {
			case 0:
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
				clone := mem.CrashClone(vfs.CrashCloneCfg{})
				flushed[clone] = i
			case 1:
				*clones = append(*clones, mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 30, RNG: rng}))
			}
		}
		closeAll(t, s)
		for _, clone := range *clones {
			checkPrefix(t, clone, states, 0)
		}
		for clone, least := range flushed {
			checkPrefix(t, clone, states, least)
		}
		crashes += len(*clones) + len(flushed)
	}
	if crashes < 100 {
		t.Errorf("only %d crashes were tried", crashes)
	}
}

// randomBatch commits batch number i over rows and returns what they become.
func randomBatch(rng *rand.Rand, s Store, rows map[string]string, i int) map[string]string {
	rows = maps.Clone(rows)
	b := s.Batch()
	for range rng.IntN(8) {
		key := fmt.Sprintf("k%02d", rng.IntN(60))
		if rng.IntN(4) == 0 {
			delete(rows, key)
			b.Delete([]byte(key))
			continue
		}
		// A few values are larger than half a memtable, which takes another path.
		value := make([]byte, []int{10, 300, 40_000}[min(rng.IntN(30)/14, 2)])
		for j := range value {
			value[j] = byte(rng.Uint32())
		}
		rows[key] = string(value)
		b.Set([]byte(key), value)
	}
	var applied [8]byte
	binary.BigEndian.PutUint64(applied[:], uint64(i))
	rows["applied"] = string(applied[:])
	b.Set([]byte("applied"), applied[:])
	b.Commit()
	return rows
}

func appliedOf(rows map[string]string) int {
	if rows["applied"] == "" {
		return 0
	}
	return int(binary.BigEndian.Uint64([]byte(rows["applied"])))
}

func checkPrefix(t *testing.T, fs vfs.FS, states []map[string]string, least int) {
	t.Helper()
	opts := small(t)
	opts.Create = false
	s, err := Open(fs, "d/state", opts)
	if err != nil {
		t.Errorf("open after the crash: %v", err)
		return
	}
	v := s.View()
	rows := rowsOf(v)
	v.Close()
	closeAll(t, s)
	at := appliedOf(rows)
	if !maps.Equal(rows, states[at]) {
		t.Errorf("a crash left %d rows that are not those of batch %d", len(rows), at)
	}
	if at < least {
		t.Errorf("a crash lost flushed batches: %d of %d left", at, least)
	}
}

// Whatever a home is doing when it crashes, it opens again to a whole state,
// its listed snapshots are whole, and a received snapshot is listed exactly
// when its state is the live one.
func TestHomeCrash(t *testing.T) {
	source := newHome(t, vfs.NewMem())
	defer closeAll(t, source)
	received := fill(source.State(), 300)
	received["applied"] = setApplied(source.State(), 1000)
	stream := snapshotStream(t, source, SnapshotMeta{Index: 1010, Term: 3})

	outcomes := map[string]int{}
	for seed := range uint64(3) {
		rng := rand.New(rand.NewPCG(seed, 2))
		fs, _, clones := crashOften(rng, 15)
		states := homeLife(t, fs, rng, stream)
		states = append(states, received)
		for _, clone := range *clones {
			outcomes[checkHome(t, clone, states, received)]++
		}
	}
	t.Logf("crashes: %v", outcomes)
	for _, o := range []string{"no home yet", "own state", "installed"} {
		if outcomes[o] == 0 {
			t.Errorf("no crash left %q", o)
		}
	}
}

// homeLife creates a home, commits, takes snapshots, receives and installs one,
// and goes on; it returns every state that the home's own batches made.
func homeLife(t *testing.T, fs vfs.FS, rng *rand.Rand, stream []byte) []map[string]string {
	h, err := OpenHome(fs, "home", small(t))
	if err != nil {
		t.Fatal(err)
	}
	states := []map[string]string{{}}
	commit := func(n int) {
		for range n {
			last := states[len(states)-1]
			states = append(states, randomBatch(rng, h.State(), last, appliedOf(last)+1))
		}
	}
	for range 3 {
		commit(20)
		takeSnapshot(t, h, uint64(appliedOf(states[len(states)-1])), 2)
		if err := h.Reap(2); err != nil {
			t.Fatal(err)
		}
	}
	id := receive(t, h, SnapshotMeta{Index: 1010, Term: 3}, stream)
	commit(5)
	if err := h.Install(id); err != nil {
		t.Fatal(err)
	}
	v := h.State().View()
	states = append(states, rowsOf(v))
	v.Close()
	for i := range 2 {
		commit(20)
		takeSnapshot(t, h, uint64(1020+i), 3)
		if err := h.Reap(1); err != nil {
			t.Fatal(err)
		}
	}
	closeAll(t, h)
	return states
}

func checkHome(t *testing.T, fs vfs.FS, states []map[string]string, received map[string]string) string {
	t.Helper()
	opts := small(t)
	opts.Create = false
	if _, err := fs.Stat("home/" + currentName); err != nil {
		opts.Create = true // it crashed before the home was there
	}
	h, err := OpenHome(fs, "home", opts)
	if err != nil {
		t.Errorf("open after the crash: %v", err)
		return "error"
	}
	defer closeAll(t, h)
	v := h.State().View()
	rows := rowsOf(v)
	v.Close()
	known := false
	for _, s := range states {
		known = known || maps.Equal(rows, s)
	}
	if !known {
		t.Errorf("a crash left a state of %d rows, applied %d, that never was", len(rows), appliedOf(rows))
	}
	metas, err := h.List()
	if err != nil {
		t.Error(err)
	}
	listed := false
	for _, m := range metas {
		checkSnapshot(t, h, m, states)
		listed = listed || m.Index == 1010
		if m.Applied > uint64(appliedOf(rows)) {
			t.Errorf("snapshot %s holds %d, the state only %d: raft would skip what lies between", m.ID, m.Applied, appliedOf(rows))
		}
	}
	installed := appliedOf(rows) >= 1000
	if listed && !installed {
		t.Error("the received snapshot is listed, but its state is not the live one")
	}
	if h.current.Live == 2 && !installed {
		t.Error("CURRENT names the received state, but it is not there")
	}
	switch {
	case opts.Create:
		return "no home yet"
	case installed:
		return "installed"
	}
	return "own state"
}

// checkSnapshot installs a listed snapshot into another home and looks at it.
func checkSnapshot(t *testing.T, h *Home, m SnapshotMeta, states []map[string]string) {
	t.Helper()
	other := newHome(t, vfs.NewMem())
	defer closeAll(t, other)
	id := receive(t, other, m, readAll(t, h, m.ID))
	if err := other.Install(id); err != nil {
		t.Errorf("snapshot %s: %v", m.ID, err)
		return
	}
	v := other.State().View()
	defer v.Close()
	rows := rowsOf(v)
	for _, s := range states {
		if uint64(appliedOf(s)) == m.Applied && maps.Equal(rows, s) {
			return
		}
	}
	t.Errorf("snapshot %s of %d rows, applied %d, is no state that was at %d", m.ID, len(rows), appliedOf(rows), m.Applied)
}
