package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// snapshot is one that is durable on disk. Its fields but pins don't change.
type snapshot struct {
	record record
	size   int64 // of its stream
	pins   int   // readers, guarded by Home.mu
}

// record is the content of a snapshot's meta.json on disk.
type record struct {
	ID       string `json:"id"`
	Received bool   `json:"received,omitempty"` // as a stream, not made from the live state
	Live     uint64 `json:"live,omitempty"`     // the live directory that it was made from
	Extra    []byte `json:"extra,omitempty"`
	manifest
}

// lineage names the store whose table numbers the snapshot's tables have: of
// one lineage, equal names are equal files.
func (s *snapshot) lineage(c current) string {
	switch {
	case !s.record.Received:
		return lineageOf(s.record.Live)
	case s.record.ID == c.Snapshot:
		return lineageOf(c.Live)
	}
	return s.record.ID
}

func lineageOf(live uint64) string { return livePrefix + strconv.FormatUint(live, 10) }

func (s *snapshot) meta() SnapshotMeta {
	r := &s.record
	return SnapshotMeta{ID: r.ID, Index: r.Index, Term: r.Term, Applied: r.Applied, Size: s.size, Extra: r.Extra}
}

func newSnapshot(r record) (*snapshot, error) {
	head, err := r.manifest.encode()
	if err != nil {
		return nil, err
	}
	return &snapshot{record: r, size: layoutSize(layout(head, r.Files))}, nil
}

// newest orders snapshots, the newest first.
func newest(a, b *snapshot) int {
	return cmp.Or(cmp.Compare(b.record.Term, a.record.Term), cmp.Compare(b.record.Index, a.record.Index),
		cmp.Compare(idNumber(b.record.ID), idNumber(a.record.ID)))
}

// idNumber is the last part of an id: it tells snapshots of one index apart.
func idNumber(id string) uint64 {
	n, _ := strconv.ParseUint(id[strings.LastIndexByte(id, '-')+1:], 10, 64)
	return n
}

// loadSnapshots reads what is on disk. A received snapshot that was never
// installed goes: Raft has not heard of it and will ask again.
func (h *Home) loadSnapshots() error {
	names, err := h.fs.List(h.path(snapshotsName))
	if err != nil {
		return err
	}
	for _, name := range names {
		dir := h.snapshotPath(name)
		if strings.HasSuffix(name, tempSuffix) {
			if err := h.fs.RemoveAll(dir); err != nil {
				return err
			}
			continue
		}
		s, err := h.loadSnapshot(name)
		if err != nil {
			return fmt.Errorf("snapshot %s is damaged, this disk has lost data: "+
				"remove the server's whole data directory and join it as a new server: %w", name, err)
		}
		if s == nil {
			if err := h.fs.remove(dir); err != nil {
				return err
			}
			continue
		}
		h.snaps[name] = s
		h.idLast = max(h.idLast, idNumber(name))
	}
	if id := h.current.Snapshot; id != "" && h.snaps[id] == nil {
		return fmt.Errorf("snapshot %s, which %s names, is missing", id, currentName)
	}
	return nil
}

// loadSnapshot returns nil for a received snapshot that isn't installed.
func (h *Home) loadSnapshot(id string) (*snapshot, error) {
	dir := h.snapshotPath(id)
	var r record
	if err := h.fs.readJSON(h.fs.PathJoin(dir, manifestName), &r); err != nil {
		return nil, err
	}
	if r.ID != id {
		return nil, fmt.Errorf("its %s is of snapshot %s", manifestName, r.ID)
	}
	if r.Received && id != h.current.Snapshot {
		return nil, nil
	}
	if err := r.manifest.check(); err != nil {
		return nil, err
	}
	sizes, err := h.fs.sizes(h.fs.PathJoin(dir, stateDir))
	if err != nil {
		return nil, err
	}
	for _, f := range r.Files {
		if size, ok := sizes[f.Name]; !ok || size != f.Size {
			return nil, fmt.Errorf("file %s has %d bytes instead of %d", f.Name, size, f.Size)
		}
	}
	return newSnapshot(r)
}

// List returns the snapshots made here and the installed one, newest first.
func (h *Home) List() []SnapshotMeta {
	h.mu.Lock()
	defer h.mu.Unlock()
	var metas []SnapshotMeta
	for _, s := range h.visible() {
		metas = append(metas, s.meta())
	}
	return metas
}

func (h *Home) visible() []*snapshot {
	var list []*snapshot
	for id, s := range h.snaps {
		if !s.record.Received || id == h.current.Snapshot {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, newest)
	return list
}

// Open returns a snapshot as a stream of exactly SnapshotMeta.Size bytes, a
// tar; hidden ones can be opened too. Until it is closed, the snapshot is kept.
func (h *Home) Open(id string) (SnapshotMeta, io.ReadCloser, error) {
	s, err := h.pin(id)
	if err != nil {
		return SnapshotMeta{}, nil, err
	}
	head, err := s.record.manifest.encode()
	if err != nil {
		h.unpin(s)
		return SnapshotMeta{}, nil, err
	}
	dir := h.fs.PathJoin(h.snapshotPath(id), stateDir)
	return s.meta(), &pinned{h: h, s: s, sender: sender{
		segs: layout(head, s.record.Files),
		open: func(name string) (io.ReadCloser, error) { return h.fs.Open(h.fs.PathJoin(dir, name)) },
	}}, nil
}

func (h *Home) pin(id string) (*snapshot, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.snaps[id]
	if s == nil {
		return nil, fmt.Errorf("no snapshot %q", id)
	}
	s.pins++
	return s, nil
}

func (h *Home) unpin(s *snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.pins--
}

// pinned keeps a snapshot while its stream is read.
type pinned struct {
	sender
	h *Home
	s *snapshot // nil once closed
}

func (p *pinned) Close() error {
	if p.s == nil {
		return nil
	}
	err := p.sender.Close()
	p.h.unpin(p.s)
	p.s = nil
	return err
}

// Reap removes all but the newest keep snapshots, at least one. What a stream
// is being read from stays until a later call, and so does a received snapshot
// that waits for its Install.
func (h *Home) Reap(keep int) error {
	h.install.Lock()
	defer h.install.Unlock()
	victims, c := h.victims(max(keep, 1))
	if c != h.currentNow() {
		// Un-name it first: CURRENT never names what is gone.
		if err := h.publish(c); err != nil {
			return fmt.Errorf("reap snapshots: %w", err)
		}
	}
	var errs []error
	for _, s := range victims {
		if err := h.fs.remove(h.snapshotPath(s.record.ID)); err != nil {
			errs = append(errs, fmt.Errorf("reap snapshot %s: %w", s.record.ID, err))
		}
	}
	return errors.Join(errs...)
}

// victims takes what may go out of the books, and returns the CURRENT that
// names none of it.
func (h *Home) victims(keep int) ([]*snapshot, current) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.current
	list := h.visible()
	candidates := list[min(keep, len(list)):]
	installed := h.snaps[c.Snapshot]
	for id, s := range h.snaps {
		superseded := s.record.Received && id != c.Snapshot && installed != nil && newest(installed, s) < 0
		if superseded {
			candidates = append(candidates, s)
		}
	}
	var victims []*snapshot
	for _, s := range candidates {
		if s.pins > 0 {
			continue
		}
		victims = append(victims, s)
		delete(h.snaps, s.record.ID)
		if s.record.ID == c.Snapshot {
			c.Snapshot = ""
		}
	}
	return victims, c
}

func (h *Home) currentNow() current {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.current
}
