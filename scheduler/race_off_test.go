//go:build !race

package scheduler

// See race_on_test.go.
const (
	chaosSeeds    = 40
	manySchedules = 3000
	wholeDays     = true
)
