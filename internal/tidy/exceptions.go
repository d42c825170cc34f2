package tidy

import (
	"maps"
	"slices"
)

// exceptions maps a file to the reason why a rule doesn't hold in it.
type exceptions struct {
	rule    string
	reasons map[string]string
}

// mayExit lists the files outside main packages that end the process.
var mayExit = exceptions{"exit", map[string]string{
	"server/config.go": "the default of Config.Exit: a server whose disk or log is damaged must stop at once; tests set their own",
}}

// maySleep lists the test files that sleep though they aren't in a bubble.
var maySleep = exceptions{"sleep", map[string]string{
	"cluster/cluster_test.go": "all its tests run in the bubble that inWorld makes",
	"worker/leader_test.go":   "its handler \"deaf\" stands for user code that doesn't heed its context",
}}

// exceptionUse remembers which exceptions were needed.
type exceptionUse map[[2]string]bool

func (u exceptionUse) allows(e exceptions, file string) bool {
	_, ok := e.reasons[file]
	if ok {
		u[[2]string{e.rule, file}] = true
	}
	return ok
}

// stale reports exceptions that nothing needed.
func (u exceptionUse) stale() []Finding {
	var found []Finding
	for _, e := range []exceptions{mayExit, maySleep} {
		for _, file := range slices.Sorted(maps.Keys(e.reasons)) {
			if !u[[2]string{e.rule, file}] {
				found = append(found, Finding{Path: file, Text: "needs no exception to the " + e.rule +
					" rule any more: take it out of internal/tidy/exceptions.go"})
			}
		}
	}
	return found
}
