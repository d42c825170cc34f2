// Package rpc carries frames between axd processes: one port for Raft and RPC,
// connections that call both ways, and the messages of a worker's session.
//
// The package imports none of axd's other packages, and the caller injects how
// to dial and listen, so that simulation and chaos tests can stand in between.
package rpc
