package store

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/fsm"
)

func newHome(t *testing.T, fs vfs.FS) *Home {
	t.Helper()
	h, err := OpenHome(fs, "home", small(t))
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func reopen(t *testing.T, h *Home) *Home {
	t.Helper()
	closeAll(t, h)
	opts := h.opts
	opts.Create = false
	again, err := OpenHome(h.fs.FS, h.dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func setApplied(s Store, index uint64) string {
	applied := string(binary.BigEndian.AppendUint64(nil, index))
	set(s, "applied", applied)
	return applied
}

// upTo says of any state that it goes up to an entry.
func upTo(index uint64) func(fsm.Reader) uint64 {
	return func(fsm.Reader) uint64 { return index }
}

// takeSnapshot makes a snapshot of the live state and returns its id.
func takeSnapshot(t *testing.T, h *Home, index, term uint64) string {
	t.Helper()
	v := h.State().View()
	applied := appliedOf(rowsOf(v))
	v.Close()
	c, err := h.Checkpoint(upTo(uint64(applied)))
	if err != nil {
		t.Fatal(err)
	}
	sink, err := h.Create(SnapshotMeta{Index: index, Term: term, Extra: []byte("extra")})
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Adopt(c); err != nil {
		t.Fatal(err)
	}
	closeAll(t, sink)
	if err := c.Discard(); err != nil {
		t.Error(err)
	}
	return sink.ID()
}

func snapshotStream(t *testing.T, h *Home, m SnapshotMeta) []byte {
	t.Helper()
	return readAll(t, h, takeSnapshot(t, h, m.Index, m.Term))
}

func readAll(t *testing.T, h *Home, id string) []byte {
	t.Helper()
	meta, r, err := h.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, r)
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if int64(len(b)) != meta.Size {
		t.Errorf("stream of %s has %d bytes, its meta says %d", id, len(b), meta.Size)
	}
	return b
}

// receive writes a stream in odd pieces, as a network does.
func receive(t *testing.T, h *Home, m SnapshotMeta, stream []byte) string {
	t.Helper()
	sink, err := h.Create(m)
	if err != nil {
		t.Fatal(err)
	}
	for piece := range slices.Chunk(stream, 777) {
		if n, err := sink.Write(piece); err != nil || n != len(piece) {
			t.Fatalf("write: %d of %d, %v", n, len(piece), err)
		}
	}
	closeAll(t, sink)
	return sink.ID()
}

func ids(t *testing.T, h *Home) []string {
	t.Helper()
	var ids []string
	for _, m := range h.List() {
		ids = append(ids, m.ID)
	}
	return ids
}

func checkIDs(t *testing.T, h *Home, want ...string) {
	t.Helper()
	if got := ids(t, h); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
}

func TestHomeReopens(t *testing.T) {
	h := newHome(t, vfs.NewMem())
	want := fill(h.State(), 500)
	h = reopen(t, h) // a clean close flushes
	checkRows(t, h.State(), want)
	first := takeSnapshot(t, h, 10, 2)
	second := takeSnapshot(t, h, 10, 2)
	old := takeSnapshot(t, h, 99, 1)
	h = reopen(t, h)
	checkIDs(t, h, second, first, old)
	if m := h.List()[0]; m.Index != 10 || m.Term != 2 || string(m.Extra) != "extra" || m.Size == 0 {
		t.Errorf("meta is %+v", m)
	}
	closeAll(t, h)
}

func TestHomeRefusesMissingState(t *testing.T) {
	fs := vfs.NewMem()
	opts := small(t)
	opts.Create = false
	_, err := OpenHome(fs, "home", opts)
	if err == nil || !strings.Contains(err.Error(), "state directory home has no state") {
		t.Errorf("missing directory: %v", err)
	}
	if _, err := fs.Stat("home"); err == nil {
		t.Error("the refused directory was created")
	}

	h := newHome(t, fs)
	id := takeSnapshot(t, h, 1, 1)
	closeAll(t, h)
	if err := fs.RemoveAll("home/live-1"); err != nil {
		t.Fatal(err)
	}
	for _, create := range []bool{false, true} {
		opts.Create = create
		if _, err := OpenHome(fs, "home", opts); err == nil {
			t.Errorf("a lost live directory was made anew, Create %v", create)
		}
	}
	if err := fs.Remove("home/CURRENT"); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHome(fs, "home", opts); err == nil || !strings.Contains(err.Error(), "has snapshots") {
		t.Errorf("an empty state beside snapshot %s: %v", id, err)
	}
}

func TestHomeRefusesDamagedSnapshot(t *testing.T) {
	fs := vfs.NewMem()
	h := newHome(t, fs)
	fill(h.State(), 10)
	id := takeSnapshot(t, h, 1, 1)
	closeAll(t, h)
	if err := fs.Remove("home/snapshots/" + id + "/state/" + tableOf(t, h, id)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenHome(fs, "home", small(t)); err == nil || !strings.Contains(err.Error(), "snapshot "+id+" is damaged") {
		t.Errorf("a snapshot without its table: %v", err)
	}
}

func tableOf(t *testing.T, h *Home, id string) string {
	t.Helper()
	for _, f := range h.snaps[id].record.Files {
		if isTable(f.Name) {
			return f.Name
		}
	}
	t.Fatal("snapshot has no table")
	return ""
}

func TestHomeIsLocked(t *testing.T) {
	fs := vfs.NewMem()
	h := newHome(t, fs)
	if _, err := OpenHome(fs, "home", small(t)); err == nil {
		t.Error("two homes on one directory")
	}
	closeAll(t, h)
}

// A snapshot travels to another home and becomes its state; the handle, and
// views opened before, behave as State says.
func TestInstall(t *testing.T) {
	from, to := newHome(t, vfs.NewMem()), newHome(t, vfs.NewMem())
	want := fill(from.State(), 2000)
	want["applied"] = setApplied(from.State(), 77)
	stream := snapshotStream(t, from, SnapshotMeta{Index: 80, Term: 4})
	if m, err := verify(bytes.NewReader(stream)); err != nil || m.Index != 80 || m.Applied != 77 || m.Size != int64(len(stream)) {
		t.Errorf("verify: %+v, %v", m, err)
	}

	state := to.State()
	set(state, "old", "row")
	own := takeSnapshot(t, to, 5, 1)
	before := state.View()
	id := receive(t, to, SnapshotMeta{Index: 80, Term: 4, Extra: []byte("theirs")}, stream)
	checkIDs(t, to, own)
	if !bytes.Equal(readAll(t, to, id), stream) {
		t.Error("a received snapshot streams differently")
	}
	if err := to.Install(id); err != nil {
		t.Fatal(err)
	}
	checkIDs(t, to, id, own)
	checkRows(t, state, want)
	if got := rowsOf(before); !maps.Equal(got, map[string]string{"old": "row"}) {
		t.Errorf("a view opened before reads %v", got)
	}
	if _, err := to.fs.Stat("home/live-1"); err != nil {
		t.Error("the old state went under an open view")
	}
	before.Close()
	if _, err := to.fs.Stat("home/live-1"); err == nil {
		t.Error("the old state stayed after its last view")
	}
	set(state, "new", "row")
	want["new"] = "row"
	to = reopen(t, to)
	checkRows(t, to.State(), want)
	checkIDs(t, to, id, own)
	if m := to.List()[0]; m.Applied != 77 || string(m.Extra) != "theirs" {
		t.Errorf("meta of the installed snapshot: %+v", m)
	}
	closeAll(t, from, to)
}

func TestReceivedButNotInstalledIsSwept(t *testing.T) {
	from, to := newHome(t, vfs.NewMem()), newHome(t, vfs.NewMem())
	fill(from.State(), 100)
	receive(t, to, SnapshotMeta{Index: 80, Term: 4}, snapshotStream(t, from, SnapshotMeta{Index: 80, Term: 4}))
	to = reopen(t, to)
	checkIDs(t, to)
	checkNothingLeft(t, to)
	closeAll(t, from, to)
}

// What interrupted steps leave goes at the next open.
func TestOpenSweeps(t *testing.T) {
	fs := vfs.NewMem()
	h := newHome(t, fs)
	want := fill(h.State(), 10)
	id := takeSnapshot(t, h, 1, 1)
	for _, dir := range []string{"home/live-7", "home/live-1.tmp", "home/snapshots/1-2-3.tmp/state", "home/snapshots/checkpoint-4.tmp"} {
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := (disk{fs}).writeJSON("home/CURRENT.tmp", "half"); err != nil {
		t.Fatal(err)
	}
	h = reopen(t, h)
	checkRows(t, h.State(), want)
	checkNothingLeft(t, h, id)
	names, err := fs.List("home")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	if want := []string{"CURRENT", "LOCK", "live-1", "snapshots"}; !slices.Equal(names, want) {
		t.Errorf("home holds %q, want %q", names, want)
	}
	closeAll(t, h)
}

func checkNothingLeft(t *testing.T, h *Home, want ...string) {
	t.Helper()
	got, err := h.fs.List(h.path(snapshotsName))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("snapshot directory holds %q, want %q", got, want)
	}
}

func TestInstallFailsAndLeavesTheOldState(t *testing.T) {
	from, to := newHome(t, vfs.NewMem()), newHome(t, vfs.NewMem())
	fill(from.State(), 100)
	id := receive(t, to, SnapshotMeta{Index: 80, Term: 4}, snapshotStream(t, from, SnapshotMeta{Index: 80, Term: 4}))
	want := fill(to.State(), 7)
	table := to.fs.PathJoin(to.snapshotPath(id), stateDir, tableOf(t, to, id))
	if err := to.fs.Remove(table); err != nil {
		t.Fatal(err)
	}
	if err := to.Install(id); err == nil {
		t.Error("a snapshot without its table was installed")
	}
	if err := to.Install("nonsense"); err == nil {
		t.Error("an unknown snapshot was installed")
	}
	checkRows(t, to.State(), want)
	checkIDs(t, to)
	to = reopen(t, to)
	checkRows(t, to.State(), want)
	closeAll(t, from, to)
}

// Free space comes from the file system.
func TestFree(t *testing.T) {
	fs := vfs.NewMem()
	h, err := OpenHome(fs, "home", small(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, ratio, err := h.Free(); err != nil || ratio != 1 {
		t.Errorf("a file system that can't tell: ratio %v, %v", ratio, err)
	}
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 3000, TotalBytes: 60_000, UsedBytes: 57_000})
	if free, ratio, err := h.Free(); err != nil || free != 3000 || ratio != 0.05 {
		t.Errorf("free %d, ratio %v, %v", free, ratio, err)
	}
	closeAll(t, h)
}

// On a real disk, a checkpoint shares its tables by hard links, and neither the
// snapshot nor the state changes under the other.
func TestHomeOnDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	h, err := OpenHome(vfs.Default, dir, small(t))
	if err != nil {
		t.Fatal(err)
	}
	fill(h.State(), 3000)
	id := takeSnapshot(t, h, 3, 1)
	stream := readAll(t, h, id)
	want := fill(h.State(), 5000)
	if err := h.Install(receive(t, h, SnapshotMeta{Index: 9, Term: 1}, snapshotStream(t, h, SnapshotMeta{Index: 8, Term: 1}))); err != nil {
		t.Fatal(err)
	}
	fill(h.State(), 5000)
	h = reopen(t, h)
	checkRows(t, h.State(), want)
	if !bytes.Equal(readAll(t, h, id), stream) {
		t.Error("the snapshot changed")
	}
	if free, ratio, err := h.Free(); err != nil || free == 0 || ratio <= 0 || ratio > 1 {
		t.Errorf("free %d, ratio %v, %v", free, ratio, err)
	}
	closeAll(t, h)
}
