package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

func TestChecksFindLateStarts(t *testing.T) {
	began := Trouble{From: at(-120_000), Until: at(-60_000)}
	for name, tt := range map[string]struct {
		by       time.Duration // of every twentieth
		troubles []Trouble
		found    bool
	}{
		"in time":                       {lateLimit, []Trouble{began}, false},
		"late":                          {lateLimit + time.Millisecond, []Trouble{began}, true},
		"beside a fault":                {time.Minute, []Trouble{began, {KillServer, at(-29_000), at(0)}}, false},
		"after one":                     {time.Minute, []Trouble{began, {KillServer, at(-40_000), at(-29_000)}}, false},
		"long after one":                {time.Minute, []Trouble{began, {KillServer, at(-50_000), at(-31_000)}}, true},
		"before one":                    {time.Minute, []Trouble{began, {KillServer, at(40_000), at(50_000)}}, true},
		"beside a receiver that is ill": {time.Minute, []Trouble{began, {SlowCallbacks, at(-1000), at(9000)}}, true},
		"by a clock that was wrong":     {lateLimit + 10*time.Millisecond, []Trouble{began, {ClockStep, at(-90_000), at(-60_000)}}, false},
		"by more than such a clock":     {lateLimit + 30*time.Millisecond, []Trouble{began, {ClockStep, at(-90_000), at(-60_000)}}, true},
		"with all slots taken":          {time.Minute, []Trouble{began}, false},
		"with nothing known":            {time.Minute, nil, false},
	} {
		h := History{Troubles: tt.troubles, Plan: Plan{Workers: 3}}
		for n := range int64(200) {
			a := Attempt{Number: 1, Job: plainJob, Due: at(n * 5), Start: at(n*5 + 2), End: at(n*5 + 3)}
			if n%20 == 0 {
				a.Start, a.End = a.Due.Add(tt.by), a.Due.Add(tt.by+1)
			}
			h.Attempts = append(h.Attempts, a)
		}
		if name == "with all slots taken" {
			for range 3 * workerSlots {
				h.Attempts = append(h.Attempts, Attempt{Start: at(-1), End: at(90_000)})
			}
		}
		c := newCheck(h, Limits{Skew: 20 * time.Millisecond})
		c.late()
		if len(c.found) > 0 != tt.found {
			t.Errorf("starts %s: %q", name, c.found)
		}
	}
}

func TestChecksFindCallbacksThatWaitForOthers(t *testing.T) {
	began := Trouble{From: at(-120_000), Until: at(-60_000)}
	ill := Trouble{SlowCallbacks, at(0), at(9000)}
	for name, tt := range map[string]struct {
		url   string
		sent  int64
		extra []Trouble
		found bool
	}{
		"at once":              {steadyURL, 1121, []Trouble{ill}, false},
		"late":                 {steadyURL, 9000, []Trouble{ill}, true},
		"late, beside a fault": {steadyURL, 9000, []Trouble{ill, {KillServer, at(1000), at(2000)}}, false},
		"to who is ill":        {sinkURL, 9000, []Trouble{ill}, false},
	} {
		h, id := told()
		h.Dumps[0].Callbacks[0].URL = tt.url
		h.Deliveries[0].At, h.Deliveries[1].At = at(tt.sent), at(tt.sent+9000)
		h.Troubles = append(tt.extra, began)
		c := newCheck(h, Limits{})
		c.ends[id] = []end{{state: job.Success, version: 9, wrote: at(1120)}}
		c.prompt()
		if found := strings.Join(c.found, "\n"); found != "" != tt.found {
			t.Errorf("a callback sent %s: %q", name, found)
		}
	}
}
