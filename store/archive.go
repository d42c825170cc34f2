package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Archive is a snapshot in a directory of its own, in no Home's books: an
// operator's backup on its way out or in. As a stream it is what Home.Open
// gives, so its checksums are the same.
type Archive struct {
	fs       disk
	dir      string
	manifest manifest
}

// ArchiveMeta describes an archive.
type ArchiveMeta struct {
	Index   uint64 // Raft's index, at or above Applied
	Term    uint64
	Applied uint64 // the state's own index
	Created int64  // Unix ms, by the clock of the server that made it
	Size    int64  // bytes of the stream
	Files   int
}

// Export makes an archive of a checkpoint, which is used up. Index, Term and
// Created of meta are kept. Remove it after use.
func (h *Home) Export(c *Checkpoint, meta ArchiveMeta) (*Archive, error) {
	files, err := h.describe(c.dir, c.live)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("describe the archive: %w", err), c.Discard())
	}
	a := &Archive{fs: h.fs, dir: c.dir, manifest: manifest{
		Version: streamVersion, Index: meta.Index, Term: meta.Term, Applied: c.applied, Created: meta.Created, Files: files,
	}}
	c.dir = ""
	return a, nil
}

// Unpack reads a stream to its end into dir, which must not exist, and checks
// every byte of it. After an error nothing is left behind.
func Unpack(fs vfs.FS, dir string, r io.Reader) (*Archive, error) {
	a := &Archive{fs: disk{fs}, dir: dir}
	if _, err := fs.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("unpack an archive into %s: it exists already", dir)
	}
	if err := a.unpack(r); err != nil {
		return nil, errors.Join(err, a.Remove())
	}
	return a, nil
}

func (a *Archive) unpack(r io.Reader) error {
	if err := a.fs.MkdirAll(a.dir, 0o700); err != nil {
		return err
	}
	recv := &receiver{
		begin: func(m *manifest) error { return a.fs.fits(a.dir, m.bytes()) },
		create: func(name string) (io.WriteCloser, error) {
			f, err := a.fs.Create(a.fs.PathJoin(a.dir, name), vfs.WriteCategoryUnspecified)
			if err != nil {
				return nil, err
			}
			return durableFile{f}, nil
		},
	}
	if _, err := io.Copy(recv, r); err != nil {
		recv.abort()
		return err
	}
	if err := recv.finish(); err != nil {
		return err
	}
	a.manifest = recv.manifest
	return a.fs.syncDir(a.dir)
}

// Meta describes the archive.
func (a *Archive) Meta() ArchiveMeta {
	m := &a.manifest
	meta := ArchiveMeta{Index: m.Index, Term: m.Term, Applied: m.Applied, Created: m.Created, Files: len(m.Files)}
	if head, err := m.encode(); err == nil { // else Open tells
		meta.Size = layoutSize(layout(head, m.Files))
	}
	return meta
}

// Open returns the archive as a stream of exactly Meta().Size bytes. A file that
// changed on disk is an error.
func (a *Archive) Open() (io.ReadCloser, error) {
	head, err := a.manifest.encode()
	if err != nil {
		return nil, err
	}
	return &sender{
		segs: layout(head, a.manifest.Files),
		open: func(name string) (io.ReadCloser, error) { return a.fs.Open(a.fs.PathJoin(a.dir, name)) },
	}, nil
}

// Remove deletes the archive's files.
func (a *Archive) Remove() error { return a.fs.RemoveAll(a.dir) }

// Read opens the state in the archive for fn and leaves the archive as it is.
// A damaged state is an error.
func (a *Archive) Read(fn func(Store) error) error {
	return a.open(func(e *engine) error { return fn(e) })
}

// Rewrite lets fn change the state in the archive; the stream is that of the
// changed one from then on. After an error the archive is as before.
func (a *Archive) Rewrite(fn func(Store) error) error {
	next := a.dir + "-next"
	var files []fileMeta
	err := a.open(func(e *engine) error {
		if err := fn(e); err != nil {
			return err
		}
		if err := e.Checkpoint(next); err != nil {
			return err
		}
		h := &Home{fs: a.fs, snaps: map[string]*snapshot{}}
		var err error
		files, err = h.describe(next, 0)
		return err
	})
	if err != nil {
		return errors.Join(err, a.fs.RemoveAll(next))
	}
	old := a.dir
	a.dir, a.manifest.Files = next, files
	return a.fs.RemoveAll(old)
}

// open runs fn on a copy of the state, since opening it changes files. What is
// wrong with it is an error, whoever finds it: there is nothing to protect yet.
func (a *Archive) open(fn func(*engine) error) (err error) {
	dir := a.dir + "-open"
	defer func() { err = errors.Join(err, a.fs.RemoveAll(dir)) }()
	if err := a.link(dir); err != nil {
		return err
	}
	var failed firstError
	e, err := openEngine(a.fs.FS, dir, Options{Fatal: failed.set, MemTableBytes: archiveMemTable, idle: true})
	if err != nil {
		return err
	}
	err = guarded(func() error { return fn(e) })
	if closing := e.Close(); err == nil {
		err = closing
	}
	if first := failed.get(); first != nil {
		return first
	}
	return err
}

// archiveMemTable is small: an archive is read, and little in it changed.
const archiveMemTable = 4 << 20

func (a *Archive) link(dir string) error {
	if err := a.fs.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, f := range a.manifest.Files {
		step := vfs.Copy
		if isTable(f.Name) {
			step = vfs.LinkOrCopy
		}
		if err := step(a.fs.FS, a.fs.PathJoin(a.dir, f.Name), a.fs.PathJoin(dir, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

// guarded turns a panic over a damaged state into an error.
func guarded(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the state is damaged: %v", r)
		}
	}()
	return fn()
}

// firstError keeps the first of several errors.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *firstError) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
