package fsm

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/axd-project/axd/job"
)

// The limits of what a worker registers.
const (
	MaxSlots      = 10_000
	maxWorkerText = 256       // bytes of a boot, address or version
	maxLeaseMS    = 3_600_000 // an hour
)

func (a *apply) registerWorker(c *RegisterWorker) Result {
	if err := a.checkTerm(c.Term); err != nil {
		return rejected(err)
	}
	if err := checkWorker(c); err != nil {
		return rejected(err)
	}
	w := &Worker{
		Name: c.Name, Boot: c.Boot, Address: c.Address, Slots: c.Slots, Labels: c.Labels, Version: c.Version,
		LeaseMS: c.LeaseMS, Registered: a.now, Priorities: c.Priorities,
	}
	changed := true
	if old, ok := a.worker(c.Name); ok {
		w.LeaseMS = max(w.LeaseMS, old.LeaseMS)           // an earlier life may still count on it
		w.Draining, w.DrainBy = old.Draining, old.DrainBy // the operator's wish: it outlives a restart of the worker
		if old.Boot == c.Boot {
			w.Registered = old.Registered
		} else { // what made it fail may be gone
			a.forgetBreakers(func(b Breaker) bool { return b.Worker == c.Name })
		}
		changed = old.Lost || old.Boot != w.Boot || old.Address != w.Address || old.Slots != w.Slots ||
			old.Version != w.Version || old.LeaseMS != w.LeaseMS || !maps.Equal(old.Labels, w.Labels) ||
			!slices.Equal(old.Priorities, w.Priorities)
	}
	if changed {
		a.putWorker(w)
	}
	return Result{Changed: changed}
}

func checkWorker(c *RegisterWorker) *job.Error {
	if err := job.ValidateName("name", c.Name); err != nil {
		return err
	}
	if c.Boot == "" {
		return job.Invalid("boot", "must not be empty", "")
	}
	if c.Slots < 0 || c.Slots > MaxSlots {
		return job.Invalid("slots", fmt.Sprintf("must be 0 to %d", MaxSlots), strconv.Itoa(c.Slots))
	}
	if c.LeaseMS < 0 || c.LeaseMS > maxLeaseMS {
		return job.Invalid("lease", "must be 0 to 1 hour", strconv.FormatInt(c.LeaseMS, 10)+" ms")
	}
	if err := job.ValidatePriorities("priorities", c.Priorities); err != nil {
		return err
	}
	for _, text := range [][2]string{{"boot", c.Boot}, {"address", c.Address}, {"version", c.Version}} {
		if len(text[1]) > maxWorkerText {
			return job.Invalid(text[0], fmt.Sprintf("must be at most %d bytes", maxWorkerText), text[1])
		}
	}
	return job.ValidateLabels("labels", c.Labels)
}
