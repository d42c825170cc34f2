//go:build !race

package chaos

import "time"

const (
	simBudget = 20 * time.Second // of real time, unless AXD_SIM_SEEDS or AXD_SIM_SEED says what to run
	simLength = 2 * time.Minute  // of load and faults in one run, virtual

	longPlans = true // besides the short ones
)
