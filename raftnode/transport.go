package raftnode

import (
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/internal/mutant"
)

// pooledConns bounds the idle connections kept to one server: heartbeats,
// entries, and one spare.
const pooledConns = 3

// rpcTimeouts times the election time-out is how long one exchange with a peer
// may take. Heartbeats wait for the follower's disk, since they have no fast
// path; on the other hand a connection that died silently blocks them so long.
const rpcTimeouts = 3

var (
	errHeld = errors.New("this server's votes are held back")
	// errNotMember travels as text, as all errors of raft's wire do.
	errNotMember = errors.New("the candidate is not a member of the cluster")
)

// transport is raft's network transport, hardened:
//
//   - Heartbeats have no fast path. Handled beside the main loop they let an old
//     leader stamp its entry with a newer term, so that two servers differ at one
//     index (hashicorp/raft#695).
//   - Nothing is pipelined: a pipeline can wedge after a refusal (#612).
//   - Addresses are server names, see stream.
//   - Entries that were damaged on the way are refused before raft sees them.
//   - It follows how far each peer's log reaches, which raft doesn't tell.
//   - A snapshot makes a follower of a candidate, as entries do.
//   - A snapshot of what this server has in its log is not installed, see covers.
//   - Of what a snapshot holds, nothing is refused because the log has it no more.
//   - No more is taken for committed than the request shows to be in the log.
//   - What a peer has taken counts once this server has it on its own disk too;
//     see appender.
//
// Embedding the concrete type keeps the optional interfaces, without which raft
// silently turns PreVote off.
type transport struct {
	*raft.NetworkTransport
	name   raft.ServerAddress
	stream *stream
	rpcs   chan raft.RPC
	held   atomic.Bool // no candidacy while set
	member func(name string) bool
	log    ownLog

	stop     chan struct{}
	stopped  sync.Once
	done     chan struct{}
	draining sync.WaitGroup // snapshots that are not needed

	mu      sync.Mutex
	peers   map[raft.ServerID]*progress
	refused map[string]time.Time // who last answered that this server is no member
}

var (
	_ raft.Transport   = (*transport)(nil)
	_ raft.WithPreVote = (*transport)(nil)
	_ raft.WithClose   = (*transport)(nil)
)

// progress is what a leader knows of a peer's log.
type progress struct {
	term     uint64 // in which the peer answered
	match    uint64 // its log equals the leader's up to here
	heard    time.Time
	installs int // snapshots sent since it last took an entry
}

// ownLog tells when this server's own log is on its disk.
type ownLog interface {
	// durable returns once every entry up to an index is.
	durable(index uint64) error
	// covers tells whether it holds all up to an entry, in a snapshot or behind it.
	covers(index, term uint64) bool
	// compacted is up to where it holds entries in its snapshot alone.
	compacted() uint64
}

// newTransport starts a transport. resolve finds a server's address; member
// tells whether this server knows it as a member.
func newTransport(cfg Config, resolve func(string) (string, bool), member func(string) bool, log ownLog, logger *raftLogger) *transport {
	s := newStream(cfg, resolve)
	t := &transport{
		name:    raft.ServerAddress(cfg.Name),
		stream:  s,
		member:  member,
		log:     log,
		rpcs:    make(chan raft.RPC),
		stop:    make(chan struct{}),
		done:    make(chan struct{}),
		peers:   make(map[raft.ServerID]*progress),
		refused: make(map[string]time.Time),
	}
	t.NetworkTransport = raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		ServerAddressProvider: names{},
		Logger:                logger,
		Stream:                s,
		MaxPool:               pooledConns,
		MaxRPCsInFlight:       1,
		Timeout:               rpcTimeouts * cfg.ElectionTimeout,
	})
	go t.receive()
	return t
}

// names lets raft's transport use a server's name as its address.
type names struct{}

func (names) ServerAddr(id raft.ServerID) (raft.ServerAddress, error) {
	return raft.ServerAddress(id), nil
}

// SetHeartbeatHandler leaves heartbeats to the main loop.
func (t *transport) SetHeartbeatHandler(handle func(raft.RPC)) {
	if mutant.FastHeartbeat {
		t.NetworkTransport.SetHeartbeatHandler(handle)
	}
}

// LocalAddr is the server's name: votes and leaders are known by it.
func (t *transport) LocalAddr() raft.ServerAddress { return t.name }

// Consumer yields the requests that are fit for raft.
func (t *transport) Consumer() <-chan raft.RPC { return t.rpcs }

// receive checks requests on their way to raft.
func (t *transport) receive() {
	defer close(t.done)
	for {
		select {
		case <-t.stop:
			return
		case rpc := <-t.NetworkTransport.Consumer():
			if err := t.check(rpc); err != nil {
				rpc.Respond(nil, err)
				continue
			}
			if !t.pass(rpc) {
				rpc.Respond(nil, raft.ErrTransportShutdown)
				return
			}
		}
	}
}

// pass gives raft a request, or answers a snapshot that it must not have: raft would
// go back to it, whatever of the log is applied. A leader sends such a one after the
// answers to entries were lost or errors. False: the transport ends.
func (t *transport) pass(rpc raft.RPC) bool {
	s, ok := rpc.Command.(*raft.InstallSnapshotRequest)
	if !ok {
		return t.hand(rpc)
	}
	if !t.hand(heartbeatOf(s)) { // raft takes it once it is done with what came before
		return false
	}
	if !t.log.covers(s.LastLogIndex, s.LastLogTerm) {
		return t.hand(rpc)
	}
	t.draining.Go(func() {
		_, err := io.Copy(io.Discard, rpc.Reader) // the answer comes after the last byte
		rpc.Respond(&raft.InstallSnapshotResponse{RPCHeader: s.RPCHeader, Term: s.Term, Success: true}, err)
	})
	return true
}

// hand gives a request to raft; false: the transport ends.
func (t *transport) hand(rpc raft.RPC) bool {
	select {
	case t.rpcs <- rpc:
		return true
	case <-t.stop:
		return false
	}
}

// heartbeatOf is a heartbeat of who sends a snapshot. Its answer goes nowhere. Other
// than entries, a snapshot leaves a candidate of its term one: should its sender die
// then, the candidate would refuse its vote to everybody for the leader's sake, and
// without the newest entries not be elected itself, for ever.
func heartbeatOf(s *raft.InstallSnapshotRequest) raft.RPC {
	return raft.RPC{
		Command:  &raft.AppendEntriesRequest{RPCHeader: s.RPCHeader, Term: s.Term, Leader: s.Leader}, //nolint:staticcheck // of older peers
		RespChan: make(chan raft.RPCResponse, 1),
	}
}

func (t *transport) check(rpc raft.RPC) error {
	switch cmd := rpc.Command.(type) {
	case *raft.AppendEntriesRequest:
		// What this server made as the leader before may come back to it; raft
		// confirms entries that it knows without writing them.
		if err := t.log.durable(math.MaxUint64); err != nil {
			return err
		}
		for _, l := range cmd.Entries {
			if err := checkSeal(l, l.Index); err != nil && !mutant.Unsealed {
				return fmt.Errorf("received %w", err)
			}
		}
		t.trim(cmd)
	case *raft.RequestPreVoteRequest:
		if !t.member(string(cmd.ID)) {
			return errNotMember // raft refuses it too, but doesn't say why
		}
	case *raft.TimeoutNowRequest:
		if t.held.Load() {
			return errHeld
		}
	}
	return nil
}

// trim takes from a request what raft would misjudge.
//
// It would commit up to the leader's commit index or its own last entry, also what
// comes behind the entries of the request, and there may be others than the leader's
// where a disk kept them from being replaced.
//
// And it would refuse entries that a compaction has taken from its log. A leader that
// went back behind its own log sends the newest snapshot that it has, which may be
// older than the follower's own, and goes on from there, again and again. What the
// snapshot holds was committed: there is nothing to compare.
func (t *transport) trim(a *raft.AppendEntriesRequest) {
	a.LeaderCommitIndex = min(a.LeaderCommitIndex, a.PrevLogEntry+uint64(len(a.Entries)))
	if mine := t.log.compacted(); a.PrevLogEntry <= mine {
		a.Entries = a.Entries[min(mine-a.PrevLogEntry, uint64(len(a.Entries))):]
		a.PrevLogEntry, a.PrevLogTerm = 0, 0
	}
}

// AppendEntries replicates, and notes what the peer has.
func (t *transport) AppendEntries(id raft.ServerID, target raft.ServerAddress, args *raft.AppendEntriesRequest, resp *raft.AppendEntriesResponse) error {
	if err := t.NetworkTransport.AppendEntries(id, target, args, resp); err != nil {
		return err
	}
	match := args.PrevLogEntry
	if n := len(args.Entries); n > 0 {
		match = args.Entries[n-1].Index
	}
	if !resp.Success {
		t.rejected(id, args.Term)
		return nil
	}
	if len(args.Entries) > 0 && !mutant.AckUnsynced {
		if err := t.log.durable(match); err != nil {
			return err
		}
	}
	t.heard(id, args.Term, match)
	return nil
}

// rejected notes that a peer lacks what was sent to it, perhaps all: it may have
// lost its log within this term, and must not count as caught up by what its
// earlier life confirmed.
func (t *transport) rejected(id raft.ServerID, term uint64) {
	t.heard(id, term, 0)
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.peers[id]; p.term == term {
		p.match = 0
	}
}

func (t *transport) heard(id raft.ServerID, term, match uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil || p.term < term {
		p = &progress{term: term}
		t.peers[id] = p
	}
	if p.term > term {
		return
	}
	p.heard = time.Now()
	if match > p.match {
		p.match, p.installs = match, 0
	}
}

// InstallSnapshot sends a snapshot. Raft's deadline for it grows with the size;
// the connection fails much earlier when nothing moves.
func (t *transport) InstallSnapshot(id raft.ServerID, target raft.ServerAddress, args *raft.InstallSnapshotRequest, resp *raft.InstallSnapshotResponse, data io.Reader) error {
	t.mu.Lock()
	if p := t.peers[id]; p != nil {
		p.installs++
	}
	t.mu.Unlock()
	return t.NetworkTransport.InstallSnapshot(id, target, args, resp, data)
}

// RequestVote asks for a vote, on a new connection: one that was pooled may
// have been given up by the peer, and a lost request costs an election.
func (t *transport) RequestVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestVoteRequest, resp *raft.RequestVoteResponse) error {
	if t.held.Load() {
		return errHeld
	}
	t.stream.renew(string(id))
	return t.NetworkTransport.RequestVote(id, target, args, resp)
}

// RequestPreVote asks whether a vote would be given.
func (t *transport) RequestPreVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	if t.held.Load() {
		return errHeld
	}
	return t.preVote(id, target, args, resp)
}

// preVote asks, and notes who answers that this server is no member.
func (t *transport) preVote(id raft.ServerID, target raft.ServerAddress, args *raft.RequestPreVoteRequest, resp *raft.RequestPreVoteResponse) error {
	t.stream.renew(string(id))
	err := t.NetworkTransport.RequestPreVote(id, target, args, resp)
	t.mu.Lock()
	defer t.mu.Unlock()
	if err != nil && err.Error() == errNotMember.Error() {
		t.refused[string(id)] = time.Now()
	} else if err == nil {
		delete(t.refused, string(id))
	}
	return err
}

// askMembership makes a server say whether this one is a member. A pre-vote
// changes nothing where it arrives, and its answer goes nowhere.
func (t *transport) askMembership(name string) {
	header := raft.RPCHeader{ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(t.name), Addr: []byte(t.name)}
	var resp raft.RequestPreVoteResponse
	_ = t.preVote(raft.ServerID(name), raft.ServerAddress(name), &raft.RequestPreVoteRequest{RPCHeader: header}, &resp)
}

// refusedSince reports whether a server has said since then that this one is no
// member.
func (t *transport) refusedSince(name string, since time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused[name].After(since)
}

// progressOf returns what is known of a peer in a term.
func (t *transport) progressOf(id raft.ServerID, term uint64) (progress, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.peers[id]
	if p == nil || p.term != term {
		return progress{}, false
	}
	return *p, true
}

// kill ends all connections at once, so that nothing waits for a peer.
func (t *transport) kill() { t.stream.kill() }

// Close ends the transport and waits for what it started. Raft calls it too.
func (t *transport) Close() error {
	var err error
	t.stopped.Do(func() {
		close(t.stop)
		t.CloseStreams()
		err = t.NetworkTransport.Close()
		t.stream.kill()
		<-t.done
		t.draining.Wait()
		t.stream.serving.Wait()
	})
	return err
}
