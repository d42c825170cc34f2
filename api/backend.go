package api

import (
	"context"
	"time"

	"github.com/axd-project/axd/client"
	"github.com/axd-project/axd/fsm"
)

// Backend is the server behind the API. Any server takes any request: Propose
// forwards to the leader, Read waits until a local read is linearizable.
type Backend interface {
	Operations
	// Propose commits a command. Errors are *job.Error, among them no_leader,
	// overloaded and unknown_outcome; a refusal by the state is in the Result.
	Propose(ctx context.Context, c fsm.Command) (fsm.Result, error)
	// Read calls fn with a view of the state: linearizable, or with stale set
	// whatever this server has.
	Read(ctx context.Context, stale bool, fn func(fsm.Reader) error) error
	// Now is the cluster's clock as this server knows it, Unix ms.
	Now() int64
	// Cluster describes servers and leadership; Workers is left empty.
	Cluster(ctx context.Context) (client.Cluster, error)
	// LeaderAddress is host:port of the leader's API; empty where this server leads
	// or can't tell.
	LeaderAddress() string
	// Liveness asks once what the leader and gossip know of the workers. Of each the
	// answer tells whether it is alive, suspect, lost or, after an orderly stop,
	// stopped; and when it was heard of last.
	Liveness(ctx context.Context) func(worker string) (state string, lastSeen time.Time)
	// ReadyTasks is the number of due tasks not yet assigned, -1 when this
	// server isn't the leader.
	ReadyTasks() int64
	// Follow streams an active attempt's output until it ends or ctx does.
	Follow(ctx context.Context, ref fsm.TaskRef, send func(client.LogChunk) error) error
	// Explain asks the leader once what its memory knows of why a task isn't
	// running. Where no leader answers, the error says why: see NoQuorum.
	Explain(ctx context.Context, ref fsm.TaskRef) (Explained, error)
	// SealSecret encrypts a secret's value for state; it fails where this server has no
	// key.
	SealSecret(namespace, name string, value []byte) ([]byte, error)
	// Serving returns nil when this server knows a leader and has caught up.
	Serving(ctx context.Context) error
	// ClockOffsets is how far the wall clocks of the other servers, by name, are
	// ahead of this server's.
	ClockOffsets() map[string]time.Duration
	// Metrics returns gauges by name without the axd_ prefix, for /metrics.
	Metrics() map[string]float64
}
