package store

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options configures a store and a Home. Zero sizes take the defaults.
type Options struct {
	// Create allows an absent state to be created empty. Leave it false when the
	// replica is known to have state: a lost directory must stop the server, not
	// make it start over with amnesia.
	Create bool
	// Fatal is told of a storage failure after which the state can't be trusted:
	// a failed read, write, flush or background compaction. It must end the
	// process and not return; it may be called with the engine's locks held, so
	// it must not call the store. Nil panics.
	Fatal func(err error)
	// Logger takes the engine's warnings; its routine messages are at debug
	// level. Nil discards both.
	Logger *slog.Logger
	// MemTableBytes is the size of one memtable, 16 MiB by default. Unflushed
	// rows live there; up to memTables of them are held, so it also bounds how
	// much is replayed from the log after a crash.
	MemTableBytes int64
	// CacheBytes is the size of the cache of uncompressed blocks, 56 MiB by
	// default, and what memtables leave of their share: the tables' filters take 5
	// bytes a waiting task, and a Get of an absent key is cheap only while they fit;
	// 10 million tasks need 50 MB. Rows can be read again from the page cache.
	CacheBytes int64

	idle     bool // no work in the background: the state is opened for a look
	readOnly bool
}

const (
	defaultMemTableBytes = 16 << 20
	defaultCacheBytes    = 56 << 20

	// memTables counts the one that takes writes, one being flushed, and one
	// waiting, so that a slow card's flush of a second doesn't stop apply.
	memTables = 3
	// filterBits per key give one false positive in a hundred: most reads of
	// apply are for keys that don't exist.
	filterBits = 10
	// l0Compact is how many sublevels reads may meet before they are compacted: each
	// compaction writes the level below anew, so that half as many cost half as much
	// of the processor. l0Stop stops writes late, since a stopped apply stalls the replica.
	l0Compact = 8
	l0Stop    = 24
	// maxCompactions leaves a small box's other cores to the scheduler.
	maxCompactions = 2
	// maxOpenFiles keeps well below the customary limit of 1,024 descriptors.
	maxOpenFiles = 400
	// maxManifest is small because every checkpoint copies the manifest.
	maxManifest = 1 << 20
)

func (o Options) withDefaults() Options {
	o.MemTableBytes = cmp.Or(o.MemTableBytes, defaultMemTableBytes)
	o.CacheBytes = cmp.Or(o.CacheBytes, defaultCacheBytes)
	if o.Fatal == nil {
		o.Fatal = func(err error) { panic(err) }
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// engine translates to Pebble's options.
func (o Options) engine(fs vfs.FS) *pebble.Options {
	e := &pebble.Options{
		FS:                 fs,
		ErrorIfNotExists:   !o.Create,
		DisableWAL:         true,
		FormatMajorVersion: pebble.FormatNewest,
		// Pebble takes the memtables' memory out of the cache: without their
		// share in it, no block would ever be cached.
		CacheSize:                   o.CacheBytes + memTables*o.MemTableBytes,
		MemTableSize:                uint64(o.MemTableBytes), //nolint:gosec // never negative
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       l0Compact,
		L0StopWritesThreshold:       l0Stop,
		CompactionConcurrencyRange:  func() (int, int) { return 1, maxCompactions },
		MaxOpenFiles:                maxOpenFiles,
		MaxManifestFileSize:         maxManifest,
		Logger:                      engineLog{o},
		EventListener: &pebble.EventListener{
			BackgroundError: func(err error) { o.Fatal(fmt.Errorf("state store: background work: %w", err)) },
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				o.Fatal(fmt.Errorf("state store: corrupt data in %s: %w", info.Path, info.Details))
			},
		},
	}
	e.Experimental.SpanPolicyFunc = oneTableAFile
	e.DisableAutomaticCompactions, e.ReadOnly = o.idle || o.readOnly, o.readOnly
	for i := range e.Levels {
		e.Levels[i].FilterPolicy = bloom.FilterPolicy(filterBits)
	}
	return e
}

// oneTableAFile ends each file where a table of the state ends, by the first byte
// of a key. Tables differ in how they grow: tasks and attempts at their end, by id,
// the due index and the idempotency keys everywhere. In files of their own the
// former overlap nothing and are not written again with the latter.
func oneTableAFile(start []byte) (pebble.SpanPolicy, []byte, error) {
	table := firstByte(start)
	if table == math.MaxUint8 {
		return pebble.SpanPolicy{}, nil, nil
	}
	return pebble.SpanPolicy{}, []byte{table + 1}, nil
}

// engineLog quiets Pebble: its routine messages are for debugging.
type engineLog struct{ o Options }

func (l engineLog) Infof(format string, args ...any) {
	if l.o.Logger.Enabled(context.Background(), slog.LevelDebug) {
		l.o.Logger.Debug("state store: " + fmt.Sprintf(format, args...))
	}
}

func (l engineLog) Errorf(format string, args ...any) {
	l.o.Logger.Warn("state store: " + fmt.Sprintf(format, args...))
}

// Fatalf must not return: Pebble goes on from a broken invariant if it does.
func (l engineLog) Fatalf(format string, args ...any) {
	err := &engineError{text: fmt.Sprintf("state store: "+format, args...)}
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err.cause = cause
		}
	}
	l.o.Fatal(err)
	panic(err)
}

// engineError is what Pebble ends with. Its text alone wouldn't tell a full disk
// from a broken one.
type engineError struct {
	text  string
	cause error
}

func (e *engineError) Error() string { return e.text }
func (e *engineError) Unwrap() error { return e.cause }
