// Package cluster tells who is there: gossip membership by memberlist, and the
// liveness of servers and workers as a hint. What must be right (leases, votes,
// the members of the state machine) is decided elsewhere, by Raft.
//
// Every process joins under a name of its own, made of role, name and a random
// boot id, so that a restart is a new member at once, even behind another
// address; what people call it travels in the member's metadata. Gossip is not
// authenticated: everything learned from it is checked for form and trusted no
// further.
package cluster
