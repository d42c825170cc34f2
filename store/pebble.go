package store

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/axd-project/axd/internal/mutant"
)

// engine is the store on Pebble. A crash leaves what was committed before some
// moment, never a part of a batch: everything up to the last Flush or Checkpoint,
// and maybe more.
type engine struct {
	db   *pebble.DB
	opts Options
	pace pacer

	mu      sync.Mutex
	readers int    // open views, batches and flushes
	retired bool   // no new ones
	after   func() // called once the engine is closed; may be nil
	closed  chan struct{}
	err     error // of closing, set before closed is closed
	spare   *writes
	stalled time.Time     // since when commits wait for a flush; zero: they don't
	stall   time.Duration // the longest that they have
}

// openEngine opens the state in dir, or creates it where opts.Create allows that.
func openEngine(fs vfs.FS, dir string, opts Options) (*engine, error) {
	opts = opts.withDefaults()
	e := &engine{opts: opts, closed: make(chan struct{})}
	settings := opts.engine(pacedFS{orderedFS{fs}, &e.pace})
	settings.EventListener.FlushEnd, settings.EventListener.CompactionBegin = e.pace.noteFlush, e.pace.noteCompaction
	settings.EventListener.WriteStallBegin = func(pebble.WriteStallBeginInfo) { e.noteStall(time.Now()) }
	settings.EventListener.WriteStallEnd = func() { e.noteStall(time.Time{}) }
	db, err := pebble.Open(dir, settings)
	if err != nil {
		return nil, fmt.Errorf("open state in %s: %w", dir, err)
	}
	e.db = db
	return e, nil
}

// noteStall notes that commits begin to wait, or with a zero time that they go on.
func (e *engine) noteStall(since time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.stalled.IsZero() {
		e.stall = max(e.stall, time.Since(e.stalled))
	}
	e.stalled = since
}

func (e *engine) longestStall() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stalled.IsZero() {
		return e.stall
	}
	return max(e.stall, time.Since(e.stalled))
}

// View opens a reader of the state as of the last commit.
func (e *engine) View() View {
	e.acquire()
	snap := e.db.NewSnapshot()
	return &engineView{reader: reader{source: snap, fatal: e.opts.Fatal}, e: e, snap: snap}
}

// Batch opens a transaction.
func (e *engine) Batch() Batch {
	e.acquire()
	return &engineBatch{reader: reader{source: e.db, fatal: e.opts.Fatal}, e: e, w: e.spareWrites()}
}

// spareWrites returns what the last batch left, or else a new one.
func (e *engine) spareWrites() *writes {
	e.mu.Lock()
	defer e.mu.Unlock()
	w := e.spare
	e.spare = nil
	if w == nil {
		w = &writes{}
	}
	return w
}

func (e *engine) keep(w *writes) {
	if !w.reset() {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.spare = w
}

func (e *engine) acquire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired {
		panic("store: used after Close")
	}
	e.readers++
}

func (e *engine) release() {
	e.mu.Lock()
	e.readers--
	last := e.retired && e.readers == 0
	e.mu.Unlock()
	if last {
		e.finish()
	}
}

// Flush makes everything committed so far durable.
func (e *engine) Flush() error {
	if err := e.db.Flush(); err != nil {
		return fmt.Errorf("flush state: %w", err)
	}
	return nil
}

// Checkpoint flushes and hard-links the state into dir.
func (e *engine) Checkpoint(dir string) error {
	// Without a write-ahead log a checkpoint holds only what is in tables.
	if mutant.Unflushed {
		return e.db.Checkpoint(dir)
	}
	if err := e.Flush(); err != nil {
		return err
	}
	if err := e.db.Checkpoint(dir); err != nil {
		return fmt.Errorf("checkpoint state to %s: %w", dir, err)
	}
	return nil
}

// Metrics returns sizes in bytes and counts since Open.
func (e *engine) Metrics() map[string]float64 {
	m := e.db.Metrics()
	return map[string]float64{
		"disk_bytes":            float64(m.DiskSpaceUsage()),
		"memtable_bytes":        float64(m.MemTable.Size + m.MemTable.ZombieSize),
		"cache_bytes":           float64(m.BlockCache.Size),
		"cache_hits":            float64(m.BlockCache.Hits),
		"cache_misses":          float64(m.BlockCache.Misses),
		"read_amplification":    float64(m.ReadAmp()),
		"compaction_debt_bytes": float64(m.Compact.EstimatedDebt),
		"compactions":           float64(m.Compact.Count),
		"flushes":               float64(m.Flush.Count),
		"views":                 float64(m.Snapshots.Count),
		// Apply stands still for so long where flushes and compactions don't keep up.
		"stall_seconds_max": e.longestStall().Seconds(),
	}
}

// Close flushes, waits until open views and batches have ended, and closes the
// engine. Later calls wait and return the same error.
func (e *engine) Close() error {
	e.mu.Lock()
	first := !e.retired
	if first {
		e.retired = true
		e.readers++ // the flush holds the engine open as a reader does
	}
	e.mu.Unlock()
	var err error
	if first {
		err = e.Flush()
		e.release()
	}
	<-e.closed
	return errors.Join(err, e.err)
}

// retire refuses new views and closes the engine, without a flush, once the
// open ones have ended; then it calls after. It is not called after Close.
func (e *engine) retire(after func()) {
	e.mu.Lock()
	e.retired, e.after = true, after
	e.readers++
	e.mu.Unlock()
	e.release()
}

func (e *engine) finish() {
	e.pace.release()
	if err := e.db.Close(); err != nil {
		e.err = fmt.Errorf("close state: %w", err)
	}
	close(e.closed)
	if e.after != nil {
		e.after()
	}
}

// reader reads a snapshot, or what was committed when it opened. Opening an iterator costs more than a
// seek, so it keeps one for Get and one for Ascend.
type reader struct {
	source interface {
		NewIter(*pebble.IterOptions) (*pebble.Iterator, error)
	}
	fatal func(error)
	point *pebble.Iterator // for Get; nil until the first
	scan  *pebble.Iterator // for Ascend; nil until the first and while in use
}

// pointOptions let the filters of the last level answer too: without it, a Get
// of an absent key reads a block there.
var pointOptions = pebble.IterOptions{UseL6Filters: true}

func (r *reader) Get(key []byte) ([]byte, bool) {
	if r.point == nil {
		it, err := r.source.NewIter(&pointOptions)
		if err != nil {
			r.fatal(fmt.Errorf("read state: %w", err))
			return nil, false
		}
		r.point = it
	}
	if !r.point.SeekPrefixGE(key) {
		if err := r.point.Error(); err != nil {
			r.fatal(fmt.Errorf("read state: %w", err))
		}
		return nil, false
	}
	value, err := r.point.ValueAndErr()
	if err != nil {
		r.fatal(fmt.Errorf("read state: %w", err))
		return nil, false
	}
	return value, true
}

func (r *reader) Ascend(lo, hi []byte, fn func(key, value []byte) bool) {
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return
	}
	it, err := r.openScan(lo, hi)
	if err != nil {
		r.fatal(fmt.Errorf("read state: %w", err))
		return
	}
	defer r.keepScan(it)
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			r.fatal(fmt.Errorf("read state: %w", err))
			return
		}
		if !fn(it.Key(), value) {
			return
		}
	}
	if err := it.Error(); err != nil {
		r.fatal(fmt.Errorf("read state: %w", err))
	}
}

// openScan takes the kept iterator out, so that fn may itself call Ascend.
func (r *reader) openScan(lo, hi []byte) (*pebble.Iterator, error) {
	opts := &pebble.IterOptions{LowerBound: lo, UpperBound: hi}
	if it := r.scan; it != nil {
		r.scan = nil
		it.SetOptions(opts)
		return it, nil
	}
	return r.source.NewIter(opts)
}

func (r *reader) keepScan(it *pebble.Iterator) {
	if r.scan == nil {
		r.scan = it
		return
	}
	closeIter(it)
}

// close must come before the source's.
func (r *reader) close() {
	closeIter(r.point)
	closeIter(r.scan)
	r.point, r.scan = nil, nil
}

// closeIter drops the error: it only repeats what a read has reported.
func closeIter(it *pebble.Iterator) {
	if it != nil {
		_ = it.Close()
	}
}

type engineView struct {
	reader
	e    *engine
	snap *pebble.Snapshot
}

// Close ends the view; a second call does nothing.
func (v *engineView) Close() {
	if v.snap == nil {
		return
	}
	v.reader.close()
	if err := v.snap.Close(); err != nil {
		v.fatal(fmt.Errorf("close view: %w", err))
	}
	v.snap = nil
	v.e.release()
}
