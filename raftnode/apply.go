package raftnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/store"
)

// applyStalls times the stall limit is how long one batch of entries may take
// to apply. A state store that hangs stops this server as surely as its log.
const applyStalls = 4

// machine is the state machine as apply uses it.
type machine interface {
	Apply(tx fsm.Tx, meta fsm.Meta, entry []byte) ([]fsm.Result, []fsm.Event, error)
	Reset()
}

// applier is raft's FSM: it applies entries to the store, many in one batch.
// Raft calls it from one goroutine.
type applier struct {
	home     *store.Home
	machine  machine
	snaps    *snapshots
	log      *logStore
	guard    *guard
	fatal    func(code int, err error)
	events   func(fsm.Meta, []fsm.Event)
	restored func()
	applied  *watermark

	lastRestore gauge // seconds

	busy     sync.Mutex     // held while the state is being changed
	closed   bool           // entries are let through unapplied; the process is ending
	restores int            // how often the state has been replaced
	copying  sync.WaitGroup // checkpoints being made
	pause    gauge          // seconds: the longest that apply stood still for one
}

// close waits until the state is neither changed nor copied any more, and keeps it
// so: a raft that has shut itself down doesn't wait for its own goroutines.
func (a *applier) close() {
	a.busy.Lock()
	a.closed = true
	a.busy.Unlock()
	a.copying.Wait()
}

// Apply is raft's way during recovery; it is the same as a batch of one.
func (a *applier) Apply(l *raft.Log) any { return a.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies entries in one store batch and answers with one
// []fsm.Result each. Entries that the state already has are skipped: raft
// replays from its newest snapshot, the state may be ahead of that.
func (a *applier) ApplyBatch(logs []*raft.Log) []any {
	a.busy.Lock()
	defer a.busy.Unlock()
	answers := make([]any, len(logs))
	if a.closed {
		return answers
	}
	call := a.guard.begin(fmt.Sprintf("apply log entry %d", logs[0].Index), ExitStateFailed, applyStalls)
	defer a.guard.end(call)
	events := make([][]fsm.Event, len(logs))
	if code, err := a.apply(logs, answers, events); err != nil {
		_ = a.end(code, err)
		return answers
	}
	for i, l := range logs {
		if l.Type != raft.LogCommand || l.Index <= a.applied.get() {
			continue
		}
		a.applied.set(l.Index)
		if a.events != nil {
			a.events(fsm.Meta{Index: l.Index, Term: l.Term}, events[i])
		}
	}
	return answers
}

// apply runs the machine over a batch. A panic is a broken invariant: the
// message says at which entry, since every server will meet it there.
func (a *applier) apply(logs []*raft.Log, answers []any, events [][]fsm.Event) (code int, err error) {
	at := logs[0].Index
	defer func() {
		if r := recover(); r != nil {
			code, err = ExitStateFailed, fmt.Errorf("apply log entry %d: panic: %v\n%s", at, r, debug.Stack())
		}
	}()
	batch := a.home.State().Batch()
	for i, l := range logs {
		if l.Type != raft.LogCommand {
			continue // configurations are raft's own
		}
		at = l.Index
		results, ev, err := a.machine.Apply(batch, fsm.Meta{Index: l.Index, Term: l.Term}, l.Data)
		if err != nil {
			batch.Discard()
			return ExitUnknownVerb, err
		}
		answers[i], events[i] = results, ev
	}
	batch.Commit()
	return 0, nil
}

// end ends the process. Should fatal return, as it does in tests, nothing is
// applied any more.
func (a *applier) end(code int, err error) error {
	a.closed = true
	a.fatal(code, err)
	return err
}

// Snapshot only notes which state is to be copied: the copy is made while entries
// are applied, so it may hold later ones too. They are skipped when the log is
// replayed over it, like all that a state has already.
func (a *applier) Snapshot() (raft.FSMSnapshot, error) {
	began := time.Now()
	of, err := a.generation()
	a.pause.set(max(a.pause.get(), time.Since(began).Seconds()))
	return &checkpoint{a: a, of: of}, err
}

// generation tells which of the states that this server has had is the present one.
func (a *applier) generation() (int, error) {
	a.busy.Lock()
	defer a.busy.Unlock()
	if a.closed {
		return 0, raft.ErrRaftShutdown
	}
	return a.restores, nil
}

// errReplaced says that a restore has come in between.
var errReplaced = errors.New("the state was replaced while it was being copied")

// checkpoint copies the state of a generation.
func (a *applier) checkpoint(of int) (*store.Checkpoint, error) {
	if err := a.beginCopy(of); err != nil {
		return nil, err
	}
	defer a.copying.Done()
	cp, err := a.home.Checkpoint(func(r fsm.Reader) uint64 { return fsm.ReadInfo(r).Applied })
	if err != nil {
		return nil, err
	}
	if now, err := a.generation(); err == nil && now != of {
		return nil, errors.Join(errReplaced, cp.Discard())
	}
	return cp, nil
}

func (a *applier) beginCopy(of int) error {
	a.busy.Lock()
	defer a.busy.Unlock()
	switch {
	case a.closed:
		return raft.ErrRaftShutdown
	case a.restores != of:
		return errReplaced
	}
	a.copying.Add(1)
	return nil
}

// checkpoint is raft's handle on a snapshot of the state.
type checkpoint struct {
	a  *applier
	of int
}

// Persist makes the checkpoint and moves it into the sink.
func (c *checkpoint) Persist(sink raft.SnapshotSink) error {
	s, ok := sink.(*snapshotSink)
	if !ok {
		return fmt.Errorf("persist into a foreign sink %T", sink)
	}
	cp, err := c.a.checkpoint(c.of)
	if err != nil {
		return err
	}
	if err := s.Adopt(cp); err != nil {
		return errors.Join(err, cp.Discard())
	}
	return nil
}

// Release implements raft.FSMSnapshot.
func (c *checkpoint) Release() {}

// Restore makes the snapshot that was received last the state. Raft's main loop
// waits for it, so there is just one. The stream isn't read: the store has the
// files already. An error here would leave raft and state apart, so it ends the
// process, and so does a log that conflicts with the snapshot: raft would ask
// for the same snapshot for ever (hashicorp/raft#697).
func (a *applier) Restore(io.ReadCloser) error {
	a.busy.Lock()
	defer a.busy.Unlock()
	if a.closed {
		return raft.ErrRaftShutdown
	}
	began := time.Now()
	a.restores++
	id, meta, ok := a.snaps.takeReceived()
	if !ok {
		return a.end(ExitStateFailed, errors.New("a restore was asked for, but no snapshot has been received"))
	}
	conflict, err := a.log.conflicts(meta.Index, meta.Term)
	if err == nil {
		err = a.home.Install(id)
	}
	if err != nil {
		return a.end(ExitStateFailed, fmt.Errorf("restore snapshot %s: %w", id, err))
	}
	a.snaps.refresh()
	a.machine.Reset()
	a.applied.reset(appliedIndex(a.home))
	if _, last := a.log.index.bounds(); conflict || last < meta.Index {
		// What is left of the log is in the snapshot or contradicts it.
		if err := a.log.wipe(); err != nil {
			return a.end(ExitLogFailed, fmt.Errorf("restore snapshot %s: wipe the log: %w", id, err))
		}
	}
	if conflict {
		return a.end(ExitReseed, fmt.Errorf("snapshot %s was received inside a conflicting log: "+
			"the log was wiped, restart this server and it will catch up", id))
	}
	a.lastRestore.set(time.Since(began).Seconds())
	if a.restored != nil {
		a.restored()
	}
	return nil
}

// appliedIndex reads the state's own index.
func appliedIndex(h *store.Home) uint64 {
	v := h.State().View()
	defer v.Close()
	return fsm.ReadInfo(v).Applied
}

// watermark is the index of the last applied entry, with waiting.
type watermark struct {
	mu      sync.Mutex
	index   uint64
	changed chan struct{} // closed at the next change; nil while nobody waits
}

func (w *watermark) get() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.index
}

// set raises the index.
func (w *watermark) set(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index = max(w.index, index)
	w.signal()
}

// reset sets the index of a replaced state, which may be lower.
func (w *watermark) reset(index uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.index = index
	w.signal()
}

func (w *watermark) signal() {
	if w.changed != nil {
		close(w.changed)
		w.changed = nil
	}
}

// wait returns once the index has reached a value.
func (w *watermark) wait(ctx context.Context, index uint64) error {
	for {
		w.mu.Lock()
		if w.index >= index {
			w.mu.Unlock()
			return nil
		}
		if w.changed == nil {
			w.changed = make(chan struct{})
		}
		changed := w.changed
		w.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
