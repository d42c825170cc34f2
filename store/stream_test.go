package store

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// Anyone's tar reads the stream.
func TestStreamIsATar(t *testing.T) {
	h := newHome(t, vfs.NewMem())
	defer closeAll(t, h)
	fill(h.State(), 300)
	r := tar.NewReader(bytes.NewReader(snapshotStream(t, h, SnapshotMeta{Index: 7, Term: 2})))
	var names []string
	var bytes int64
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag != tar.TypeReg || header.Mode != 0o600 {
			t.Errorf("%s has type %q, mode %o", header.Name, header.Typeflag, header.Mode)
		}
		n, err := io.Copy(io.Discard, r)
		if err != nil || n != header.Size {
			t.Errorf("%s: %d of %d bytes, %v", header.Name, n, header.Size, err)
		}
		names = append(names, header.Name)
		bytes += n
	}
	if len(names) < 5 || names[0] != manifestName || names[len(names)-1] != checksumName || bytes < 1000 {
		t.Errorf("entries %q of %d bytes", names, bytes)
	}
}

// Each flipped bit and each truncation is refused and leaves nothing behind.
func TestDamagedStreamIsRefused(t *testing.T) {
	from, to := newHome(t, vfs.NewMem()), newHome(t, vfs.NewMem())
	defer closeAll(t, from, to)
	fill(from.State(), 300)
	stream := snapshotStream(t, from, SnapshotMeta{Index: 7, Term: 2})
	refused := func(rt *rapid.T, damaged []byte) {
		if _, err := verify(bytes.NewReader(damaged)); err == nil {
			rt.Error("verified")
		}
		sink, err := to.Create(SnapshotMeta{Index: 7, Term: 2})
		if err != nil {
			rt.Fatal(err)
		}
		_, werr := sink.Write(damaged)
		if err := errors.Join(werr, sink.Close()); err == nil {
			rt.Error("accepted")
		}
		if names, err := to.fs.List(to.path(snapshotsName)); err != nil || len(names) > 0 {
			rt.Errorf("left behind: %q, %v", names, err)
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		at := rapid.IntRange(0, len(stream)-1).Draw(rt, "byte")
		damaged := bytes.Clone(stream)
		damaged[at] ^= 1 << rapid.IntRange(0, 7).Draw(rt, "bit")
		refused(rt, damaged)
		refused(rt, stream[:at])
	})
	rapid.Check(t, func(rt *rapid.T) {
		refused(rt, append(bytes.Clone(stream), rapid.SliceOfN(rapid.Byte(), 1, 600).Draw(rt, "tail")...))
		refused(rt, rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(rt, "noise"))
	})
}

// A manifest from elsewhere can't name a path, a size or a number of files that
// no axd would.
func TestHostileManifestIsRefused(t *testing.T) {
	ok := fileMeta{Name: "000001.sst", Size: 3, Sum: "0123456789abcdef"}
	with := func(change func(f *fileMeta)) []fileMeta {
		f := ok
		change(&f)
		return []fileMeta{f}
	}
	for name, m := range map[string]manifest{
		"other version":  {Version: 2, Files: []fileMeta{ok}},
		"path up":        {Version: 1, Files: with(func(f *fileMeta) { f.Name = "../000001.sst" })},
		"absolute path":  {Version: 1, Files: with(func(f *fileMeta) { f.Name = "/etc/000001.sst" })},
		"foreign file":   {Version: 1, Files: with(func(f *fileMeta) { f.Name = "authorized_keys" })},
		"second line":    {Version: 1, Files: with(func(f *fileMeta) { f.Name = "000001.sst\nx" })},
		"long name":      {Version: 1, Files: with(func(f *fileMeta) { f.Name = strings.Repeat("1", 200) + ".sst" })},
		"negative size":  {Version: 1, Files: with(func(f *fileMeta) { f.Size = -1 })},
		"giant size":     {Version: 1, Files: with(func(f *fileMeta) { f.Size = math.MaxInt64 })},
		"bad checksum":   {Version: 1, Files: with(func(f *fileMeta) { f.Sum = "xyz" })},
		"twice":          {Version: 1, Files: []fileMeta{ok, ok}},
		"too many files": {Version: 1, Files: make([]fileMeta, maxFiles+1)},
	} {
		head, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := verify(bytes.NewReader(tarEntry(manifestName, head))); err == nil || strings.Contains(err.Error(), "truncated") {
			t.Errorf("%s: %v", name, err)
		}
	}
	huge := tarHeader(manifestName, maxManifestLen+1)
	if _, err := verify(bytes.NewReader(huge)); err == nil || !strings.Contains(err.Error(), "must be 1 to") {
		t.Errorf("huge manifest: %v", err)
	}
}

// A snapshot that can't fit is refused before it fills the disk.
func TestSnapshotLargerThanDiskIsRefused(t *testing.T) {
	fs := vfs.NewMem()
	from, to := newHome(t, vfs.NewMem()), newHome(t, fs)
	defer closeAll(t, from, to)
	fill(from.State(), 300)
	stream := snapshotStream(t, from, SnapshotMeta{Index: 7, Term: 2})
	fs.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000, TotalBytes: 60_000})
	sink, err := to.Create(SnapshotMeta{Index: 7, Term: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write(stream); err == nil || !strings.Contains(err.Error(), "the disk has 1000 free") {
		t.Errorf("write: %v", err)
	}
	if err := sink.Close(); err == nil {
		t.Error("closed without an error")
	}
	checkNothingLeft(t, to)
}

// A table that rots on the sender's disk is not sent as if it were whole.
func TestSenderNoticesDamage(t *testing.T) {
	h := newHome(t, vfs.NewMem())
	defer closeAll(t, h)
	fill(h.State(), 300)
	id := takeSnapshot(t, h, 7, 2)
	damage(t, h.fs, h.fs.PathJoin(h.snapshotPath(id), stateDir, tableOf(t, h, id)))
	_, r, err := h.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(t, r)
	if _, err := io.ReadAll(r); err == nil || !strings.Contains(err.Error(), "changed on disk") {
		t.Errorf("read: %v", err)
	}
}

// damage replaces a file by a copy with one bit flipped; whoever shares it by a
// hard link keeps the whole one.
func damage(t *testing.T, fs disk, name string) {
	t.Helper()
	f, err := fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	out, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Write(data); err != nil {
		t.Fatal(err)
	}
	closeAll(t, f, out)
}

// A later snapshot takes the checksums of tables that it shares with an
// earlier one instead of reading them again; they must still be right.
func TestChecksumsAreReused(t *testing.T) {
	h := newHome(t, vfs.NewMem())
	defer closeAll(t, h)
	fill(h.State(), 3000)
	for i := range uint64(4) {
		set(h.State(), "more", strings.Repeat("x", int(i)))
		stream := snapshotStream(t, h, SnapshotMeta{Index: i, Term: 1})
		if _, err := verify(bytes.NewReader(stream)); err != nil {
			t.Error(err)
		}
		if i == 1 {
			if err := h.Install(receive(t, h, SnapshotMeta{Index: 9, Term: 1}, stream)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func FuzzReceive(f *testing.F) {
	f.Add([]byte("noise"))
	f.Add(tarEntry(manifestName, []byte(`{"version":1,"files":[]}`)))
	f.Add(tarEntry(manifestName, []byte(`{"version":1,"files":[{"name":"000001.sst","size":3,"sum":"0123456789abcdef"}]}`)))
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole, err := verify(bytes.NewReader(stream))
		if err == nil && whole.Size != int64(len(stream)) {
			t.Errorf("verified %d of %d bytes", whole.Size, len(stream))
		}
	})
}

// verify reads a whole snapshot stream, as Home.Open wrote it, and returns what
// it holds. Any damage, and anything after its end, is an error.
func verify(stream io.Reader) (SnapshotMeta, error) {
	r := &receiver{
		begin:  func(*manifest) error { return nil },
		create: func(string) (io.WriteCloser, error) { return discard{}, nil },
	}
	if _, err := io.Copy(r, stream); err != nil {
		return SnapshotMeta{}, err
	}
	if err := r.finish(); err != nil {
		return SnapshotMeta{}, err
	}
	return SnapshotMeta{Index: r.manifest.Index, Term: r.manifest.Term, Applied: r.manifest.Applied, Size: r.total}, nil
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
func (discard) Close() error                { return nil }
