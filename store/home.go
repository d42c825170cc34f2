package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/internal/mutant"
)

const (
	currentName   = "CURRENT"
	lockName      = "LOCK"
	livePrefix    = "live-"
	snapshotsName = "snapshots"
)

// Home owns a server's state directories: the live state, the snapshots, and
// the CURRENT file that publishes both with one rename.
//
//	CURRENT              names the live directory and the installed snapshot
//	LOCK                 held while a Home is open
//	live-<n>/            the live state
//	snapshots/<id>/      meta.json and state/, a checkpoint
//	*.tmp                unfinished, removed at open
//
// A snapshot made here is listed once it is durable. A received one is hidden
// until Install has published it, since Raft takes the newest listed snapshot
// as applied.
type Home struct {
	fs   disk
	dir  string
	opts Options
	lock io.Closer

	// install serialises what changes CURRENT.
	install sync.Mutex
	retired sync.WaitGroup // replaced states that views still read

	liveMu sync.RWMutex // guards live; never held across disk work
	live   *engine

	mu       sync.Mutex // guards the rest; never held across disk work
	current  current
	liveLast uint64 // the highest number of a live directory so far
	idLast   uint64 // the last part of the newest snapshot's id
	snaps    map[string]*snapshot
}

// current is the content of the CURRENT file.
type current struct {
	Live     uint64 `json:"live"`               // number of the live directory
	Snapshot string `json:"snapshot,omitempty"` // the installed snapshot, until newer ones replace it
}

// OpenHome opens the home in dir. Where opts.Create is false, a directory
// without a state is an error: the state is never created empty under a
// replica that had one.
func OpenHome(fs vfs.FS, dir string, opts Options) (*Home, error) {
	h := &Home{fs: disk{fs}, dir: dir, opts: opts.withDefaults(), snaps: map[string]*snapshot{}}
	if err := h.open(); err != nil {
		if h.lock != nil {
			err = errors.Join(err, h.lock.Close())
		}
		return nil, err
	}
	return h, nil
}

func (h *Home) open() error {
	err := h.fs.readJSON(h.path(currentName), &h.current)
	absent := errors.Is(err, os.ErrNotExist)
	if absent && !h.opts.Create {
		return fmt.Errorf("state directory %s has no state, but this replica has been part of a cluster: "+
			"bring the directory back, or remove the server's whole data directory and join it as a new server", h.dir)
	}
	if err != nil && !absent {
		return fmt.Errorf("state directory %s: read %s: %w", h.dir, currentName, err)
	}
	if err := h.fs.makeDir(h.dir); err != nil {
		return fmt.Errorf("create state directory: %w", err)
	}
	if h.lock, err = h.fs.Lock(h.path(lockName)); err != nil {
		return fmt.Errorf("state directory %s is in use by another process: %w", h.dir, err)
	}
	if err := h.fs.makeDir(h.path(snapshotsName)); err != nil {
		return fmt.Errorf("create snapshot directory: %w", err)
	}
	if absent {
		err = h.create()
	}
	if err == nil {
		err = h.sweep()
	}
	if err == nil {
		err = h.loadSnapshots()
	}
	if err != nil {
		return fmt.Errorf("state directory %s: %w", h.dir, err)
	}
	opts := h.opts
	opts.Create = false
	h.live, err = openEngine(h.fs.FS, h.livePath(h.current.Live), opts)
	h.liveLast = h.current.Live
	return err
}

// create makes an empty live state and, last, CURRENT.
func (h *Home) create() error {
	ids, err := h.fs.List(h.path(snapshotsName))
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		return fmt.Errorf("it has snapshots but no %s file: refusing to start an empty state beside them", currentName)
	}
	first := current{Live: 1}
	if err := h.fs.RemoveAll(h.livePath(first.Live)); err != nil {
		return err
	}
	live, err := openEngine(h.fs.FS, h.livePath(first.Live), h.opts)
	if err != nil {
		return err
	}
	if err := live.Close(); err != nil {
		return err
	}
	return h.publish(first)
}

// publish replaces CURRENT. After an error the disk may hold either content.
func (h *Home) publish(c current) error {
	// What CURRENT names must be there before it.
	if err := h.fs.syncDir(h.dir); err != nil {
		return err
	}
	temp := h.path(currentName + tempSuffix)
	if err := h.fs.writeJSON(temp, c); err != nil {
		return err
	}
	if err := h.fs.Rename(temp, h.path(currentName)); err != nil {
		return err
	}
	if err := h.fs.syncDir(h.dir); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.current = c
	return nil
}

// sweep removes what interrupted steps left in the home itself.
func (h *Home) sweep() error {
	names, err := h.fs.List(h.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		stale := strings.HasPrefix(name, livePrefix) && h.path(name) != h.livePath(h.current.Live)
		if !stale && !strings.HasSuffix(name, tempSuffix) || mutant.TempKept {
			continue
		}
		if err := h.fs.RemoveAll(h.path(name)); err != nil {
			return err
		}
	}
	return nil
}

func (h *Home) path(name string) string { return h.fs.PathJoin(h.dir, name) }

func (h *Home) livePath(n uint64) string { return h.path(fmt.Sprintf("%s%d", livePrefix, n)) }

func (h *Home) snapshotPath(id string) string { return h.fs.PathJoin(h.dir, snapshotsName, id) }

// State returns the live state. The handle stays valid and follows an Install;
// views opened before it read the old state until they are closed. Close on it
// does nothing: the Home closes the state.
func (h *Home) State() Store { return liveState{h} }

type liveState struct{ h *Home }

func (s liveState) View() View {
	s.h.liveMu.RLock()
	defer s.h.liveMu.RUnlock()
	return s.h.live.View()
}

func (s liveState) Batch() Batch {
	s.h.liveMu.RLock()
	defer s.h.liveMu.RUnlock()
	return s.h.live.Batch()
}

func (s liveState) Metrics() map[string]float64 {
	s.h.liveMu.RLock()
	defer s.h.liveMu.RUnlock()
	return s.h.live.Metrics()
}

func (s liveState) Flush() error {
	e := s.h.hold()
	defer e.release()
	return e.Flush()
}

func (s liveState) Checkpoint(dir string) error {
	e := s.h.hold()
	defer e.release()
	return e.Checkpoint(dir)
}

func (s liveState) Close() error { return nil }

// hold keeps the live engine open until its release.
func (h *Home) hold() *engine {
	h.liveMu.RLock()
	defer h.liveMu.RUnlock()
	h.live.acquire()
	return h.live
}

// Free returns the free bytes of the home's file system and their share of the
// whole, 0 to 1. Where the file system can't tell, all is free.
func (h *Home) Free() (bytes uint64, ratio float64, err error) { return h.fs.free(h.dir) }

// Close flushes and closes the live state; it waits until every view has been
// closed.
func (h *Home) Close() error {
	err := h.live.Close()
	h.retired.Wait()
	return errors.Join(err, h.lock.Close())
}
