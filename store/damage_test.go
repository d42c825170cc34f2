package store

import (
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A flipped bit in a table of the state shows when it is read, by Fatal or at the
// start: a row is never another one than was written, and never missing.
func TestFlippedBitIsNeverRead(t *testing.T) {
	mem := vfs.NewMem()
	s, err := openEngine(mem, "state", small(t))
	if err != nil {
		t.Fatal(err)
	}
	want := fill(s, 400)
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	closeAll(t, s)
	names, err := mem.List("state")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(5, 6))
	tables, noticed := 0, 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		tables++
		f, err := mem.Open("state/" + name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		closeAll(t, f)
		whole := string(b)
		for range 60 {
			at, bit := rng.IntN(len(whole)), rng.IntN(8)
			flipped := []byte(whole)
			flipped[at] ^= 1 << bit
			writeFile(t, mem, "state/"+name, string(flipped))
			if readsOrFails(t, mem, want, fmt.Sprintf("%s, bit %d of byte %d of %d", name, bit, at, len(whole))) {
				noticed++
			}
		}
		writeFile(t, mem, "state/"+name, whole)
	}
	if tables == 0 || noticed < 30*tables {
		t.Errorf("%d flips of %d tables were noticed", noticed, tables)
	}
	if readsOrFails(t, mem, want, "undamaged") {
		t.Error("the undamaged state fails")
	}
}

// readsOrFails reads all rows; it reports whether the damage was told. In
// production the process ends then.
func readsOrFails(t *testing.T, fs vfs.FS, want map[string]string, what string) bool {
	var told atomic.Bool
	opts := small(t)
	opts.Create = false
	opts.Fatal = func(error) { told.Store(true) }
	s, err := openEngine(fs, "state", opts)
	if err != nil {
		return true
	}
	v := s.View()
	rows := rowsOf(v)
	v.Close()
	_ = s.db.Close() // what it reports was told
	if !told.Load() && !maps.Equal(rows, want) {
		t.Errorf("%s: read %d rows that are not the %d that were written", what, len(rows), len(want))
	}
	return told.Load()
}
