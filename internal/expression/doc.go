// Package expression computes the small formulas that definitions hold: when a
// step runs, what a payload carries, which items a step fans out over, which
// events a schedule heeds. The language is that of expr-lang/expr with bounds
// set: an expression reads what it is given and nothing else (no clock, no random
// number, no variable of the environment, no call that has an effect), its text
// and its tree are limited when it is compiled, and each evaluation ends with an
// error once it has cost more than MaxCost. Integers are exact; one that is too
// large to compute with may be passed on.
//
// It is for the leader and for validation. The state machine never runs it.
package expression
