// Package raftnode runs one Raft replica: hashicorp/raft with a checked log, a
// hardened transport, group commit, linearizable reads, leadership by term, and
// snapshots that are checkpoints.
package raftnode
