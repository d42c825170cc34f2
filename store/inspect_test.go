package store

import (
	"io"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Inspect changes nothing, and finds a flipped bit in any table.
func TestInspect(t *testing.T) {
	fs := vfs.NewMem()
	h := newHome(t, fs)
	fill(h.State(), 2000)
	id := takeSnapshot(t, h, 9, 2)
	want := fill(h.State(), 3000)
	closeAll(t, h)
	before := filesOf(t, fs, "home")
	found, err := Inspect(fs, "home", func(v View) error {
		if !maps.Equal(rowsOf(v), want) {
			t.Error("other rows than were written")
		}
		return nil
	})
	if err != nil || found.Problems != nil || len(found.Snapshots) != 1 || found.Snapshots[0].ID != id {
		t.Errorf("a sound home: %+v, %v", found, err)
	}
	if after := filesOf(t, fs, "home"); !maps.Equal(before, after) {
		t.Error("looking at a home changed its files")
	}
	for name, data := range before {
		if !isTable(name) {
			continue
		}
		writeFile(t, fs, name, data[:len(data)/3]+string(data[len(data)/3]^4)+data[len(data)/3+1:])
		found, err := Inspect(fs, "home", func(View) error { return nil })
		if err == nil && found.Problems == nil {
			t.Errorf("a flipped bit in %s was not found", name)
		}
		if strings.Contains(name, snapshotsName) && !strings.Contains(strings.Join(found.Problems, "\n"), id) {
			t.Errorf("a flipped bit in %s was reported as %+v, %v", name, found, err)
		}
		writeFile(t, fs, name, data)
	}
	h = newHome(t, fs)
	if _, err := Inspect(fs, "home", func(View) error { return nil }); err == nil {
		t.Error("a home in use was inspected")
	}
	closeAll(t, h)
}

// filesOf returns the content of all files below dir but the lock, by path.
func filesOf(t *testing.T, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir() {
			maps.Copy(out, filesOf(t, fs, path))
			continue
		}
		if name == lockName {
			continue
		}
		f, err := fs.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(f)
		if err != nil {
			t.Fatal(err)
		}
		closeAll(t, f)
		out[path] = string(b)
	}
	return out
}

func writeFile(t *testing.T, fs vfs.FS, name, data string) {
	t.Helper()
	if err := fs.Remove(name); err != nil { // a link shares its bytes
		t.Fatal(err)
	}
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(data)); err != nil {
		t.Fatal(err)
	}
	closeAll(t, f)
}
