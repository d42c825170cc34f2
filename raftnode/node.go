package raftnode

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// Config is what a replica needs. Zero durations and sizes take their defaults.
// The functions may be called before Open returns.
type Config struct {
	Name    string // the server's stable id
	Address string // host:port that others dial, put into Raft's configuration as a hint
	DataDir string // raft.db lives here; the store's home beside it
	// Log takes the place of raft.db; it is closed with the node, or by a failed
	// Open. Nil: raft.db in DataDir.
	Log    LogBackend
	Logger *slog.Logger
	Home   *store.Home // closed by the caller, after the node

	// Listener yields Raft's connections; Dial opens one to a server by name.
	Listener net.Listener
	Dial     func(ctx context.Context, name, address string) (net.Conn, error)
	// Resolve returns a server's present address, if it is known; otherwise the
	// one in Raft's configuration is used. Nil knows none.
	Resolve func(name string) (address string, ok bool)
	Peers   Peers

	// Now is the cluster's clock, Unix ms: it stamps entries while this server
	// leads. At 0 the clock is not agreed yet, and proposals are refused.
	Now func() int64
	// Attest returns who vouches for the stamp that Now just gave, or nil where the
	// state needs to be told nothing; see fsm.Attestation. Nil never tells it.
	Attest func(at int64) *fsm.Attestation
	// Events takes what apply reports, after it was committed to the store. It
	// is called by one goroutine, in order, and must not block. Only the current
	// leader has use for them.
	Events func(meta fsm.Meta, events []fsm.Event)
	// Restored is called after the whole state was replaced.
	Restored func()
	// Fatal ends the process; tests replace it. It does not return in production.
	// It is called at most once.
	Fatal func(code int, err error)

	ElectionTimeout time.Duration // default 1s; heartbeat time-out equals it
	SnapshotBytes   int64         // of log between snapshots; default 16 MiB
	TrailingBytes   int64         // of log kept behind a snapshot; default 8 MiB
	StallLimit      time.Duration // a store call longer than this ends the process; default 5s
}

// Peers asks other servers; the server package implements it over rpc.
type Peers interface {
	// Term returns the current term of a voter, asked now.
	Term(ctx context.Context, name, address string) (uint64, error)
	// ReadIndex asks the leader for an index to read at.
	ReadIndex(ctx context.Context, name, address string) (uint64, error)
}

// Term is a change of leadership as seen by this server.
type Term struct {
	Number  uint64
	Leading bool
}

// Server is a member of Raft's configuration.
type Server struct {
	Name    string
	Address string
	Voter   bool
}

// The exit codes with which Fatal is called, and which a StartError carries.
const (
	ExitLogFailed   = 70 // the log or stable store returned an error
	ExitLogStalled  = 71 // a call to them took longer than StallLimit
	ExitCorruptLog  = 72 // an entry's checksum is wrong
	ExitStateFailed = 73 // the state store failed
	ExitDiverged    = 74 // two other servers agree against this one's hash chain
	ExitUnknownVerb = 75 // an entry this build can't apply
	ExitReseed      = 76 // a snapshot was received inside a conflicting log: restart, the log was wiped
	ExitStuck       = 77 // a leadership transfer never ended
	ExitRemoved     = 78 // the cluster goes on without this server
	ExitDiskFull    = 79 // the disk has no room left
	ExitForeign     = 80 // the data directory is of another cluster than the one to join
)

// ExitCode returns the code to end with for an error that by itself has the
// given one: a full disk shows in many places and asks for one answer.
func ExitCode(code int, err error) int {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return ExitDiskFull
	}
	return code
}

// Node is a running replica.
type Node struct {
	cfg Config
	log *logStore

	raft        *raft.Raft
	running     atomic.Pointer[raft.Raft] // set once, for goroutines older than Open's return
	transport   *transport
	snaps       *snapshots
	applier     *applier
	batch       *batcher
	leading     *leadership
	snapshotter *snapshotter
	confirmer   confirmer
	watching    atomic.Bool // a transfer
	removed     chan struct{}

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	tasks  sync.WaitGroup // goroutines that end with ctx
	asks   sync.WaitGroup // questions to peers

	futuresMu sync.Mutex
	closed    bool
	futures   sync.WaitGroup // goroutines that wait for raft's answers

	fatalOnce sync.Once
	closeOnce sync.Once
	closeErr  error
}

func (c Config) complete() (Config, error) {
	switch {
	case c.Name == "", c.Address == "", c.DataDir == "":
		return c, errors.New("raftnode: Name, Address and DataDir must be set")
	case c.Home == nil, c.Listener == nil, c.Dial == nil, c.Peers == nil, c.Now == nil, c.Fatal == nil:
		return c, errors.New("raftnode: Home, Listener, Dial, Peers, Now and Fatal must be set")
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.ElectionTimeout = cmp.Or(c.ElectionTimeout, time.Second)
	c.SnapshotBytes = cmp.Or(c.SnapshotBytes, 16<<20)
	c.TrailingBytes = cmp.Or(c.TrailingBytes, 8<<20)
	c.StallLimit = cmp.Or(c.StallLimit, 5*time.Second)
	return c, nil
}

// fatal ends the process, saying why.
func (n *Node) fatal(code int, err error) {
	n.fatalOnce.Do(func() { n.cfg.Fatal(ExitCode(code, err), err) })
}

// Empty reports whether the replica holds no log entry and no snapshot. One that
// has only voted is empty, though it has state.
func (n *Node) Empty() bool {
	_, last := n.log.index.bounds()
	return last == 0 && n.snaps.latest().ID == ""
}

// HasState reports whether the replica has ever been part of a cluster.
func (n *Node) HasState() bool { return n.raft.CurrentTerm() > 0 || n.raft.LastIndex() > 0 }

// Bootstrap gives an empty replica its first configuration. All servers named
// must be given the same one, or only one of them any. On a replica that has
// state it is a conflict.
func (n *Node) Bootstrap(servers []Server) error {
	var c raft.Configuration
	for _, s := range servers {
		suffrage := raft.Nonvoter
		if s.Voter {
			suffrage = raft.Voter
		}
		c.Servers = append(c.Servers, raft.Server{ID: raft.ServerID(s.Name), Address: raft.ServerAddress(s.Address), Suffrage: suffrage})
	}
	err := n.await(n.ctx, func() raft.Future { return n.raft.BootstrapCluster(c) })
	if errors.Is(err, raft.ErrCantBootstrap) {
		return job.Conflict("server", "is already part of a cluster", n.cfg.Name)
	}
	return err
}

// Propose commits a command and returns its result. Errors are *job.Error:
// no_leader, overloaded and too_large mean not committed; unknown_outcome means
// that it may have been; everything else lives in the result.
func (n *Node) Propose(ctx context.Context, command []byte) (fsm.Result, error) {
	if n.raft.State() != raft.Leader {
		return fsm.Result{}, errNotLeading
	}
	type answer struct {
		result fsm.Result
		err    error
	}
	answered := make(chan answer, 1)
	p := &proposal{command: command, done: func(r fsm.Result, err error) { answered <- answer{r, err} }}
	n.batch.add(p)
	select {
	case a := <-answered:
		return a.result, a.err
	case <-ctx.Done():
		if p.abandon() {
			return fsm.Result{}, errNotInTime
		}
		return fsm.Result{}, errUnknown
	}
}

// ProposeAsync is Propose without waiting: done is called once, on a goroutine
// that must not be blocked. It fails at once, by calling done, when the queue
// is full. Commands of one caller are applied in the order of its calls.
func (n *Node) ProposeAsync(command []byte, done func(fsm.Result, error)) {
	n.propose(&proposal{command: command, done: done})
}

// ProposePatiently is ProposeAsync for what nobody waits for: it may wait some
// milliseconds for others, to be committed with them.
func (n *Node) ProposePatiently(command []byte, done func(fsm.Result, error)) {
	n.propose(&proposal{command: command, patient: true, done: done})
}

func (n *Node) propose(p *proposal) {
	if n.raft.State() != raft.Leader {
		p.done(fsm.Result{}, errNotLeading)
		return
	}
	n.batch.add(p)
}

// Barrier returns once everything committed before the call is applied here.
// Only the leader can.
func (n *Node) Barrier(ctx context.Context) error {
	if n.raft.State() != raft.Leader {
		return errNotLeading
	}
	err := n.await(ctx, func() raft.Future { return n.raft.Barrier(n.cfg.ElectionTimeout) })
	var known *job.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	// A barrier has no effect, so it needs no unknown outcome.
	return job.Errorf(job.CodeNoLeader, "the barrier was not reached: "+err.Error())
}

// await starts something in raft and waits for its answer, as long as ctx
// allows: raft's own time-outs cover only the way into its main loop.
func (n *Node) await(ctx context.Context, start func() raft.Future) error {
	n.futuresMu.Lock()
	if n.closed {
		n.futuresMu.Unlock()
		return errStopping
	}
	answered := make(chan error, 1)
	n.futures.Go(func() { answered <- start().Error() })
	n.futuresMu.Unlock()
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return deadline(ctx)
	case <-n.ctx.Done():
		return errStopping
	}
}

// View opens a reader of the applied state.
func (n *Node) View() store.View { return n.cfg.Home.State().View() }

// Terms yields leadership changes, the newest state last; intermediate ones may
// be merged but a lost and regained leadership is never merged away. One
// reader. Close closes it.
func (n *Node) Terms() <-chan Term { return n.leading.out }

// Removed is closed when this server finds out that it is no longer a member of
// the cluster: a few election time-outs after the removal, or once it reaches a
// quorum of those whom it knows as voters.
func (n *Node) Removed() <-chan struct{} { return n.removed }

// Leader returns the leader's name and address as this server knows it; empty
// when there is none.
func (n *Node) Leader() (name, address string) {
	_, id := n.raft.LeaderWithID()
	switch string(id) {
	case "":
		return "", ""
	case n.cfg.Name:
		return n.cfg.Name, n.cfg.Address
	}
	return string(id), n.address(string(id), "")
}

// address returns a server's present address, or else the hint, or else the one
// in Raft's configuration.
func (n *Node) address(name, hint string) string {
	if n.cfg.Resolve != nil {
		if a, ok := n.cfg.Resolve(name); ok {
			return a
		}
	}
	if hint != "" {
		return hint
	}
	s, _ := n.server(name)
	return s.Address
}

// Term returns the current term.
func (n *Node) Term() uint64 { return n.raft.CurrentTerm() }

// Applied returns the index of the last entry applied to the state.
func (n *Node) Applied() uint64 { return n.applier.applied.get() }
