// Package mutant holds faults that tests put into axd to see whether they are found:
// each breaks one promise, in one line. Plain builds have constants in their place, all
// false, so that the compiler leaves out what they guard; builds with the tag mutants
// have the one that AXD_MUTANT names. `make mutants` hunts them all.
package mutant
