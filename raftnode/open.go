package raftnode

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// The constants of Raft's own loop.
const (
	// maxAppendEntries has to be small, because it bounds a request by count
	// alone: eight entries of 512 KiB are 4 MiB to sync, and heartbeats wait.
	maxAppendEntries = 8
	// commitTimeout is how soon, at one to two times this, an idle follower learns
	// what was committed. Each time costs both an exchange, also when all is idle.
	commitTimeout = 50 * time.Millisecond
	// never switches raft's own snapshot trigger off.
	never = 30 * 24 * time.Hour
	// minFree is what must be free to start: raft.db grows by 16 MiB at a time.
	minFree = 64 << 20
)

// StartError tells why a replica must not start, with the code to exit with.
type StartError struct {
	Code int
	Err  error
}

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// Open starts the replica on what DataDir and the Home hold. Before, it reads
// and checks the whole log; a replica whose log, snapshots and state don't fit
// together gets a *StartError.
func Open(cfg Config) (*Node, error) {
	return open(cfg, fsm.NewMachine(), nil)
}

// open takes the machine, and what to put around the log's backend.
func open(cfg Config, m machine, wrap func(LogBackend) LogBackend) (*Node, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log, err = openFile(cfg)
	} else {
		err = prepareNew(cfg.Log)
	}
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, removed: make(chan struct{})}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	if err := n.openLog(wrap); err != nil {
		n.cancel()
		return nil, err
	}
	if err := n.start(m); err != nil {
		n.cancel()
		return nil, errors.Join(err, n.closeLog())
	}
	return n, nil
}

// openFile opens the log in the data directory, if there is room for it.
func openFile(cfg Config) (LogBackend, error) {
	dir := cfg.DataDir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	free, err := freeBytes(dir)
	if err != nil {
		return nil, fmt.Errorf("free space of %s: %w", dir, err)
	}
	if err := CheckFree(dir, free); err != nil {
		return nil, err
	}
	bolt, err := openBackend(dir)
	var refused syscall.Errno
	switch {
	case err == nil:
		return bolt, nil
	case errors.Is(err, errLocked), errors.As(err, &refused):
		return nil, &StartError{ExitCode(ExitLogFailed, err), err}
	}
	return nil, &StartError{ExitCorruptLog, reseed(cfg, "the Raft log is damaged", err)}
}

// CheckFree refuses a nearly full disk before raft meets it, which would panic.
func CheckFree(dir string, free uint64) error {
	if free < minFree {
		return &StartError{ExitDiskFull, job.Errorf(job.CodeDiskFull,
			fmt.Sprintf("the disk of %s has %d MiB free, at least %d MiB are needed to start", dir, free>>20, minFree>>20))}
	}
	return nil
}

func (n *Node) openLog(wrap func(LogBackend) LogBackend) error {
	backend := n.cfg.Log
	if wrap != nil {
		backend = wrap(backend)
	}
	grain := min(max(min(n.cfg.SnapshotBytes, n.cfg.TrailingBytes)/16, 1<<10), 256<<10)
	n.log = newLogStore(backend, n.cfg.Name, grain, newGuard(n.cfg.StallLimit, n.fatal))
	if err := n.log.load(); err != nil {
		return &StartError{ExitCorruptLog, errors.Join(reseed(n.cfg, "the Raft log is damaged", err), n.closeLog())}
	}
	return nil
}

// reseed says how to bring a server back whose disk has lost data.
func reseed(cfg Config, what string, err error) error {
	return fmt.Errorf("%s: %w; a server must not vote with less than it once confirmed. To re-seed it from the others, "+
		"move %s away and start server %s again: it joins as a new one", what, err, cfg.DataDir, cfg.Name)
}

// checkFit compares the log, the newest snapshot and the state. A crash while a
// received snapshot was installed may leave a log that the snapshot covers or
// contradicts; that is repaired. What can only come from lost data is refused.
func (n *Node) checkFit() error {
	first, last := n.log.index.bounds()
	snap := n.snaps.latest()
	v := n.View()
	defer v.Close()
	if err := fsm.CheckFormat(v); err != nil {
		return &StartError{ExitUnknownVerb, err}
	}
	state := fsm.ReadInfo(v).Applied
	lost := func(text string, args ...any) error {
		return &StartError{ExitCorruptLog, reseed(n.cfg, "this disk has lost data", fmt.Errorf(text, args...))}
	}
	if _, err := n.log.GetUint64([]byte(keyTerm)); err != nil && (state > 0 || snap.ID != "") {
		return lost("there is a state but no Raft log")
	}
	if newest := max(last, snap.Applied); state > newest {
		return lost("the state has entry %d, log and snapshots end at %d", state, newest)
	}
	if state < snap.Applied {
		return lost("the state ends at entry %d, the newest snapshot has %d", state, snap.Applied)
	}
	if last > 0 && first > snap.Index+1 {
		return lost("the log begins at entry %d, the newest snapshot ends at %d", first, snap.Index)
	}
	conflict, err := n.log.conflicts(snap.Index, snap.Term)
	if err != nil {
		return err
	}
	if conflict || last < snap.Index {
		return n.log.wipe()
	}
	return nil
}

// start builds everything above the log and lets raft run.
func (n *Node) start(m machine) error {
	n.snaps = newSnapshots(n.cfg.Home)
	if err := n.checkFit(); err != nil {
		return err
	}
	logger := newRaftLogger(n.cfg.Logger)
	n.applier = &applier{
		home: n.cfg.Home, machine: m, snaps: n.snaps, log: n.log, guard: n.log.guard,
		fatal: n.fatal, events: n.cfg.Events, restored: n.cfg.Restored, applied: &watermark{},
	}
	n.applier.applied.set(appliedIndex(n.cfg.Home))
	n.leading = newLeadership(n.log.selfVote.Load, func() uint64 { return n.running.Load().CurrentTerm() })
	n.log.ahead = n.needsOthers
	n.transport = newTransport(n.cfg, n.resolve, n.isMember, ownEntries{n.log, n.snaps}, logger)
	var err error
	n.raft, err = raft.NewRaft(n.raftConfig(logger), n.applier, n.log, n.log, n.snaps, n.transport)
	if err != nil {
		return errors.Join(fmt.Errorf("start raft: %w", err), n.transport.Close())
	}
	n.running.Store(n.raft)
	n.log.enter(guardArmed)
	n.confirmer.ask = n.confirmRound
	n.batch = newBatcher(n.raft, n.cfg.Now, n.cfg.ElectionTimeout)
	n.batch.attest = n.cfg.Attest
	n.snapshotter = &snapshotter{
		raft: n.raft, home: n.cfg.Home, snaps: n.snaps, log: n.log,
		every: n.cfg.SnapshotBytes, trailing: n.cfg.TrailingBytes, warn: n.cfg.Logger.Warn,
	}
	go n.leading.run()
	go n.batch.run()
	n.tasks.Go(func() { n.snapshotter.run(n.ctx) })
	n.tasks.Go(func() { n.observe(n.ctx) })
	return nil
}

func (n *Node) raftConfig(logger *raftLogger) *raft.Config {
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(n.cfg.Name)
	c.HeartbeatTimeout = n.cfg.ElectionTimeout
	c.ElectionTimeout = n.cfg.ElectionTimeout
	c.LeaderLeaseTimeout = n.cfg.ElectionTimeout / 2
	c.CommitTimeout = commitTimeout
	c.MaxAppendEntries = maxAppendEntries
	// Group commit is ours. Behind a buffer the time-out of a proposal would bound
	// nothing, and what lies in it at shutdown is never answered.
	c.BatchApplyCh = false
	c.SnapshotInterval = never
	c.SnapshotThreshold = math.MaxUint64
	c.TrailingLogs = minTrailing
	// The state is durable by itself; raft replays the log onto it.
	c.NoSnapshotRestoreOnStart = true
	c.ShutdownOnRemove = true // and Removed tells
	c.NotifyCh = n.leading.notify
	c.NoLegacyTelemetry = true
	c.Logger = logger
	return c
}

// resolve finds the address to dial, also while raft is still starting.
func (n *Node) resolve(name string) (string, bool) {
	if n.cfg.Resolve != nil {
		if a, ok := n.cfg.Resolve(name); ok {
			return a, true
		}
	}
	for _, s := range n.configuration() {
		if string(s.ID) == name {
			return string(s.Address), true
		}
	}
	return "", false
}

// isMember reports whether a server is in the configuration, or might be as long
// as there is none.
func (n *Node) isMember(name string) bool {
	servers := n.configuration()
	return len(servers) == 0 || slices.ContainsFunc(servers, func(s raft.Server) bool { return string(s.ID) == name })
}

// needsOthers reports whether nothing is committed without the answer of another
// server: a quorum holds at least one of them.
func (n *Node) needsOthers() bool {
	return slices.ContainsFunc(n.configuration(), func(s raft.Server) bool {
		return s.Suffrage == raft.Voter && string(s.ID) != n.cfg.Name
	})
}

// configuration returns the newest one, also while raft is still starting.
func (n *Node) configuration() []raft.Server {
	r := n.running.Load()
	if r == nil {
		return nil
	}
	f := r.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	return f.Configuration().Servers
}

// Close stops the replica and waits for everything it started. Commands in
// flight get a moment to come through; what waits is refused.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.shutdown() })
	return n.closeErr
}

func (n *Node) shutdown() error {
	n.batch.close()
	n.cancel()
	n.futuresMu.Lock()
	n.closed = true
	n.futuresMu.Unlock()
	// Raft may drop what it has handed to apply, without an answer, so whoever
	// waits should have got it before.
	waitAtMost(2*n.cfg.ElectionTimeout, n.futures.Wait)
	n.log.enter(guardClosing)
	stopped := n.raft.Shutdown()
	n.transport.kill() // or raft waits for answers of peers
	err := stopped.Error()
	err = errors.Join(err, n.transport.Close())
	n.leading.close()
	n.applier.close()
	n.tasks.Wait()
	n.confirmer.rounds.Wait()
	n.asks.Wait()
	return errors.Join(err, n.closeLog())
}

func (n *Node) closeLog() error {
	_ = n.log.appender.drain() // an error has been told
	err := n.log.backend.Close()
	n.log.guard.close()
	return err
}

// waitAtMost calls wait, but goes on after a limit.
func waitAtMost(limit time.Duration, wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	select {
	case <-done:
	case <-time.After(limit):
	}
}

var _ raft.SnapshotStore = (*snapshots)(nil)
var _ raft.BatchingFSM = (*applier)(nil)
var _ raft.LogStore = (*logStore)(nil)
var _ raft.StableStore = (*logStore)(nil)
