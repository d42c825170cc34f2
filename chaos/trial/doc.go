// Package trial puts real axd processes on loopback through faults, and judges
// whether they kept their promises: it is what axd chaos runs.
//
// Each scenario has a cluster of its own, whose processes speak through
// chaos/proxy, callers, workers that run commands, schedules, workflows and a
// receiver of callbacks. Everything that the outside saw is recorded. Then the
// servers are stopped, their logs and states read from their disks, and package
// chaos compares. A fault that did not act, too few calls, or a check that could
// not be made is no pass: the scenario could not be tested.
package trial
