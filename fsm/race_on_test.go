//go:build race

package fsm

import (
	"flag"
	"os"
)

const (
	walkSeeds   = 2
	walkEntries = 240
	walkAll     = false

	chainSteps = 2000
	checkLarge = 10
)

// init shortens the models too, unless somebody says how many checks they are to do.
func init() {
	if os.Getenv("RAPID_CHECKS") == "" {
		if err := flag.Set("rapid.checks", "15"); err != nil {
			panic(err)
		}
	}
}
