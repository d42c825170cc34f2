package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Inspection is what Inspect found.
type Inspection struct {
	Snapshots []SnapshotMeta // newest first
	Problems  []string       // what differs from its checksum, or can't be read
}

// Inspect looks at a home that nobody uses, without changing it. It compares the
// snapshots with their checksums, and every block of the live state with its own;
// fn reads that state. An error means that nothing could be read.
func Inspect(fs vfs.FS, dir string, fn func(View) error) (found Inspection, err error) {
	h := &Home{fs: disk{fs}, dir: dir, snaps: map[string]*snapshot{}}
	if err := h.fs.readJSON(h.path(currentName), &h.current); err != nil {
		return found, fmt.Errorf("state directory %s: read %s: %w", dir, currentName, err)
	}
	lock, err := fs.Lock(h.path(lockName))
	if err != nil {
		return found, fmt.Errorf("state directory %s is in use by another process: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if found, err = h.inspectSnapshots(); err != nil {
		return found, err
	}
	err = h.inspectLive(fn)
	return found, err
}

func (h *Home) inspectSnapshots() (found Inspection, err error) {
	names, err := h.fs.List(h.path(snapshotsName))
	if err != nil {
		return found, err
	}
	for _, name := range names {
		if strings.HasSuffix(name, tempSuffix) {
			continue
		}
		s, err := h.loadSnapshot(name)
		switch {
		case err != nil:
			found.Problems = append(found.Problems, fmt.Sprintf("snapshot %s: %v", name, err))
		case s != nil:
			h.snaps[name] = s
			found.Problems = append(found.Problems, h.compareSums(s)...)
		}
	}
	for _, s := range h.visible() {
		found.Snapshots = append(found.Snapshots, s.meta())
	}
	if id := h.current.Snapshot; id != "" && h.snaps[id] == nil {
		found.Problems = append(found.Problems, fmt.Sprintf("snapshot %s, which %s names, is missing", id, currentName))
	}
	return found, nil
}

// compareSums reads a snapshot's files.
func (h *Home) compareSums(s *snapshot) (problems []string) {
	dir := h.fs.PathJoin(h.snapshotPath(s.record.ID), stateDir)
	for _, f := range s.record.Files {
		sum, err := h.fs.sum(h.fs.PathJoin(dir, f.Name))
		if err == nil && sum != f.Sum {
			err = errors.New("its checksum differs")
		}
		if err != nil {
			problems = append(problems, fmt.Sprintf("snapshot %s: file %s: %v", s.record.ID, f.Name, err))
		}
	}
	return problems
}

// inspectLive reads every row of the live state, then calls fn.
func (h *Home) inspectLive(fn func(View) error) error {
	var failed firstError
	return h.readOnly(h.livePath(h.current.Live), &failed, func(e *engine) error {
		if err := e.db.CheckLevels(nil); err != nil {
			return err
		}
		v := e.View()
		defer v.Close()
		v.Ascend(nil, nil, func(_, _ []byte) bool { return failed.get() == nil })
		if failed.get() != nil {
			return nil
		}
		return fn(v)
	})
}

// look opens a state that nobody else has open, and leaves it as it is.
func (h *Home) look(dir string, fn func(View) error) error {
	err := h.readOnly(dir, new(firstError), func(e *engine) error {
		v := e.View()
		defer v.Close()
		return fn(v)
	})
	return errors.Join(err, h.fs.RemoveAll(h.fs.PathJoin(dir, lockName)))
}

// readOnly runs fn on the state in dir. What is wrong with that comes back as an
// error, whoever finds it.
func (h *Home) readOnly(dir string, failed *firstError, fn func(*engine) error) error {
	e, err := openEngine(h.fs.FS, dir, Options{Fatal: failed.set, readOnly: true})
	if err != nil {
		return err
	}
	err = guarded(func() error { return fn(e) })
	e.retire(nil) // there is nothing to flush
	<-e.closed
	if first := failed.get(); first != nil {
		return first
	}
	return errors.Join(err, e.err)
}
