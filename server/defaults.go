package server

import "time"

// The defaults of the settings. They stand here alone; docs/reference/config.md
// gives the reasons.
const (
	DefaultDataDir         = "./axd-data"
	DefaultHTTP            = "127.0.0.1:7480"
	DefaultRPC             = "127.0.0.1:7481"
	DefaultGossip          = "127.0.0.1:7482"
	DefaultRaftMultiplier  = 1
	DefaultElectionTimeout = time.Second
	DefaultLeaseTTL        = 10 * time.Second
	DefaultRetention       = 7 * 24 * time.Hour
	DefaultMaxClockSkew    = 500 * time.Millisecond
	DefaultSnapshotBytes   = 16 << 20
)

// The bounds of the settings.
const (
	maxMultiplier   = 10
	maxBootstrap    = 9
	minElection     = 100 * time.Millisecond
	maxElection     = 10 * time.Second
	leastClockSkew  = 10 * time.Millisecond // below it lies what asking over a network can't tell
	mostClockSkew   = 30 * time.Second      // well below fsm.MaxForward
	leasePerTimeout = 4                     // a lease must outlive this many election time-outs
	easyLease       = 6                     // and does so many where nothing else is said
	mostLease       = time.Hour
)
