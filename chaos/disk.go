package chaos

import (
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/raftnode"
)

// Disk is a server's disk in memory: a file system for its state and a log for
// Raft. At a crash both forget what was not synced.
type Disk struct {
	fs  *fileSystem
	log *raftLog
}

// NewDisk returns an empty disk.
func NewDisk() *Disk {
	return newDisk(vfs.NewCrashableMem(), &raftLog{
		entries: map[uint64]*raft.Log{}, values: map[string][]byte{}, history: map[uint64]*raft.Log{},
	})
}

func newDisk(mem *vfs.MemFS, log *raftLog) *Disk {
	log.gone = make(chan struct{})
	fs := &fileSystem{mem: mem}
	fs.FS = errorfs.Wrap(mem, errorfs.InjectorFunc(fs.meet))
	return &Disk{fs: fs, log: log}
}

// FS is the file system.
func (d *Disk) FS() vfs.FS { return d.fs }

// RaftLog opens the log.
func (d *Disk) RaftLog() (raftnode.LogBackend, error) { return d.log, nil }

// Slow makes each write to the log take so long; 0 ends it.
func (d *Disk) Slow(each time.Duration) {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	d.log.each = each
}

// Slowed counts the writes that Slow held up.
func (d *Disk) Slowed() int {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return d.log.slowed
}

// Crash returns what the disk holds after a crash at this moment. What is
// written to the old one afterwards never happened. Each unsynced block and
// directory entry is kept with a chance of keep percent; the log's write in
// flight is there or not, as a whole, since it is one transaction.
func (d *Disk) Crash(rng *rand.Rand, keep int) *Disk {
	next := newDisk(d.fs.crash(rng, keep), d.log.crash(rng))
	d.Fail(nil, nil) // or what is left of the process would try for ever
	return next
}

// History returns the log's entries with those that a snapshot has replaced.
func (d *Disk) History() map[uint64]*raft.Log {
	d.log.mu.Lock()
	defer d.log.mu.Unlock()
	return maps.Clone(d.log.history)
}

// fileSystem keeps Pebble's memory file system from being copied while it links:
// there it takes a read lock twice, and a copy in between would wait for ever.
type fileSystem struct {
	vfs.FS  // over mem, with its faults
	mem     *vfs.MemFS
	linking sync.RWMutex

	mu     sync.Mutex
	fault  error          // of each write; nil: none
	failed int            // writes by fault
	onFile func(p string) // told of each file that is created; nil: nobody
}

// Link implements vfs.FS.
func (f *fileSystem) Link(from, to string) error {
	f.linking.RLock()
	defer f.linking.RUnlock()
	return f.FS.Link(from, to)
}

// Unwrap implements vfs.FS.
func (f *fileSystem) Unwrap() vfs.FS { return f.FS }

func (f *fileSystem) crash(rng *rand.Rand, keep int) *vfs.MemFS {
	f.linking.Lock()
	defer f.linking.Unlock()
	return f.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
}

// syncTime is what a write to the log takes without faults.
const syncTime = 300 * time.Microsecond

// raftLog is Raft's log and values with the promises of raft-boltdb: a call is
// one transaction, durable when it returns.
type raftLog struct {
	mu      sync.Mutex
	entries map[uint64]*raft.Log
	first   uint64    // of entries; 0: there are none
	last    uint64    // ditto
	mark    *raft.Log // the record at markIndex
	values  map[string][]byte
	history map[uint64]*raft.Log
	flight  map[int]func(*raftLog) // writes that have begun
	started int
	each    time.Duration
	slowed  int
	fault   error         // of each write; nil: none
	failed  int           // writes by fault
	stall   chan struct{} // writes wait until it is closed; nil: they don't
	stalled int           // writes that waited so
	gone    chan struct{} // closed by a crash: nobody waits for what was written before
	dead    bool
}

// markIndex is where the record of the log's end lies, behind all entries.
const markIndex = math.MaxUint64

var errAbsent = errors.New("not found") // raft compares the text

// write runs a transaction, which takes its time before it is there.
func (l *raftLog) write(apply func(*raftLog)) error {
	l.mu.Lock()
	if l.flight == nil {
		l.flight = map[int]func(*raftLog){}
	}
	id, each := l.started, l.each
	l.started++
	l.flight[id] = apply
	if each > 0 {
		l.slowed++
	}
	stall, fault := l.stall, l.fault
	if stall != nil {
		l.stalled++
	}
	l.mu.Unlock()
	time.Sleep(syncTime + each)
	if stall != nil {
		select {
		case <-stall:
		case <-l.gone:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.flight, id)
	if fault != nil {
		l.failed++
		return fault
	}
	apply(l)
	return nil
}

func (l *raftLog) crash(rng *rand.Rand) *raftLog {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dead {
		l.dead = true
		close(l.gone)
	}
	c := &raftLog{
		entries: maps.Clone(l.entries), first: l.first, last: l.last, mark: l.mark, values: maps.Clone(l.values),
		history: maps.Clone(l.history),
	}
	for _, id := range slices.Sorted(maps.Keys(l.flight)) { // in order, as far as they came
		if rng.IntN(2) == 0 {
			break
		}
		l.flight[id](c)
	}
	return c
}

// FirstIndex implements raft.LogStore.
func (l *raftLog) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == 0 && l.mark != nil {
		return markIndex, nil
	}
	return l.first, nil
}

// LastIndex implements raft.LogStore.
func (l *raftLog) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mark != nil {
		return markIndex, nil
	}
	return l.last, nil
}

// GetLog implements raft.LogStore.
func (l *raftLog) GetLog(index uint64, into *raft.Log) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.entries[index]
	if index == markIndex {
		e = l.mark
	}
	if e == nil {
		return raft.ErrLogNotFound
	}
	*into = *e
	return nil
}

// StoreLog implements raft.LogStore.
func (l *raftLog) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore.
func (l *raftLog) StoreLogs(entries []*raft.Log) error {
	kept := make([]*raft.Log, len(entries))
	for i, e := range entries {
		c := *e
		kept[i] = &c
	}
	return l.write(func(l *raftLog) {
		for _, e := range kept {
			if e.Index == markIndex {
				l.mark = e
				continue
			}
			l.entries[e.Index] = e
			l.history[e.Index] = e
			l.last = max(l.last, e.Index)
			if l.first == 0 || e.Index < l.first {
				l.first = e.Index
			}
		}
	})
}

// DeleteRange implements raft.LogStore. What is deleted at the end never was;
// what is deleted at the beginning stays history.
func (l *raftLog) DeleteRange(lo, hi uint64) error {
	return l.write(func(l *raftLog) {
		atEnd := hi >= l.last
		for i := lo; i <= min(hi, l.last); i++ {
			delete(l.entries, i)
			if atEnd {
				delete(l.history, i)
			}
		}
		if hi == markIndex {
			l.mark = nil
		}
		l.first, l.last = 0, 0
		for i := range l.entries {
			l.last = max(l.last, i)
			if l.first == 0 || i < l.first {
				l.first = i
			}
		}
	})
}

// Set implements raftnode.LogBackend.
func (l *raftLog) Set(key, value []byte) error {
	k, v := string(key), append([]byte(nil), value...)
	return l.write(func(l *raftLog) { l.values[k] = v })
}

// Get implements raftnode.LogBackend.
func (l *raftLog) Get(key []byte) ([]byte, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.values[string(key)]
	if !ok {
		return nil, errAbsent
	}
	return append([]byte(nil), v...), nil
}

// Close implements raftnode.LogBackend.
func (l *raftLog) Close() error { return nil }
