//go:build race

package chaos

import "time"

// Under the race detector a run takes about ten times as long, since Pebble then
// checks itself too: a few short ones, to find races.
const (
	simBudget = 10 * time.Second
	simLength = 30 * time.Second

	longPlans = false // besides the short ones
)
