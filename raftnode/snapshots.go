package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"
	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/store"
)

const (
	keepSnapshots = 2
	// snapshotRetry is how long a failed snapshot is left alone.
	snapshotRetry = 10 * time.Second
	// minTrailing is well above the entries in flight: a follower that is just a
	// few entries behind must never need a snapshot.
	minTrailing = 64
)

// extra is what Raft needs to know of a snapshot beyond index and term.
type extra struct {
	Version       raft.SnapshotVersion `msgpack:"v"`
	Configuration []byte               `msgpack:"c"`
	ConfigIndex   uint64               `msgpack:"i"`
}

// snapshots is raft's snapshot store over the home's checkpoints.
type snapshots struct {
	home *store.Home

	mu       sync.Mutex
	received store.SnapshotMeta // complete and not yet restored; ID empty: none
	newest   store.SnapshotMeta // listed; ID empty: none
}

func newSnapshots(h *store.Home) *snapshots {
	s := &snapshots{home: h}
	s.refresh()
	return s
}

// refresh reads which snapshot is the newest.
func (s *snapshots) refresh() {
	list := s.home.List()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.newest = store.SnapshotMeta{}
	if len(list) > 0 {
		s.newest = list[0]
	}
}

// latest returns the newest listed snapshot, a zero one if there is none.
func (s *snapshots) latest() store.SnapshotMeta {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// Create begins a snapshot, local or received.
func (s *snapshots) Create(version raft.SnapshotVersion, index, term uint64, configuration raft.Configuration,
	configurationIndex uint64, _ raft.Transport,
) (raft.SnapshotSink, error) {
	e, err := msgpack.Marshal(extra{Version: version, Configuration: raft.EncodeConfiguration(configuration), ConfigIndex: configurationIndex})
	if err != nil {
		return nil, err
	}
	meta := store.SnapshotMeta{Index: index, Term: term, Extra: e}
	sink, err := s.home.Create(meta)
	if err != nil {
		return nil, err
	}
	return &snapshotSink{Sink: sink, s: s, meta: meta, received: true}, nil
}

// List returns the snapshots, the newest first.
func (s *snapshots) List() ([]*raft.SnapshotMeta, error) {
	list := s.home.List()
	metas := make([]*raft.SnapshotMeta, len(list))
	for i, m := range list {
		var err error
		if metas[i], err = raftMeta(m); err != nil {
			return nil, err
		}
	}
	return metas, nil
}

// Open streams a snapshot.
func (s *snapshots) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	m, r, err := s.home.Open(id)
	if err != nil {
		return nil, nil, err
	}
	meta, err := raftMeta(m)
	if err != nil {
		return nil, nil, errors.Join(err, r.Close())
	}
	return meta, r, nil
}

func raftMeta(m store.SnapshotMeta) (*raft.SnapshotMeta, error) {
	var e extra
	if err := msgpack.Unmarshal(m.Extra, &e); err != nil {
		return nil, fmt.Errorf("snapshot %s: read its configuration: %w", m.ID, err)
	}
	return &raft.SnapshotMeta{
		Version: e.Version, ID: m.ID, Index: m.Index, Term: m.Term, Size: m.Size,
		Configuration: raft.DecodeConfiguration(e.Configuration), ConfigurationIndex: e.ConfigIndex,
	}, nil
}

// takeReceived returns the snapshot that waits for its restore.
func (s *snapshots) takeReceived() (id string, meta store.SnapshotMeta, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	meta, s.received = s.received, store.SnapshotMeta{}
	return meta.ID, meta, meta.ID != ""
}

// snapshotSink takes one snapshot.
type snapshotSink struct {
	*store.Sink
	s        *snapshots
	meta     store.SnapshotMeta
	received bool // as a stream
}

// Adopt makes the sink a local snapshot.
func (k *snapshotSink) Adopt(cp *store.Checkpoint) error {
	k.received = false
	return k.Sink.Adopt(cp)
}

// Close makes the snapshot durable.
func (k *snapshotSink) Close() error {
	if err := k.Sink.Close(); err != nil {
		return err
	}
	if !k.received {
		k.s.refresh()
		return nil
	}
	k.s.mu.Lock()
	k.meta.ID = k.ID()
	k.s.received = k.meta
	k.s.mu.Unlock()
	return nil
}

// snapshotter makes a snapshot whenever enough log has gathered. Raft's own
// trigger counts entries, whose sizes differ by four orders of magnitude.
type snapshotter struct {
	raft     *raft.Raft
	home     *store.Home
	snaps    *snapshots
	log      *logStore
	every    int64 // bytes of log
	trailing int64
	warn     func(msg string, args ...any)
	failures atomic.Uint64
	taken    atomic.Uint64
}

func (t *snapshotter) run(ctx context.Context) {
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.log.grown:
		case <-retry.C:
		}
		if _, behind := t.log.index.bytes(t.snaps.latest().Index); behind < t.every {
			continue
		}
		if err := t.take(); err != nil && ctx.Err() == nil {
			t.failures.Add(1)
			t.warn("making a snapshot failed; trying again", "in", snapshotRetry, "error", err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(snapshotRetry):
			}
			retry.Reset(0)
		}
	}
}

// take makes one snapshot now. It does nothing when there is nothing new.
func (t *snapshotter) take() error {
	rc := t.raft.ReloadableConfig()
	rc.TrailingLogs = max(t.log.index.trailing(t.trailing), minTrailing)
	if err := t.raft.ReloadConfig(rc); err != nil {
		return err
	}
	err := t.raft.Snapshot().Error()
	if errors.Is(err, raft.ErrNothingNewToSnapshot) {
		return nil
	}
	if err != nil {
		return err
	}
	t.taken.Add(1)
	return t.home.Reap(keepSnapshots)
}

// gauge is a float that is set and read by different goroutines.
type gauge struct{ bits atomic.Uint64 }

func (g *gauge) set(v float64) { g.bits.Store(math.Float64bits(v)) }
func (g *gauge) get() float64  { return math.Float64frombits(g.bits.Load()) }
