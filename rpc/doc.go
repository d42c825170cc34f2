// Package rpc carries frames between axd processes: one port for Raft and RPC,
// connections that call both ways, and the messages of a worker's session.
//
// A frame is a 4-byte big-endian length, a msgpack header (kind, call id,
// method) and the message's own msgpack; it is at most MaxFrame bytes. A
// connection opens with one protocol byte and a Hello from each side.
//
// Everything is bounded: calls in flight, queued bytes, chunks of a stream that
// wait for their reader, connections of a Mux. What is full makes the sender
// wait until its context ends, or is refused with code "overloaded".
//
// A connection whose peer is silent for IdleTimeout is dead: both sides send a
// ping after PingInterval without traffic, so that a peer that vanished without
// a reset is noticed.
//
// The package imports none of axd's other packages, and the caller injects how
// to dial and listen, so that simulation and chaos tests can stand in between.
package rpc
