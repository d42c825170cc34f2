package raftnode

import (
	"context"
	"log/slog"
	"net"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/store"
)

// Config is what a replica needs. Zero durations and sizes take the defaults
// that Open documents.
type Config struct {
	Name    string // the server's stable id
	Address string // host:port that others dial, put into Raft's configuration as a hint
	DataDir string // raft.db lives here; the store's home beside it
	Logger  *slog.Logger
	Home    *store.Home

	// Listener yields Raft's connections; Dial opens one to a server by name.
	Listener net.Listener
	Dial     func(ctx context.Context, name, address string) (net.Conn, error)
	Peers    Peers

	// Now is the cluster's clock, Unix ms: it stamps entries while this server leads.
	Now func() int64
	// Events takes what apply reports, after it was committed to the store. It
	// is called by one goroutine, in order, and must not block. Only the current
	// leader has use for them.
	Events func(meta fsm.Meta, events []fsm.Event)
	// Restored is called after the whole state was replaced.
	Restored func()
	// Fatal ends the process; tests replace it. It does not return in production.
	Fatal func(code int, err error)

	ElectionTimeout time.Duration // default 1s; heartbeat time-out equals it
	SnapshotBytes   int64         // of log between snapshots; default 64 MiB
	TrailingBytes   int64         // of log kept behind a snapshot; default 16 MiB
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

// The exit codes with which Fatal is called.
const (
	ExitLogFailed   = 70 // the log or stable store returned an error
	ExitLogStalled  = 71 // a call to them took longer than StallLimit
	ExitCorruptLog  = 72 // an entry's checksum is wrong
	ExitStateFailed = 73 // the state store failed
	ExitDiverged    = 74 // two other servers agree against this one's hash chain
	ExitUnknownVerb = 75 // an entry this build can't apply
	ExitReseed      = 76 // a snapshot was received inside a conflicting log: restart, the log was wiped
	ExitStuck       = 77 // a leadership transfer never ended
)

// Node is a running replica.
type Node struct{}

// Open starts the replica on what DataDir holds.
func Open(cfg Config) (*Node, error) { panic("to be written") }

// HasState reports whether the replica has ever been part of a cluster.
func (n *Node) HasState() bool { panic("to be written") }

// Bootstrap gives an empty replica its first configuration.
func (n *Node) Bootstrap(servers []Server) error { panic("to be written") }

// Propose commits a command and returns its result. Errors are *job.Error:
// no_leader and overloaded mean not committed; unknown_outcome means that it
// may have been; everything else lives in the result.
func (n *Node) Propose(ctx context.Context, command []byte) (fsm.Result, error) {
	panic("to be written")
}

// ProposeAsync is Propose without waiting: done is called once, on a goroutine
// that must not be blocked. It fails at once, by calling done, when the queue
// is full.
func (n *Node) ProposeAsync(command []byte, done func(fsm.Result, error)) { panic("to be written") }

// Barrier returns once everything committed before the call is applied here.
// Only the leader can.
func (n *Node) Barrier(ctx context.Context) error { panic("to be written") }

// ConfirmLeadership returns the current term once a quorum of voters, asked
// after the call, still has it. One confirmation serves all that wait.
func (n *Node) ConfirmLeadership(ctx context.Context) (term uint64, err error) {
	panic("to be written")
}

// ReadIndex is ConfirmLeadership plus the commit index it covers.
func (n *Node) ReadIndex(ctx context.Context) (uint64, error) { panic("to be written") }

// ReadBarrier returns once a local read is linearizable: on the leader by
// ReadIndex, elsewhere by asking the leader, then by waiting for apply.
func (n *Node) ReadBarrier(ctx context.Context) error { panic("to be written") }

// View opens a reader of the applied state.
func (n *Node) View() store.View { panic("to be written") }

// Terms yields leadership changes, the newest state last; intermediate ones may
// be merged but a lost and regained leadership is never merged away. One reader.
func (n *Node) Terms() <-chan Term { panic("to be written") }

// Leader returns the leader's name and address as this server knows it; empty
// when there is none.
func (n *Node) Leader() (name, address string) { panic("to be written") }

// Term returns the current term.
func (n *Node) Term() uint64 { panic("to be written") }

// Applied returns the index of the last entry applied to the state.
func (n *Node) Applied() uint64 { panic("to be written") }

// Servers returns the current configuration.
func (n *Node) Servers() ([]Server, error) { panic("to be written") }

// AddServer adds a non-voter; a later call for a caught-up one promotes it.
func (n *Node) AddServer(ctx context.Context, s Server) error { panic("to be written") }

// RemoveServer removes a server.
func (n *Node) RemoveServer(ctx context.Context, name string) error { panic("to be written") }

// Transfer hands leadership to another caught-up voter, or to the named one.
func (n *Node) Transfer(ctx context.Context, to string) error { panic("to be written") }

// Stats returns figures for /metrics and axd cluster status.
func (n *Node) Stats() map[string]float64 { panic("to be written") }

// Close stops the replica and waits for everything it started.
func (n *Node) Close() error { panic("to be written") }
