// Package store makes the state machine's transaction durable: Pebble on disk,
// and an ordered tree in memory for tests and simulation. Both pass one
// conformance suite.
//
// The write-ahead log is off, since the Raft log is the log: each batch carries
// the applied index, and a restart replays the Raft log from there. A Home owns
// the directories of the live state and of the snapshots.
package store
