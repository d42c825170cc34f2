package store

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// How compactions leave the processor to what somebody waits for. On two cores, one
// that runs through has tasks that come due meanwhile start some 5 ms later; with
// rests 1 ms.
const (
	paceWork    = time.Millisecond // a compaction works at least so long at a time
	paceRest    = 4                // and rests for so many times as long,
	paceLongest = 20 * time.Millisecond
	// pressedFor is how long after a flush the next one shows that writes come too
	// fast for rests.
	pressedFor = 4 * time.Second
	// pressedFlushes since a compaction of level 0 began show that compactions don't
	// keep up. It is well below l0Stop, which stops writes.
	pressedFlushes = l0Compact + 4
)

// compactionCategory is what Pebble calls writes of compactions.
const compactionCategory vfs.DiskWriteCategory = "pebble-compaction"

// pacer has compactions work in short stretches with rests between, as long as they
// keep up: on few cores one that runs through delays everything else by some
// milliseconds.
type pacer struct {
	mu       sync.Mutex
	flushed  time.Time // the latest flush
	pressed  time.Time // until then nothing rests
	flushes  int       // since a compaction of level 0 began
	released bool      // nothing rests any more
}

// release has compactions run through from now on: somebody waits for their end.
func (p *pacer) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.released = true
}

func (p *pacer) noteFlush(pebble.FlushInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Sub(p.flushed) < pressedFor {
		p.pressed = now.Add(pressedFor)
	}
	p.flushed = now
	p.flushes++
}

func (p *pacer) noteCompaction(info pebble.CompactionInfo) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(info.Input) > 0 && info.Input[0].Level == 0 {
		p.flushes = 0
	}
}

// rest is how long to rest after so much work.
func (p *pacer) rest(worked time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released || p.flushes > pressedFlushes || time.Now().Before(p.pressed) {
		return 0
	}
	return min(paceRest*worked, paceLongest)
}

// pacedFS paces what compactions write.
type pacedFS struct {
	vfs.FS
	pacer *pacer
}

func (f pacedFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, category)
	if err != nil || category != compactionCategory {
		return file, err
	}
	return &pacedFile{File: file, pacer: f.pacer, since: time.Now()}, nil
}

// Unwrap implements vfs.FS.
func (f pacedFS) Unwrap() vfs.FS { return f.FS }

// pacedFile is written by one compaction.
type pacedFile struct {
	vfs.File
	pacer *pacer
	since time.Time // when it began to work
}

func (f *pacedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if worked := time.Since(f.since); worked >= paceWork {
		time.Sleep(f.pacer.rest(worked))
		f.since = time.Now()
	}
	return n, err
}
