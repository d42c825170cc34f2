package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

func TestRegistersFindAnswersThatFitNoOrder(t *testing.T) {
	call := func(verb Verb, from, to int64, state string, due int64) Call {
		return Call{Verb: verb, Task: "t", Begun: at(from), Ended: at(to), State: state, Due: at(due)}
	}
	failed := func(c Call, code job.Code) Call {
		c.Code, c.State = code, ""
		return c
	}
	submit := call(Submit, 0, 10, "scheduled", 5000)
	for name, tt := range map[string]struct {
		calls []Call
		ends  []end
		fits  bool
	}{
		"a task that is looked at": {[]Call{submit, call(Look, 20, 30, "scheduled", 5000), call(Look, 6000, 6010, "success", 5000)},
			[]end{{state: job.Success, wrote: at(5500)}}, true},
		"an end before it was written": {[]Call{submit, call(Look, 20, 30, "success", 5000)}, []end{{state: job.Success, wrote: at(5500)}}, false},
		"an end that is taken back": {[]Call{submit, call(Look, 6000, 6010, "success", 5000), call(Look, 6020, 6030, "running", 5000)},
			[]end{{state: job.Success, wrote: at(5500)}}, false},
		"two looks at a time may see both": {[]Call{submit, call(Look, 6000, 6030, "success", 5000), call(Look, 6010, 6020, "running", 5000)},
			[]end{{state: job.Success, wrote: at(5500)}}, true},
		"another end":         {[]Call{submit, call(Look, 6000, 6010, "failed", 5000)}, []end{{state: job.Success, wrote: at(5500)}}, false},
		"a replay lives":      {[]Call{submit, call(Look, 6000, 6010, "failed", 1), call(Look, 6020, 6030, "running", 1)}, []end{{state: job.Failed, wrote: at(5500)}, {state: job.Success, wrote: at(7000)}}, true},
		"a stale due time":    {[]Call{submit, call(Reschedule, 20, 30, "scheduled", 9000), call(Look, 40, 50, "scheduled", 5000)}, nil, false},
		"a move that is seen": {[]Call{submit, call(Reschedule, 20, 60, "scheduled", 9000), call(Look, 40, 50, "scheduled", 9000)}, nil, true},
		"a move that may have been": {[]Call{submit, failed(call(Reschedule, 20, 30, "", 0), job.CodeUnknownOutcome), call(Look, 40, 50, "scheduled", 5000),
			call(Look, 60, 70, "scheduled", 9000)}, nil, true},
		"a cancel that is seen": {[]Call{submit, call(Cancel, 20, 30, "cancelled", 5000), call(Look, 40, 50, "cancelled", 5000)},
			[]end{{state: job.Cancelled, wrote: at(25)}}, true},
		"a cancel that is not": {[]Call{submit, call(Cancel, 20, 30, "cancelled", 5000), call(Look, 40, 50, "scheduled", 5000)},
			[]end{{state: job.Cancelled, wrote: at(25)}}, false},
		"a refused cancel of what lives": {[]Call{submit, failed(call(Cancel, 20, 30, "", 0), job.CodeConflict), call(Look, 40, 50, "scheduled", 5000)}, nil, false},
		"a refused cancel of what ended": {[]Call{submit, failed(call(Cancel, 6000, 6010, "", 0), job.CodeConflict)}, []end{{state: job.Success, wrote: at(5500)}}, true},
		"a cancelled task is moved":      {[]Call{submit, call(Cancel, 20, 30, "cancelled", 5000), call(Reschedule, 40, 50, "scheduled", 7000)}, nil, false},
	} {
		c := newCheck(History{Calls: tt.calls}, Limits{})
		c.ends["t"] = tt.ends
		c.registers()
		if fits := len(c.found) == 0; fits != tt.fits {
			t.Errorf("%s: found %s", name, strings.Join(c.found, "\n"))
		}
	}
}

func TestTooFewCallsAreAViolation(t *testing.T) {
	c := newCheck(History{Plan: Plan{Length: 10 * time.Minute, Callers: 6, Think: thinkTime}, Calls: []Call{{Verb: Submit}}}, Limits{})
	c.enough()
	found := strings.Join(c.found, "\n")
	for verb := range least {
		if !strings.Contains(found, " calls of "+string(verb)+" ") {
			t.Errorf("too few of %s are not found: %s", verb, found)
		}
	}
	for _, what := range []string{"failed", "broadcast"} {
		if !strings.Contains(found, "0 tasks ended as "+what) {
			t.Errorf("too few that are %s are not found: %s", what, found)
		}
	}
}
