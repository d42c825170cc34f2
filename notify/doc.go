// Package notify sends what is owed to the outside: callbacks and requests for lists,
// by HTTP, at least once. What is owed, and until when, is its caller's knowledge, read from and
// confirmed to an Outbox; this package knows limits, signatures, and which addresses
// may be reached.
//
// Each target (host and port) has a lane of its own, with few requests at once, so
// that one that is slow or dead delays no other. Nothing is held in memory but the
// names of targets and the few deliveries on their way: a sender that is begun anew
// goes on from the outbox.
package notify
