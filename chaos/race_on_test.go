//go:build race

package chaos

import "time"

// Under the race detector a run takes about ten times as long, since Pebble then
// checks itself too: a few short ones, to find races.
const (
	simBudget = 15 * time.Second
	simLength = 45 * time.Second
)
