package store

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"github.com/axd-project/axd/fsm"
)

// The twins must behave alike: both are compared with a map under random
// operations.
func TestConformance(t *testing.T) {
	twins := map[string]func() Store{
		"memory": func() Store { return NewMemory() },
		"pebble": func() Store {
			s, err := openEngine(vfs.NewMem(), "state", small(t))
			if err != nil {
				t.Fatal(err)
			}
			return s
		},
	}
	for name, open := range twins {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				m := &model{t: rt, store: open(), rows: map[string]string{}}
				defer m.end()
				rt.Repeat(map[string]func(*rapid.T){
					"batch":      m.batch,
					"view":       m.openView,
					"check view": m.checkView,
					"close view": m.closeView,
					"flush":      m.flush,
				})
			})
		})
	}
}

// small makes memtables overflow within a test.
func small(t testing.TB) Options {
	return Options{Create: true, MemTableBytes: 64 << 10, CacheBytes: 1 << 20,
		Fatal: func(err error) { t.Errorf("storage failed: %v", err); panic(err) }}
}

type model struct {
	t     *rapid.T
	store Store
	rows  map[string]string
	views []openedView
}

type openedView struct {
	view View
	rows map[string]string
}

var (
	anyKey   = rapid.SliceOfN(rapid.SampledFrom([]byte{0x00, 'a', 'b', 0xff}), 1, 3)
	anyValue = rapid.OneOf(rapid.SliceOfN(rapid.Byte(), 0, 8), rapid.Just(bytes.Repeat([]byte("v"), 9000)))
)

func (m *model) batch(t *rapid.T) {
	b := m.store.Batch()
	defer b.Discard()
	rows := maps.Clone(m.rows)
	for range rapid.IntRange(0, 12).Draw(t, "ops") {
		key := anyKey.Draw(t, "key")
		switch rapid.IntRange(0, 3).Draw(t, "op") {
		case 0:
			value := anyValue.Draw(t, "value")
			rows[string(key)] = string(value)
			k, v := bytes.Clone(key), bytes.Clone(value)
			b.Set(k, v)
			clear(k) // the store must have copied them
			clear(v)
		case 1:
			delete(rows, string(key))
			b.Delete(key)
		case 2:
			checkGet(t, b, rows, key)
		case 3:
			checkAscend(t, b, rows)
		}
	}
	if rapid.Bool().Draw(t, "commit") {
		b.Commit()
		m.rows = rows
	} else {
		b.Discard()
	}
}

func (m *model) openView(t *rapid.T) {
	m.views = append(m.views, openedView{m.store.View(), maps.Clone(m.rows)})
}

func (m *model) checkView(t *rapid.T) {
	if len(m.views) == 0 {
		t.Skip("no view")
	}
	v := m.views[rapid.IntRange(0, len(m.views)-1).Draw(t, "view")]
	checkGet(t, v.view, v.rows, anyKey.Draw(t, "key"))
	checkAscend(t, v.view, v.rows)
}

func (m *model) closeView(t *rapid.T) {
	if len(m.views) == 0 {
		t.Skip("no view")
	}
	i := rapid.IntRange(0, len(m.views)-1).Draw(t, "view")
	m.views[i].view.Close()
	m.views[i].view.Close() // twice is harmless
	m.views = slices.Delete(m.views, i, i+1)
}

func (m *model) flush(t *rapid.T) {
	if err := m.store.Flush(); err != nil {
		t.Fatal(err)
	}
}

func (m *model) end() {
	v := m.store.View()
	if got := rowsOf(v); !maps.Equal(got, m.rows) {
		m.t.Errorf("at the end: %d rows, want %d", len(got), len(m.rows))
	}
	v.Close()
	for _, v := range m.views {
		v.view.Close()
	}
	if err := m.store.Close(); err != nil {
		m.t.Error(err)
	}
}

func checkGet(t *rapid.T, r fsm.Reader, rows map[string]string, key []byte) {
	value, ok := r.Get(key)
	want, wantOK := rows[string(key)]
	if ok != wantOK || string(value) != want {
		t.Fatalf("Get(%q) = %.20q %v, want %.20q %v", key, value, ok, want, wantOK)
	}
}

// checkAscend compares a bounded walk that may stop early and that reads the
// store from inside, by Get and by a second walk.
func checkAscend(t *rapid.T, r fsm.Reader, rows map[string]string) {
	lo := rapid.OneOf(rapid.Just([]byte(nil)), anyKey).Draw(t, "lo")
	hi := rapid.OneOf(rapid.Just([]byte(nil)), anyKey).Draw(t, "hi")
	limit := rapid.IntRange(1, 20).Draw(t, "limit")
	nested := rapid.Bool().Draw(t, "nested")
	var want []string
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if k >= string(lo) && (hi == nil || k < string(hi)) && len(want) < limit {
			want = append(want, k+"="+rows[k])
		}
	}
	var got []string
	l, h := bytes.Clone(lo), bytes.Clone(hi)
	r.Ascend(l, h, func(key, value []byte) bool {
		if nested {
			checkGet(t, r, rows, bytes.Clone(key))
			r.Ascend(key, nil, func(k, _ []byte) bool {
				if !bytes.Equal(k, key) {
					t.Fatalf("nested walk from %q starts at %q", key, k)
				}
				return false
			})
		}
		got = append(got, fmt.Sprintf("%s=%s", key, value))
		return len(got) < limit
	})
	clear(l)
	clear(h)
	if !slices.Equal(got, want) {
		t.Fatalf("Ascend(%q, %q) gave %d rows %.100q, want %d %.100q", lo, hi, len(got), got, len(want), want)
	}
}

func rowsOf(r fsm.Reader) map[string]string {
	rows := map[string]string{}
	r.Ascend(nil, nil, func(k, v []byte) bool {
		rows[string(k)] = string(v)
		return true
	})
	return rows
}

// Views may be read while the one batch writes and commits.
func TestViewsBesideBatch(t *testing.T) {
	engine, err := openEngine(vfs.NewMem(), "state", small(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Store{"memory": NewMemory(), "pebble": engine} {
		t.Run(name, func(t *testing.T) {
			want := fill(s, 500)
			var readers sync.WaitGroup
			for range 2 {
				v := s.View()
				readers.Go(func() {
					defer v.Close()
					for range 5 {
						if got := rowsOf(v); !maps.Equal(got, want) {
							t.Errorf("a view beside a batch has %d rows, want %d", len(got), len(want))
						}
					}
				})
			}
			for i := range 100 {
				set(s, fmt.Sprintf("key-%08d", i), "changed")
				set(s, fmt.Sprintf("new-%08d", i), "added")
			}
			readers.Wait()
			closeAll(t, s)
		})
	}
}

// Memtables as large as the cache must leave room for blocks.
func TestBlocksAreCached(t *testing.T) {
	opts := small(t)
	opts.MemTableBytes, opts.CacheBytes = 1<<20, 1<<20
	s, err := openEngine(vfs.NewMem(), "state", opts)
	if err != nil {
		t.Fatal(err)
	}
	want := fill(s, 2000)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	fill(s, 100) // the next memtable
	checkRows(t, s, want)
	if m := s.Metrics(); m["cache_bytes"] == 0 || m["disk_bytes"] == 0 || m["memtable_bytes"] == 0 {
		t.Errorf("metrics %v", m)
	}
	closeAll(t, s)
}

// Both twins' checkpoints open as the state they were made of.
func TestCheckpointOpens(t *testing.T) {
	dir := t.TempDir()
	engine, err := openEngine(vfs.Default, filepath.Join(dir, "live"), small(t))
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]Store{"memory": NewMemory(), "pebble": engine} {
		t.Run(name, func(t *testing.T) {
			want := fill(s, 1000)
			at := filepath.Join(dir, "of-"+name)
			if err := s.Checkpoint(at); err != nil {
				t.Fatal(err)
			}
			if err := s.Checkpoint(at); err == nil {
				t.Error("a second checkpoint into the same directory was not refused")
			}
			set(s, "later", "row")
			opts := small(t)
			opts.Create = false
			copied, err := openEngine(vfs.Default, at, opts)
			if err != nil {
				t.Fatal(err)
			}
			checkRows(t, copied, want)
			closeAll(t, copied, s)
		})
	}
}

func TestOpenRefusesAbsentState(t *testing.T) {
	if _, err := openEngine(vfs.NewMem(), "state", Options{}); err == nil {
		t.Fatal("an absent state was created")
	}
}

// Close waits for readers; a view stays valid until it is closed.
func TestCloseWaitsForViews(t *testing.T) {
	s, err := openEngine(vfs.NewMem(), "state", small(t))
	if err != nil {
		t.Fatal(err)
	}
	want := fill(s, 100)
	v := s.View()
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	if got := rowsOf(v); !maps.Equal(got, want) {
		t.Errorf("view has %d rows, want %d", len(got), len(want))
	}
	select {
	case err := <-closed:
		t.Errorf("closed under an open view: %v", err)
	default:
	}
	v.Close()
	if err := <-closed; err != nil {
		t.Error(err)
	}
}

// fill commits n rows in batches of 100 and returns them.
func fill(s Store, n int) map[string]string {
	rows := map[string]string{}
	for i := range n {
		rows[fmt.Sprintf("key-%08d", i)] = fmt.Sprintf("value-%0100d", i)
	}
	for keys := range slices.Chunk(slices.Sorted(maps.Keys(rows)), 100) {
		b := s.Batch()
		for _, k := range keys {
			b.Set([]byte(k), []byte(rows[k]))
		}
		b.Commit()
	}
	return rows
}

func set(s Store, key, value string) {
	b := s.Batch()
	b.Set([]byte(key), []byte(value))
	b.Commit()
}

func checkRows(t *testing.T, s Store, want map[string]string) {
	t.Helper()
	v := s.View()
	defer v.Close()
	if got := rowsOf(v); !maps.Equal(got, want) {
		t.Errorf("state has %d rows, want %d (or they differ)", len(got), len(want))
	}
}

func closeAll(t *testing.T, all ...interface{ Close() error }) {
	t.Helper()
	for _, c := range all {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A file that held rows of two tables would be written again whenever either is.
func TestFilesHoldOneTable(t *testing.T) {
	s, err := openEngine(vfs.NewMem(), "state", small(t))
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, s)
	for n := range 400 {
		b := s.Batch()
		for _, table := range []byte{0x01, 0x04, 0x06, 0xfe, 0xff} {
			b.Set([]byte{table, byte(n), byte(n >> 8)}, make([]byte, 100))
		}
		b.Commit()
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	levels, err := s.db.SSTables()
	if err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, level := range levels {
		for _, f := range level {
			files++
			if from, to := f.Smallest.UserKey[0], f.Largest.UserKey[0]; from != to {
				t.Errorf("file %s holds rows of the tables %#x to %#x", f.FileNum, from, to)
			}
		}
	}
	if files < 5 {
		t.Errorf("%d files hold five tables", files)
	}
}
