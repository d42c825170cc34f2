package store

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func archiveOf(t *testing.T, h *Home, meta ArchiveMeta) *Archive {
	t.Helper()
	c, err := h.Checkpoint(upTo(meta.Applied))
	if err != nil {
		t.Fatal(err)
	}
	a, err := h.Export(c, meta)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func archiveStream(t *testing.T, a *Archive) []byte {
	t.Helper()
	r, err := a.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, r)
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != a.Meta().Size {
		t.Errorf("the stream has %d bytes, the archive says %d", len(b), a.Meta().Size)
	}
	return b
}

// An archive goes out of one home and, changed or not, into another.
func TestArchive(t *testing.T) {
	fs := vfs.NewMem()
	h := newHome(t, fs)
	want := fill(h.State(), 1000)
	a := archiveOf(t, h, ArchiveMeta{Index: 12, Term: 3, Applied: 11, Created: 1234})
	stream := archiveStream(t, a)
	if err := a.Remove(); err != nil {
		t.Fatal(err)
	}
	checkNothingLeft(t, h)
	checkIDs(t, h) // it is none of the home's snapshots

	b, err := Unpack(fs, "backup", bytes.NewReader(stream))
	if err != nil {
		t.Fatal(err)
	}
	if m := b.Meta(); m.Index != 12 || m.Term != 3 || m.Applied != 11 || m.Created != 1234 || m.Size != int64(len(stream)) || m.Files == 0 {
		t.Errorf("meta is %+v", m)
	}
	if err := b.Read(func(s Store) error { checkRows(t, s, want); set(s, "key", "not kept"); return nil }); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(archiveStream(t, b), stream) {
		t.Error("reading an archive changed it")
	}
	refused := errors.New("refused")
	if err := b.Rewrite(func(s Store) error { set(s, "key", "not kept"); return refused }); !errors.Is(err, refused) {
		t.Errorf("the error of a change became %v", err)
	}
	if !bytes.Equal(archiveStream(t, b), stream) {
		t.Error("a change that failed changed the archive")
	}
	if err := b.Rewrite(func(s Store) error { set(s, "key", "value"); return nil }); err != nil {
		t.Fatal(err)
	}
	want["key"] = "value"
	to := newHome(t, vfs.NewMem())
	if err := to.Install(receive(t, to, SnapshotMeta{Index: 20, Term: 4}, archiveStream(t, b))); err != nil {
		t.Fatal(err)
	}
	checkRows(t, to.State(), want)
	if err := b.Remove(); err != nil {
		t.Fatal(err)
	}
	if left, _ := fs.List(""); strings.Join(left, " ") != "home" {
		t.Errorf("left behind: %v", left)
	}
	closeAll(t, h, to)
}

// No byte of an archive can be changed, and none left out, without notice; what
// was unpacked is gone then.
func TestUnpackFindsDamage(t *testing.T) {
	fs := vfs.NewMem()
	h := newHome(t, fs)
	fill(h.State(), 300)
	stream := archiveStream(t, archiveOf(t, h, ArchiveMeta{Index: 5, Term: 1, Applied: 5}))
	try := func(what string, b []byte) {
		t.Helper()
		if _, err := Unpack(fs, "backup", bytes.NewReader(b)); err == nil {
			t.Errorf("%s was not noticed", what)
		}
		if _, err := fs.Stat("backup"); err == nil {
			t.Errorf("%s: the directory was left behind", what)
		}
	}
	for at := 0; at < len(stream); at += 97 {
		bad := bytes.Clone(stream)
		bad[at] ^= 1
		try("a flipped bit", bad)
	}
	for _, n := range []int{0, 1, 600, len(stream) / 2, len(stream) - 1} {
		try("a cut", stream[:n])
	}
	try("a tail", append(bytes.Clone(stream), 0))
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 100, TotalBytes: 60_000})
	try("a full disk", stream)
	closeAll(t, h)
}
