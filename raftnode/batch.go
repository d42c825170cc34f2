package raftnode

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/internal/mutant"
	"github.com/axd-project/axd/job"
)

// The limits of group commit.
const (
	maxQueued       = 8192     // commands that wait to be put into an entry
	maxQueuedBytes  = 64 << 20 // of them
	maxEntryCommand = 1000     // commands in one entry
	maxCommandBytes = 4 << 20  // of one command, which then is an entry alone
	maxInFlight     = 4        // entries proposed and not yet committed
	// gatherAtLeast is how many commands must wait before another entry is sent
	// while one is in flight: fewer gain nothing over joining the next one.
	gatherAtLeast = 8
	// patience is how long after an entry patient commands wait for others to join
	// them: at a steady trickle an entry costs more than what it holds.
	patience = 5 * time.Millisecond
	// commandOverhead is an encoded command's cost in an entry beyond its bytes.
	commandOverhead = 5
	entryHead       = 32
	// commitTimeouts times the election time-out is how long a proposer waits for
	// an entry; then the outcome is unknown.
	commitTimeouts = 10
	pausePoll      = 5 * time.Millisecond
)

// logApplier is what group commit needs of raft.
type logApplier interface {
	ApplyLog(l raft.Log, timeout time.Duration) raft.ApplyFuture
}

// proposal is a command and who waits for its result.
type proposal struct {
	command []byte
	patient bool // nobody waits for it: it may wait for others
	since   time.Time
	done    func(fsm.Result, error)
	state   atomic.Int32
}

// The states of a proposal: it is either taken into an entry or abandoned.
const (
	proposalQueued int32 = iota
	proposalTaken
	proposalAbandoned
)

// abandon withdraws a proposal that is in no entry yet; it reports whether that
// came in time.
func (p *proposal) abandon() bool {
	return p.state.CompareAndSwap(proposalQueued, proposalAbandoned)
}

func (p *proposal) take() bool { return p.state.CompareAndSwap(proposalQueued, proposalTaken) }

// batcher gathers commands into entries: one command goes out at once when
// nothing is in flight, and while entries are in flight the next one fills.
// Patient ones fill it for a moment longer. Commands keep the order in which they
// were added.
type batcher struct {
	raft     logApplier
	now      func() int64
	attest   func(at int64) *fsm.Attestation // nil: none is needed
	election time.Duration

	mu     sync.Mutex
	queue  []*proposal
	bytes  int
	last   time.Time // when an entry was made
	closed bool
	paused bool

	wake     chan struct{}
	finished chan struct{}
	stop     chan struct{}
	done     chan struct{}
	waiters  sync.WaitGroup

	inFlight atomic.Int32
	entries  atomic.Uint64
	commands atomic.Uint64
	refused  atomic.Uint64
}

func newBatcher(r logApplier, now func() int64, election time.Duration) *batcher {
	return &batcher{
		raft: r, now: now, election: election,
		wake:     make(chan struct{}, 1),
		finished: make(chan struct{}, maxInFlight),
		stop:     make(chan struct{}),
		done:     make(chan struct{}),
	}
}

var (
	errNotLeading = job.Errorf(job.CodeNoLeader, "this server does not lead")
	errStopping   = job.Errorf(job.CodeNoLeader, "this server is stopping")
	errQueueFull  = job.Errorf(job.CodeOverloaded, "too many commands wait to be committed; try again")
	errNotInTime  = job.Errorf(job.CodeOverloaded, "the command was not proposed in time; try again")
	errReplacing  = job.Errorf(job.CodeNoLeader, "the whole state is being replaced by a restore; try again")
	errUnknown    = job.Errorf(job.CodeUnknownOutcome, "the command may or may not have been committed")
)

// add queues a proposal. Its done is called here when the queue is full.
func (b *batcher) add(p *proposal) {
	if err := b.enqueue(p); err != nil {
		b.refused.Add(1)
		p.done(fsm.Result{}, err)
		return
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *batcher) enqueue(p *proposal) *job.Error {
	if len(p.command) > maxCommandBytes {
		return job.Errorf(job.CodeTooLarge, "a command must have at most 4 MiB")
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return errStopping
	case b.paused:
		return errReplacing
	case len(b.queue) >= maxQueued, b.bytes+len(p.command) > maxQueuedBytes:
		return errQueueFull
	}
	p.since = time.Now()
	b.queue = append(b.queue, p)
	b.bytes += len(p.command)
	return nil
}

// run proposes until close.
func (b *batcher) run() {
	defer close(b.done)
	tick := time.NewTicker(b.election / 2)
	defer tick.Stop()
	gathered := time.NewTimer(patience)
	defer gathered.Stop()
	for {
		select {
		case <-b.stop:
			return
		case <-b.wake:
		case <-gathered.C:
		case <-b.finished:
			b.inFlight.Add(-1)
		case <-tick.C:
			b.expire(time.Now().Add(-2 * b.election))
		}
		wait := b.ready()
		for ; wait == 0; wait = b.ready() {
			b.propose()
		}
		if wait > 0 {
			gathered.Reset(wait)
		}
	}
}

// ready tells in how long an entry is to be made of what waits; negative: once
// something else has happened.
func (b *batcher) ready() time.Duration {
	select {
	case <-b.stop:
		return -1
	default:
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	inFlight := b.inFlight.Load()
	switch {
	case len(b.queue) == 0, inFlight >= maxInFlight:
		return -1
	case len(b.queue) >= gatherAtLeast, b.bytes >= fsm.MaxEntryBytes:
		return 0
	case inFlight > 0:
		return -1
	case slices.ContainsFunc(b.queue, func(p *proposal) bool { return !p.patient }):
		return 0
	}
	return max(time.Until(b.last.Add(patience)), 0)
}

// gather takes commands for one entry off the queue.
func (b *batcher) gather() []*proposal {
	b.mu.Lock()
	defer b.mu.Unlock()
	size, n := entryHead, 0
	var taken []*proposal
	for _, p := range b.queue {
		cost := len(p.command) + commandOverhead
		if len(taken) > 0 && (size+cost > fsm.MaxEntryBytes || len(taken) == maxEntryCommand) {
			break
		}
		n++
		b.bytes -= len(p.command)
		if p.take() {
			taken = append(taken, p)
			size += cost
		}
	}
	b.drop(n)
	if len(taken) > 0 {
		b.last = time.Now()
		b.inFlight.Add(1) // under the lock, so that pause sees it
	}
	return taken
}

// drop removes the first n of the queue, without keeping them reachable.
func (b *batcher) drop(n int) {
	rest := copy(b.queue, b.queue[n:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
}

func (b *batcher) propose() {
	taken := b.gather()
	if len(taken) == 0 {
		return
	}
	at := b.now()
	if at == 0 {
		b.inFlight.Add(-1)
		b.answer(taken, job.Errorf(job.CodeNoLeader, "the cluster's clock is not agreed yet"))
		return
	}
	commands := make([][]byte, len(taken))
	for i, p := range taken {
		commands[i] = p.command
	}
	data, err := fsm.EncodeEntry(fsm.Entry{At: at, Attest: b.vouchers(at), Commands: commands})
	if err != nil {
		b.inFlight.Add(-1)
		b.answer(taken, job.AsError(err))
		return
	}
	future := b.raft.ApplyLog(raft.Log{Data: data}, b.election)
	b.entries.Add(1)
	b.commands.Add(uint64(len(taken)))
	b.waiters.Go(func() { b.await(taken, future) })
}

// vouchers is who vouches for an entry's time, where that is needed.
func (b *batcher) vouchers(at int64) *fsm.Attestation {
	if b.attest == nil {
		return nil
	}
	return b.attest(at)
}

// await delivers an entry's results. Raft's future may never answer, so the
// callers get theirs in bounded time, but the entry counts as in flight until
// raft has let go of it: otherwise a stuck raft would be fed without end.
func (b *batcher) await(taken []*proposal, future raft.ApplyFuture) {
	answered := make(chan error, 1)
	go func() { answered <- future.Error() }() // ends with raft, see Node.Close
	limit := time.NewTimer(commitTimeouts * b.election)
	defer limit.Stop()
	select {
	case err := <-answered:
		b.deliver(taken, future, err)
		b.finished <- struct{}{}
		return
	case <-limit.C:
	case <-b.done:
		select { // closing, but the entry may still come through
		case err := <-answered:
			b.deliver(taken, future, err)
			return
		case <-time.After(2 * b.election):
		}
	}
	b.answer(taken, errUnknown)
	select {
	case <-answered: //nolint:errcheck // the callers have had their answer
		b.finished <- struct{}{}
	case <-b.done:
	}
}

func (b *batcher) deliver(taken []*proposal, future raft.ApplyFuture, err error) {
	if err != nil && mutant.AckUncommitted && errors.Is(err, raft.ErrLeadershipLost) {
		for _, p := range taken {
			p.done(fsm.Result{}, nil)
		}
		return
	}
	if err != nil {
		b.answer(taken, classify(err))
		return
	}
	results, ok := future.Response().([]fsm.Result)
	if !ok || len(results) != len(taken) {
		b.answer(taken, errUnknown) // the process is being ended by apply
		return
	}
	for i, p := range taken {
		if refused := results[i].Err; refused != nil && refused.Code == job.CodeNoLeader {
			p.done(fsm.Result{}, refused) // apply did nothing, as if it had never been committed
			continue
		}
		p.done(results[i], nil)
	}
}

func (b *batcher) answer(taken []*proposal, err *job.Error) {
	for _, p := range taken {
		p.done(fsm.Result{}, err)
	}
}

// classify tells what an error of raft says about an entry's fate. Three are
// given before anything is written; after every other one the entry may be in
// some server's log, and the next leader may commit it.
func classify(err error) *job.Error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return errNotLeading
	case errors.Is(err, raft.ErrEnqueueTimeout):
		return job.Errorf(job.CodeNoLeader, "the leader's log is too slow to take the command")
	case errors.Is(err, raft.ErrLeadershipTransferInProgress):
		return job.Errorf(job.CodeNoLeader, "leadership is being handed over")
	}
	return job.Errorf(job.CodeUnknownOutcome, "the command may or may not have been committed: "+err.Error())
}

// expire answers those that have waited since before a time: no entry will be
// made of them, so they are known not to be committed.
func (b *batcher) expire(before time.Time) {
	b.mu.Lock()
	n := 0
	var late []*proposal
	for _, p := range b.queue {
		if p.since.After(before) {
			break
		}
		n++
		b.bytes -= len(p.command)
		if p.abandon() {
			late = append(late, p)
		}
	}
	b.drop(n)
	b.mu.Unlock()
	b.answer(late, errNotInTime)
}

// pause refuses what waits and what comes until resume. It returns nil once no
// entry is in flight.
func (b *batcher) pause(ctx context.Context) error {
	b.mu.Lock()
	b.paused = true
	b.mu.Unlock()
	b.refuse(errReplacing)
	tick := time.NewTicker(pausePoll)
	defer tick.Stop()
	for b.inFlight.Load() > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return deadline(ctx)
		}
	}
	return nil
}

// resume ends a pause.
func (b *batcher) resume() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.paused = false
}

// refuse answers everything that is in no entry yet.
func (b *batcher) refuse(err *job.Error) {
	b.mu.Lock()
	rest := b.queue
	b.queue, b.bytes = nil, 0
	b.mu.Unlock()
	for _, p := range rest {
		if p.abandon() {
			p.done(fsm.Result{}, err)
		}
	}
}

// close refuses what waits and gives what is in flight a moment to come
// through. It must be called before raft is shut down.
func (b *batcher) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	close(b.stop)
	<-b.done
	b.refuse(errStopping)
	b.waiters.Wait()
}
