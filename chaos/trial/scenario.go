package trial

import (
	"context"
	"slices"
	"time"

	"github.com/axd-project/axd/job"
)

// Verdict is what came of a scenario.
type Verdict string

// The verdicts.
const (
	Held     Verdict = "held"
	Violated Verdict = "violated"
	Untested Verdict = "could not test"
	Skipped  Verdict = "skipped" // this machine or binary lacks what it needs
)

// Scenario is one kind of trouble.
type Scenario struct {
	Name    string
	Group   string // servers, network, workers, members, disks or clocks
	Summary string
	Short   bool // one of those that the project's own tests run
	// Clocks: it turns the clocks of processes, which only an axd-chaos can.
	Clocks bool
	// play makes trouble until ctx ends or it has done it once, whichever is later.
	play func(ctx context.Context, st *stage) error

	skew time.Duration // that the cluster's clock may have from true time
	// smallDisk: the second server's data lie on a small disk of its own.
	smallDisk bool
}

// All lists the scenarios.
func All() []Scenario {
	return slices.Concat(serverScenarios(), networkScenarios(), workerScenarios(), memberScenarios(), diskScenarios(), clockScenarios())
}

// Find returns the scenarios of these names; none stands for all.
func Find(names []string) ([]Scenario, error) {
	all := All()
	if len(names) == 0 {
		return all, nil
	}
	var out []Scenario
	for _, name := range names {
		at := slices.IndexFunc(all, func(s Scenario) bool { return s.Name == name })
		if at < 0 {
			return nil, job.Invalid("scenario", "must be one that axd chaos list shows", name)
		}
		if !slices.ContainsFunc(out, func(s Scenario) bool { return s.Name == name }) {
			out = append(out, all[at])
		}
	}
	return out, nil
}
