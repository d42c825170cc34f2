//go:build !race

package fsm

// How much random tests do. The race detector, which finds little in a package whose
// apply is one goroutine, makes them take ten times as long: under it they do a part of
// that, and `make test` runs them again without it.
const (
	walkSeeds   = 10
	walkEntries = 600
	walkAll     = true // every command is accepted in some walk

	chainSteps = 10_000
	checkLarge = 1 // of how many entries Check looks at one, where the state is large
)
