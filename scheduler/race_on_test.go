//go:build race

package scheduler

// Under the race detector, which makes them take six times as long, the longest tests
// do a part of what they do without it; `make test` runs the package both ways.
const (
	chaosSeeds    = 10
	manySchedules = 600
	wholeDays     = false // virtual ones, in which little happens
)
