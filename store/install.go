package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Install makes a snapshot's state the live one. It is called in order with
// commits, by their goroutine, without an open batch. One rename publishes the
// state and the snapshot together; then State reads and writes the new one, and
// the old one goes once its views are closed.
//
// After an error the old state is still the live one, but the disk may already
// name the new one: the caller ends the process.
func (h *Home) Install(id string) error {
	if err := h.installState(id); err != nil {
		return fmt.Errorf("install snapshot %s: %w", id, err)
	}
	// The snapshot that was installed before this one is of no more use.
	if err := h.Reap(math.MaxInt); err != nil {
		h.opts.Logger.Warn("remove superseded snapshot", "error", err)
	}
	return nil
}

func (h *Home) installState(id string) error {
	h.install.Lock()
	defer h.install.Unlock()
	snap, err := h.pin(id)
	if err != nil {
		return err
	}
	defer h.unpin(snap)
	next := current{Live: h.nextLive(), Snapshot: id}
	dir := h.livePath(next.Live)
	fresh, err := h.openCopy(snap, dir)
	if err != nil {
		return errors.Join(err, h.fs.RemoveAll(dir))
	}
	oldDir := h.livePath(h.currentNow().Live)
	if err := h.publish(next); err != nil {
		// CURRENT may name the new directory: leave it for the next open to judge.
		fresh.retire(nil)
		return err
	}
	h.liveMu.Lock()
	old := h.live
	h.live = fresh
	h.liveMu.Unlock()
	h.retired.Add(1)
	old.retire(func() {
		defer h.retired.Done()
		if err := errors.Join(old.err, h.fs.RemoveAll(oldDir)); err != nil {
			h.opts.Logger.Warn("remove replaced state", "dir", oldDir, "error", err)
		}
	})
	return nil
}

// openCopy makes a live directory of a snapshot and opens it, which proves that
// it is a state before anything is replaced.
func (h *Home) openCopy(snap *snapshot, dir string) (*engine, error) {
	if err := h.fs.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	from := h.fs.PathJoin(h.snapshotPath(snap.record.ID), stateDir)
	for _, f := range snap.record.Files {
		// Tables are never written again; the rest may be, so it is not shared.
		step := vfs.Copy
		if isTable(f.Name) {
			step = vfs.LinkOrCopy
		}
		if err := step(h.fs.FS, h.fs.PathJoin(from, f.Name), h.fs.PathJoin(dir, f.Name)); err != nil {
			return nil, err
		}
	}
	if err := h.fs.syncDir(dir); err != nil {
		return nil, err
	}
	opts := h.opts
	opts.Create = false
	return openEngine(h.fs.FS, dir, opts)
}

func (h *Home) nextLive() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.liveLast++
	return h.liveLast
}
