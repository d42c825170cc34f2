// Package fsm holds the verbs of axd: the commands that change the replicated
// state, the tables that hold it, and the queries that read it.
//
// A Machine applies entries to an ordered key-value transaction. The package is
// pure: no clock, random number, goroutine, log, network or disk, and nothing
// that depends on the order of a map. Time arrives in the entry, ids and tokens
// come from the log index, so that every server that applies the same entries
// holds the same bytes. The same code serves live apply, replay, scripts,
// fuzzing and simulation.
//
// To add a verb: append its code to command.go and to newCommand in codec.go,
// write apply_<verb>.go, add a line to the switch in machine.go and a script in
// testdata. To change what a verb does, or what it accepts, tie the change to
// the cluster's feature level: until every server runs the new build, all must
// go on writing the same bytes.
package fsm
