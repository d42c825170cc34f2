// Package job holds the nouns of axd: what a job is, what a task asks for, how a
// state is called, when a retry comes, and which errors exist.
//
// The package is pure. It reads no clock, draws no random number and touches
// neither disk nor network, so that the state machine may use all of it.
package job
