package store

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/fsm"
)

// Checkpoint is a durable copy of the live state that is not yet a snapshot.
type Checkpoint struct {
	h       *Home
	dir     string // empty once adopted or discarded
	live    uint64
	applied uint64
}

// Discard removes the checkpoint, unless a Sink has adopted it.
func (c *Checkpoint) Discard() error {
	if c.dir == "" {
		return nil
	}
	dir := c.dir
	c.dir = ""
	return c.h.fs.RemoveAll(dir)
}

// Checkpoint flushes the live state and hard-links it, while commits go on: it
// holds what was committed before the call, and maybe more, but no part of a batch.
// applied reads off it up to which entry. The caller sees to it that no Install
// comes in between.
func (h *Home) Checkpoint(applied func(fsm.Reader) uint64) (*Checkpoint, error) {
	c := &Checkpoint{h: h, live: h.currentNow().Live}
	c.dir = h.snapshotPath(fmt.Sprintf("checkpoint-%d%s", h.nextID(), tempSuffix))
	err := h.State().Checkpoint(c.dir)
	if err == nil {
		err = h.look(c.dir, func(v View) error { c.applied = applied(v); return nil })
	}
	if err != nil {
		return nil, errors.Join(err, c.Discard())
	}
	return c, nil
}

// Applied is the index of the last entry that the checkpoint holds.
func (c *Checkpoint) Applied() uint64 { return c.applied }

func (h *Home) nextID() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idLast++
	return h.idLast
}

// Sink takes one snapshot: a stream by Write, or a local checkpoint by Adopt.
// It is used by one goroutine.
type Sink struct {
	h       *Home
	dir     string // temporary
	record  record
	recv    *receiver // nil before the first Write
	adopted bool
	ended   bool
}

// Create begins a snapshot. The given Index, Term and Extra are kept; ID and
// Size are assigned, and Applied comes from the checkpoint or the stream.
func (h *Home) Create(meta SnapshotMeta) (*Sink, error) {
	id := fmt.Sprintf("%d-%d-%d", meta.Term, meta.Index, h.nextID())
	s := &Sink{h: h, dir: h.snapshotPath(id) + tempSuffix}
	s.record = record{ID: id, Extra: meta.Extra, manifest: manifest{Version: streamVersion, Index: meta.Index, Term: meta.Term}}
	if err := h.fs.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("create snapshot %s: %w", id, err)
	}
	return s, nil
}

// ID names the snapshot.
func (s *Sink) ID() string { return s.record.ID }

// Write takes the next bytes of a stream from Home.Open. The first damage is
// an error, and every later call returns it.
func (s *Sink) Write(p []byte) (int, error) {
	if s.ended || s.adopted {
		return 0, fmt.Errorf("write snapshot %s: it has ended", s.record.ID)
	}
	if s.recv == nil {
		s.recv = &receiver{begin: s.begin, create: s.create}
	}
	n, err := s.recv.Write(p)
	if err != nil {
		err = fmt.Errorf("receive snapshot %s: %w", s.record.ID, err)
	}
	return n, err
}

// begin refuses a snapshot that can't fit before it fills the disk.
func (s *Sink) begin(m *manifest) error {
	if err := s.h.fs.fits(s.h.dir, m.bytes()); err != nil {
		return err
	}
	return s.h.fs.MkdirAll(s.statePath(), 0o700)
}

func (s *Sink) create(name string) (io.WriteCloser, error) {
	f, err := s.h.fs.Create(s.h.fs.PathJoin(s.statePath(), name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	return durableFile{f}, nil
}

func (s *Sink) statePath() string { return s.h.fs.PathJoin(s.dir, stateDir) }

// Adopt moves a checkpoint of the same Home in, instead of a stream.
func (s *Sink) Adopt(c *Checkpoint) error {
	if s.ended || s.adopted || s.recv != nil || c.dir == "" || c.h != s.h {
		return fmt.Errorf("adopt into snapshot %s: the sink or the checkpoint is already used", s.record.ID)
	}
	if err := s.h.fs.Rename(c.dir, s.statePath()); err != nil {
		return fmt.Errorf("adopt into snapshot %s: %w", s.record.ID, err)
	}
	c.dir = ""
	s.adopted = true
	s.record.Applied, s.record.Live = c.applied, c.live
	return nil
}

// Close makes the snapshot durable: an adopted one is listed from now on, a
// received one once it is installed. After an error nothing is left behind.
// Close after Close or Cancel does nothing.
func (s *Sink) Close() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if err := s.finish(); err != nil {
		return errors.Join(fmt.Errorf("finish snapshot %s: %w", s.record.ID, err), s.h.fs.RemoveAll(s.dir))
	}
	return nil
}

// Cancel removes what was written. Cancel after Close or Cancel does nothing.
func (s *Sink) Cancel() error {
	if s.ended {
		return nil
	}
	s.ended = true
	if s.recv != nil {
		s.recv.abort()
	}
	return s.h.fs.RemoveAll(s.dir)
}

func (s *Sink) finish() error {
	switch {
	case s.adopted:
		files, err := s.h.describe(s.statePath(), s.record.Live)
		if err != nil {
			return err
		}
		s.record.Files = files
	case s.recv != nil:
		if err := s.recv.finish(); err != nil {
			return err
		}
		s.record.Received = true
		s.record.Applied, s.record.Files = s.recv.manifest.Applied, s.recv.manifest.Files
	default:
		return errors.New("it has neither a stream nor a checkpoint")
	}
	snap, err := newSnapshot(s.record)
	if err != nil {
		return err
	}
	if err := s.h.fs.writeJSON(s.h.fs.PathJoin(s.dir, manifestName), s.record); err != nil {
		return err
	}
	return s.h.admit(snap, s.dir)
}

// admit makes a finished snapshot durable under its name and enters it.
func (h *Home) admit(snap *snapshot, temp string) error {
	parent, final := h.path(snapshotsName), h.snapshotPath(snap.record.ID)
	for _, dir := range []string{h.fs.PathJoin(temp, stateDir), temp} {
		if err := h.fs.syncDir(dir); err != nil {
			return err
		}
	}
	if err := h.fs.Rename(temp, final); err != nil {
		return err
	}
	if err := h.fs.syncDir(parent); err != nil {
		return errors.Join(err, h.fs.remove(final))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.snaps[snap.record.ID] = snap
	return nil
}

// describe lists a checkpoint's files with checksums. Tables never change, so
// it reads only those that no earlier snapshot of the same live state has: the
// work follows what was written since, not the size of the state.
func (h *Home) describe(dir string, live uint64) ([]fileMeta, error) {
	sizes, err := h.fs.sizes(dir)
	if err != nil {
		return nil, err
	}
	known := h.knownTables(live)
	files := make([]fileMeta, 0, len(sizes))
	for name, size := range sizes {
		f := fileMeta{Name: name, Size: size}
		if k, ok := known[name]; ok && k.Size == size {
			f.Sum = k.Sum
		} else if f.Sum, err = h.fs.sum(h.fs.PathJoin(dir, name)); err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	slices.SortFunc(files, func(a, b fileMeta) int { return strings.Compare(a.Name, b.Name) })
	m := manifest{Version: streamVersion, Files: files}
	return files, m.check()
}

func (h *Home) knownTables(live uint64) map[string]fileMeta {
	h.mu.Lock()
	defer h.mu.Unlock()
	known := map[string]fileMeta{}
	for _, s := range h.snaps {
		if s.lineage(h.current) != lineageOf(live) {
			continue
		}
		for _, f := range s.record.Files {
			if isTable(f.Name) {
				known[f.Name] = f
			}
		}
	}
	return known
}

func isTable(name string) bool { return strings.HasSuffix(name, ".sst") }
