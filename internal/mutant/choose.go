//go:build mutants

package mutant

import (
	"maps"
	"os"
	"slices"
	"time"
)

// Env names the fault that is on; empty: none.
const Env = "AXD_MUTANT"

var (
	chosen = os.Getenv(Env)
	known  = map[string]bool{}
)

func is(name string) bool {
	known[name] = true
	return name == chosen
}

func init() {
	if chosen != "" && !known[chosen] {
		panic(Env + " names no mutant: " + chosen)
	}
}

// Shuffled is what comes of a slice that goes through a map.
func Shuffled[T any](s []T) []T {
	m := map[int]T{}
	for i, v := range s {
		m[i] = v
	}
	return slices.Collect(maps.Values(m))
}

// Now is this server's clock in Unix ms.
func Now() int64 { return time.Now().UnixMilli() }
