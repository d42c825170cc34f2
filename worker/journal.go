package worker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/axd-project/axd/rpc"
)

const (
	journalName = "journal"
	newSuffix   = ".new"    // a rewrite that is not finished
	brokenName  = ".broken" // the latest journal in which damage was found

	// journalFloor is the size up to which a journal is not rewritten. Above it at
	// least half of the journal is of what is owed, or it is rewritten: it is never
	// larger than this, or than twice what is owed, and one group.
	journalFloor = 16 << 20
)

// journal keeps what is owed until it is acknowledged, so that a restart of the
// worker loses none. Results that come at one time share one write and one sync.
// See docs/design/006-worker-journal.md.
//
// Where the disk fails, what is put is held in memory alone, and the journal is
// written anew, with all that is owed, as soon as the disk takes it.
type journal struct {
	path   string
	log    *slog.Logger
	create func(path string) (journalFile, error)
	floor  int64

	wake chan struct{} // room for one
	done chan struct{} // closed when the writer has ended

	mu      sync.Mutex
	next    *group
	closing bool

	// What follows belongs to the writer.
	file    journalFile // nil: the disk failed
	size    int64
	live    map[attemptKey]liveRecord
	owed    int64  // bytes of live records
	lastSeq uint64 // in this file
	buf     []byte
	limit   int64     // size from which it is worth a look whether a rewrite pays
	retry   time.Time // when the disk is tried again, after it failed
	failure error     // why it failed
}

// journalFile is what the journal needs of a file.
type journalFile interface {
	Write(b []byte) (int, error)
	Sync() error
	Close() error
}

// liveRecord is what a rewrite must keep.
type liveRecord struct {
	seq   uint64
	size  int64
	entry spooled
	runs  bool // the attempt runs; nothing is owed yet
}

// spooled is what the worker owes the leader for one attempt: its result, or
// that it gives the attempt back.
type spooled struct {
	Ref      rpc.Ref
	Result   []byte // rpc.AttemptResult as msgpack
	GiveBack string // why; Result is empty then

	patient bool // nothing is known to wait for it; not on disk
}

func (e spooled) key() attemptKey { return attemptOf(e.Ref) }

// group is what is written at one time.
type group struct {
	entries []spooled
	running []rpc.Ref
	settled []attemptKey
	done    chan struct{} // closed once the entries are durable, or err tells why not
	err     error
}

// recovered is what a journal held when it was opened.
type recovered struct {
	owed    []spooled
	running []rpc.Ref // that ran when the worker ended, and have no result
	damaged int64     // bytes that could not be read
}

// openJournal reads the journal in a directory and writes it anew, which cuts off
// what a crash left half written. A journal with damage is kept beside it.
func openJournal(dir string, log *slog.Logger) (*journal, recovered, error) {
	j := &journal{
		path: filepath.Join(dir, journalName), log: log, create: createFile, floor: journalFloor,
		wake: make(chan struct{}, 1), done: make(chan struct{}), live: map[attemptKey]liveRecord{},
	}
	b, err := os.ReadFile(j.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, recovered{}, fmt.Errorf("read journal: %w", err)
	}
	var r recovered
	bySeq := map[uint64]attemptKey{}
	r.damaged = readJournal(b, func(r record) { j.take(bySeq, r) })
	for _, rec := range j.live {
		if rec.runs {
			r.running = append(r.running, rec.entry.Ref)
		} else {
			r.owed = append(r.owed, rec.entry)
		}
	}
	if r.damaged > 0 {
		_ = os.Remove(j.path + brokenName)
		if err := os.Link(j.path, j.path+brokenName); err != nil {
			return nil, recovered{}, fmt.Errorf("keep the damaged journal: %w", err)
		}
	}
	if err := j.rewrite(); err != nil {
		return nil, recovered{}, err
	}
	return j, r, nil
}

// take applies one record of an earlier life.
func (j *journal) take(bySeq map[uint64]attemptKey, r record) {
	switch r.kind {
	case recordEntry, recordRunning:
		e := spooled{Ref: r.ref, Result: bytes.Clone(r.result), GiveBack: r.giveBack}
		bySeq[r.seq] = e.key()
		j.lives(r.seq, e, r.kind == recordRunning, r.size)
	case recordSettled:
		for _, seq := range r.settled {
			if key, ok := bySeq[seq]; ok && j.live[key].seq == seq {
				j.dies(key)
			}
		}
	}
}

func (j *journal) lives(seq uint64, e spooled, runs bool, size int64) {
	key := e.key()
	j.owed += size - j.live[key].size
	j.live[key] = liveRecord{seq: seq, size: size, entry: e, runs: runs}
}

func (j *journal) dies(key attemptKey) {
	j.owed -= j.live[key].size
	delete(j.live, key)
}

// put keeps an entry and returns once it is on disk. An error means that it is
// held in memory alone.
func (j *journal) put(e spooled) error {
	g := j.join(func(g *group) { g.entries = append(g.entries, e) })
	if g == nil {
		return errors.New("the worker has ended")
	}
	<-g.done
	return g.err
}

// note tells a later life that attempts of this process run. It need not be on
// disk at any moment: see docs/design/006-worker-journal.md.
func (j *journal) note(running []rpc.Ref) {
	j.join(func(g *group) { g.running = append(g.running, running...) })
}

// forget drops acknowledged entries. A crash may bring them back; then they are
// sent once more and refused.
func (j *journal) forget(settled []attemptKey) {
	j.join(func(g *group) { g.settled = append(g.settled, settled...) })
}

// join adds to what is written next; nil once the journal is closed.
func (j *journal) join(add func(*group)) *group {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.closing {
		return nil
	}
	if j.next == nil {
		j.next = &group{done: make(chan struct{})}
	}
	add(j.next)
	j.signal()
	return j.next
}

func (j *journal) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// run writes groups until the journal is closed.
func (j *journal) run() {
	defer close(j.done)
	for range j.wake {
		j.mu.Lock()
		g, closing := j.next, j.closing
		j.next = nil
		j.mu.Unlock()
		if g != nil {
			g.err = j.write(g)
			close(g.done)
		}
		if closing {
			break
		}
	}
	if j.file != nil {
		_ = j.file.Close()
	}
}

// close writes what waits, and ends run.
func (j *journal) close() {
	j.mu.Lock()
	j.closing = true
	j.signal()
	j.mu.Unlock()
	<-j.done
}

// write appends a group, and syncs it where it holds an entry.
func (j *journal) write(g *group) error {
	b := j.encode(g)
	if j.file == nil { // the group is in what is rewritten
		return j.recover()
	}
	err := j.append(b, len(g.entries) > 0)
	switch {
	case err != nil:
		err = fmt.Errorf("write journal: %w", err)
		j.fail(err)
		return err
	case j.size > j.limit && j.owed < j.size/2:
		if err := j.rewrite(); err != nil {
			j.limit = j.size + j.floor
			j.log.Warn("the journal could not be rewritten and grows", "error", err)
		}
	}
	return nil
}

// fail gives the file up.
func (j *journal) fail(err error) {
	j.log.Error("results are kept in memory alone until the disk takes them", "error", err)
	_ = j.file.Close()
	j.file, j.failure, j.retry = nil, err, time.Now().Add(diskPause)
}

// encode makes the records of a group and takes them over into what lives.
func (j *journal) encode(g *group) []byte {
	b := j.buf[:0]
	for _, ref := range g.running {
		at := len(b)
		j.lastSeq++
		b = appendEntry(b, record{kind: recordRunning, seq: j.lastSeq, ref: ref})
		j.lives(j.lastSeq, spooled{Ref: ref}, true, int64(len(b)-at))
	}
	for _, e := range g.entries {
		at := len(b)
		j.lastSeq++
		b = appendEntry(b, record{kind: recordEntry, seq: j.lastSeq, ref: e.Ref, result: e.Result, giveBack: e.GiveBack})
		j.lives(j.lastSeq, e, false, int64(len(b)-at))
	}
	var settled []uint64
	for _, key := range g.settled {
		if rec, ok := j.live[key]; ok {
			settled = append(settled, rec.seq)
			j.dies(key)
		}
	}
	b = appendSettled(b, settled)
	if cap(b) <= rewriteBuffer {
		j.buf = b
	}
	return b
}

func (j *journal) append(b []byte, sync bool) error {
	if len(b) == 0 {
		return nil
	}
	n, err := j.file.Write(b)
	j.size += int64(n)
	if err == nil && sync {
		err = j.file.Sync()
	}
	return err
}

// recover writes the journal anew after the disk failed.
func (j *journal) recover() error {
	if time.Now().Before(j.retry) {
		return j.failure
	}
	if err := j.rewrite(); err != nil {
		j.failure, j.retry = err, time.Now().Add(diskPause)
		return err
	}
	j.log.Info("results are kept on disk again", "results", len(j.live))
	return nil
}

// rewrite makes a journal of what lives alone, and puts it in the old one's place.
func (j *journal) rewrite() error {
	file, err := j.create(j.path + newSuffix)
	if err != nil {
		return fmt.Errorf("write journal: %w", err)
	}
	seq, size, owed := uint64(0), int64(0), int64(0)
	live := make(map[attemptKey]liveRecord, len(j.live))
	var b []byte
	flush := func() error {
		size += int64(len(b))
		_, err := file.Write(b)
		b = b[:0]
		return err
	}
	for key, rec := range j.live {
		at := len(b)
		seq++
		r := record{kind: recordEntry, seq: seq, ref: rec.entry.Ref, result: rec.entry.Result, giveBack: rec.entry.GiveBack}
		if rec.runs {
			r.kind = recordRunning
		}
		b = appendEntry(b, r)
		rec.seq, rec.size = seq, int64(len(b)-at)
		owed += rec.size
		live[key] = rec
		if len(b) > rewriteBuffer && err == nil {
			err = flush()
		}
	}
	if err == nil {
		err = flush()
	}
	if err == nil {
		err = file.Sync()
	}
	if err == nil {
		err = os.Rename(j.path+newSuffix, j.path)
	}
	if err != nil { // the old file is as good as before
		_ = file.Close()
		_ = os.Remove(j.path + newSuffix)
		return fmt.Errorf("write journal: %w", err)
	}
	if j.file != nil {
		_ = j.file.Close()
	}
	j.file, j.size, j.live, j.owed, j.lastSeq, j.limit = file, size, live, owed, seq, max(j.floor, 2*size)
	if err := syncDir(filepath.Dir(j.path)); err != nil {
		err = fmt.Errorf("write journal: %w", err)
		j.fail(err) // which of the two files a crash would leave is open
		return err
	}
	return nil
}

const (
	rewriteBuffer = 1 << 20     // bytes of a rewrite that are written at one time
	diskPause     = time.Second // between two tries of a disk that failed
)

func createFile(path string) (journalFile, error) {
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
