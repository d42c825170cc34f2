// Package cluster tells who is there: gossip membership by memberlist, liveness
// of servers and workers as a hint, and the way to the leader.
package cluster
