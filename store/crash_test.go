package store

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// crasher keeps crash clones of a file system: one before each change on disk
// with the given probability.
type crasher struct {
	mem     *vfs.MemFS
	percent int

	mu     sync.Mutex // the engine's goroutines change files too
	rng    *rand.Rand
	clones []*vfs.MemFS
}

func newCrasher(seed uint64, percent int) *crasher {
	return &crasher{mem: vfs.NewCrashableMem(), percent: percent, rng: rand.New(rand.NewPCG(seed, 3))}
}

func (c *crasher) fs() vfs.FS {
	return errorfs.Wrap(c.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			c.crash(c.percent, 50)
		}
		return nil
	}))
}

// crash keeps a clone with some of the data that was not synced.
func (c *crasher) crash(percent, unsynced int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rng.IntN(100) < percent {
		c.clones = append(c.clones, c.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: unsynced, RNG: c.rng}))
	}
}

// Without a write-ahead log, a crash at any moment must leave the batches up to
// some applied index and nothing of the later ones.
func TestCrashLeavesPrefixOfBatches(t *testing.T) {
	crashes := 0
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 1))
		c := newCrasher(seed, 3)
		if err := (disk{c.mem}).makeDir("d"); err != nil {
			t.Fatal(err)
		}
		opts := small(t)
		empty, err := openEngine(c.mem, "d/state", opts) // crashes while it is made are TestHomeCrash's
		if err != nil {
			t.Fatal(err)
		}
		closeAll(t, empty)
		if err := (disk{c.mem}).syncDir("d"); err != nil {
			t.Fatal(err)
		}
		s, err := openEngine(c.fs(), "d/state", opts)
		if err != nil {
			t.Fatal(err)
		}
		states := []map[string]string{{}}
		flushed := map[*vfs.MemFS]int{} // clones taken after a flush hold at least that
		for i := 1; i <= 150; i++ {
			states = append(states, randomBatch(rng, s, states[i-1], i))
			switch rng.IntN(12) {
			case 0:
				if err := s.Flush(); err != nil {
					t.Fatal(err)
				}
				flushed[c.mem.CrashClone(vfs.CrashCloneCfg{})] = i
			case 1:
				c.crash(100, 30)
			}
		}
		closeAll(t, s)
		for _, clone := range c.clones {
			checkPrefix(t, clone, states, 0)
		}
		for clone, least := range flushed {
			checkPrefix(t, clone, states, least)
		}
		crashes += len(c.clones) + len(flushed)
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
	s, err := openEngine(fs, "d/state", opts)
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
	for seed := range uint64(2) {
		c := newCrasher(seed, 8)
		states := homeLife(t, c.fs(), rand.New(rand.NewPCG(seed, 2)), stream)
		states = append(states, received)
		for _, clone := range c.clones {
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
	listed := false
	for _, m := range h.List() {
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

// checkSnapshot reads a listed snapshot, as a stream and as a state.
func checkSnapshot(t *testing.T, h *Home, m SnapshotMeta, states []map[string]string) {
	t.Helper()
	if _, err := verify(bytes.NewReader(readAll(t, h, m.ID))); err != nil {
		t.Errorf("snapshot %s: %v", m.ID, err)
	}
	copied, err := openEngine(h.fs.FS, h.fs.PathJoin(h.snapshotPath(m.ID), stateDir), h.opts)
	if err != nil {
		t.Errorf("snapshot %s: %v", m.ID, err)
		return
	}
	defer closeAll(t, copied)
	v := copied.View()
	defer v.Close()
	rows := rowsOf(v)
	for _, s := range states {
		if uint64(appliedOf(s)) == m.Applied && maps.Equal(rows, s) {
			return
		}
	}
	t.Errorf("snapshot %s of %d rows, applied %d, is no state that was at %d", m.ID, len(rows), appliedOf(rows), m.Applied)
}

// What a marker names must be on disk before the marker can be.
func TestMarkerFollowsManifest(t *testing.T) {
	mem := vfs.NewCrashableMem()
	if err := (disk{mem}).makeDir("d"); err != nil {
		t.Fatal(err)
	}
	markers := 0
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		_, name, found := strings.Cut(mem.PathBase(op.Path), "MANIFEST-")
		if op.Kind != errorfs.OpCreate || !found || !strings.HasPrefix(mem.PathBase(op.Path), markerPrefix) {
			return nil
		}
		markers++
		if err := (disk{mem}).syncDir("d"); err != nil {
			t.Error(err)
		}
		if _, err := mem.CrashClone(vfs.CrashCloneCfg{}).Stat("d/state/MANIFEST-" + name); err != nil {
			t.Errorf("marker %s before its manifest: %v", op.Path, err)
		}
		return nil
	}))
	for range 2 {
		s, err := openEngine(fs, "d/state", small(t))
		if err != nil {
			t.Fatal(err)
		}
		closeAll(t, s)
	}
	if markers != 2 {
		t.Errorf("%d markers were made", markers)
	}
}

// What CURRENT will name must be on disk before the rename that publishes it.
func TestCurrentNamesWhatIsDurable(t *testing.T) {
	from := newHome(t, vfs.NewMem())
	defer closeAll(t, from)
	stream := snapshotStream(t, from, SnapshotMeta{Index: 9, Term: 1})
	mem := vfs.NewCrashableMem()
	var named []current
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind != errorfs.OpRename || mem.PathBase(op.Path) != currentName+tempSuffix {
			return nil
		}
		crashed := disk{mem.CrashClone(vfs.CrashCloneCfg{})}
		var c current
		if err := (disk{mem}).readJSON(op.Path, &c); err != nil {
			t.Error(err)
		}
		named = append(named, c)
		opts := small(t)
		opts.Create = false
		live, err := openEngine(crashed, fmt.Sprintf("home/%s%d", livePrefix, c.Live), opts)
		if err != nil {
			t.Errorf("state that CURRENT names: %v", err)
		} else {
			closeAll(t, live)
		}
		if _, err := crashed.Stat("home/snapshots/" + c.Snapshot + "/" + manifestName); err != nil && c.Snapshot != "" {
			t.Errorf("snapshot that CURRENT names: %v", err)
		}
		return nil
	}))
	h := newHome(t, fs)
	id := receive(t, h, SnapshotMeta{Index: 9, Term: 1}, stream)
	if err := h.Install(id); err != nil {
		t.Fatal(err)
	}
	closeAll(t, h)
	if want := []current{{Live: 1}, {Live: 2, Snapshot: id}}; !slices.Equal(named, want) {
		t.Errorf("CURRENT named %v, want %v", named, want)
	}
}
