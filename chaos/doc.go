// Package chaos makes a cluster live through faults and checks that it kept its
// promises.
//
// Its simulation runs whole servers and workers in one process, under virtual
// time: the real server, raft, store, scheduler, API, client and worker, on a
// network, disks, clocks and a gossip in memory, inside a bubble of
// testing/synctest. A Plan, drawn from a seed, says what goes wrong and when;
// callers meanwhile submit, cancel and move tasks. Everything that the outside
// saw goes into a Ledger, and Check compares it, afterwards, with the states and
// logs of all servers. A fault that did not act, or a run with too few calls,
// fails like a broken promise: what tested nothing must not pass.
//
// A seed gives the same plan again, though not the same interleaving: raft and
// Go's scheduler draw at random for themselves. Run a failing seed some times.
package chaos
