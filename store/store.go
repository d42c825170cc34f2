package store

import "github.com/axd-project/axd/fsm"

// Store is an ordered key-value state. View and Batch may be used at the same
// time; there is at most one open batch.
type Store interface {
	// View opens a reader of the state as of the last commit. The caller closes it.
	View() View
	// Batch opens a transaction. The caller commits or discards it.
	Batch() Batch
	// Flush makes everything committed so far durable on disk.
	Flush() error
	// Checkpoint writes a durable, openable copy of the committed state into
	// dir, which must not exist. It costs milliseconds after a Flush.
	Checkpoint(dir string) error
	// Metrics returns figures for /metrics: bytes on disk, memory, read amplification.
	Metrics() map[string]float64
	// Close waits until every view has been closed. What was committed is durable.
	Close() error
}

// View is a consistent reader.
type View interface {
	fsm.Reader
	Close()
}

// Batch is a transaction.
type Batch interface {
	fsm.Tx
	// Commit makes the writes visible at once and durable with the next flush.
	Commit()
	// Discard drops the writes. It does nothing after Discard or Commit.
	Discard()
}

// SnapshotMeta describes a checkpoint kept in a Home.
type SnapshotMeta struct {
	ID      string // directory name
	Index   uint64 // Raft's index
	Term    uint64
	Applied uint64 // the state's own index: barriers don't reach apply, so it may be lower
	Size    int64  // of the tar stream
	Extra   []byte // Raft's configuration and versions, opaque here
}
