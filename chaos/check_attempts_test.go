package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func TestRetryFloor(t *testing.T) {
	for k, want := range map[int]time.Duration{1: 1500 * time.Millisecond, 2: 2 * time.Second, 3: 2500 * time.Millisecond, 9: 2500 * time.Millisecond} {
		if got := retryFloor(k); got != want {
			t.Errorf("retry %d comes after at least %v, not %v", k, got, want)
		}
	}
}

// failedOnce is a task whose first attempt failed and whose second did not.
func failedOnce() (History, string) {
	h, id := one()
	for i := range h.Dumps {
		t := h.Dumps[i].Tasks[id]
		t.Job, t.LastToken = plainJob, token(6)
		h.Dumps[i].Tasks[id] = t
		h.Dumps[i].Attempts[id] = []fsm.Attempt{
			{Number: 1, Token: token(5), Outcome: job.OutcomeFailed}, {Number: 2, Token: token(6), Outcome: job.OutcomeSuccess},
		}
	}
	h.Attempts = []Attempt{
		{Task: id, Job: plainJob, Number: 1, Token: token(5), Start: at(1001), End: at(1100)},
		{Task: id, Job: plainJob, Number: 2, Token: token(6), Start: at(2700), End: at(2800), OK: true},
	}
	h.Writes = []Write{{Task: id, Token: token(5), Taken: true}, {Task: id, Token: token(6), Taken: true}}
	return h, id
}

func TestChecksFindBrokenPoliciesOfAttempts(t *testing.T) {
	task := func(h *History, id string, change func(*fsm.Task)) {
		is := h.Dumps[0].Tasks[id]
		change(&is)
		h.Dumps[0].Tasks[id] = is
	}
	outcomes := func(h *History, id string, n int, o job.Outcome) {
		h.Dumps[0].Attempts[id] = nil
		for i := range n {
			h.Dumps[0].Attempts[id] = append(h.Dumps[0].Attempts[id], fsm.Attempt{Number: uint32(i + 1), Outcome: o})
		}
	}
	for want, break_ := range map[string]func(h *History, id string){
		"":                     func(*History, string) {},
		"its retries are 4":    func(h *History, id string) { outcomes(h, id, 6, job.OutcomeLost) },
		"its back-off is at":   func(h *History, _ string) { h.Attempts[1].Start = at(2500) },
		"is at least 3s":       func(h *History, _ string) { h.Attempts[0].RetryIn = 3 * time.Second },
		"there was to be none": func(h *History, _ string) { h.Attempts[0].Permanent = true },
		"its time-out is 4s":   func(h *History, _ string) { h.Attempts[1].Job, h.Attempts[1].End = shortJob, at(9000) },
		"its time-out is 1.125s": func(h *History, _ string) {
			h.Attempts[1].Job, h.Attempts[1].Silent, h.Attempts[1].End = beatingJob, true, at(9000)
		},
		"had passed at": func(h *History, id string) {
			h.Attempts[1].Job = hastyJob
			task(h, id, func(t *fsm.Task) { t.EndBy = at(100).UnixMilli() })
		},
		"was let through after":       func(h *History, id string) { h.Writes = append(h.Writes, Write{id, token(5), true}) },
		"guarded resource has refuse": func(h *History, _ string) { h.Writes[1].Taken = false },
		"is success and a dead":       func(h *History, id string) { task(h, id, func(t *fsm.Task) { t.Dead = true }) },
		"which its job does not want": func(h *History, id string) {
			task(h, id, func(t *fsm.Task) { t.State, t.Job, t.Dead = job.Failed, hastyJob, true })
		},
		"is no dead letter":     func(h *History, id string) { task(h, id, func(t *fsm.Task) { t.State = job.Failed }) },
		"and has not run again": func(h *History, id string) { h.Calls = append(h.Calls, Call{Verb: Replay, Task: id, Object: "done"}) },
		"has 0 compensations": func(h *History, id string) {
			task(h, id, func(t *fsm.Task) { t.Job, t.State, t.Dead = doomedJob, job.Failed, true })
		},
	} {
		h, id := failedOnce()
		break_(&h, id)
		c := newCheck(h, Limits{})
		c.ends[id] = []end{{state: h.Dumps[0].Tasks[id].State}}
		c.retries()
		c.timeouts()
		c.guarded()
		c.deadLetters()
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("attempts of which something is %q gave %q", want, found)
		}
	}
}

// told is a task whose end was told by a callback.
func told() (History, string) {
	h, id := one()
	t := h.Dumps[0].Tasks[id]
	t.Policy.CallbackURL, t.Version = sinkURL, 9
	h.Dumps[0].Tasks[id] = t
	cb := fsm.Callback{Namespace: job.DefaultNamespace, Task: t.ID, N: 9, State: fsm.CallbackDelivered, URL: sinkURL, End: fsm.CallbackEnd{State: job.Success}}
	h.Dumps[0].Callbacks = []fsm.Callback{cb}
	h.Deliveries = []Delivery{
		{ID: cb.Ref().String(), Task: id, State: "success", At: at(1150)},
		{ID: cb.Ref().String(), Task: id, State: "success", At: at(3300), Taken: true},
	}
	return h, id
}

func TestChecksFindBrokenCallbacks(t *testing.T) {
	for want, break_ := range map[string]func(h *History, id string){
		"":                    func(*History, string) {},
		"is owed at the end":  func(h *History, _ string) { h.Dumps[0].Callbacks[0].State = fsm.CallbackOwed },
		"nobody has taken it": func(h *History, _ string) { h.Deliveries = h.Deliveries[:1] },
		"was given up":        func(h *History, _ string) { h.Dumps[0].Callbacks[0].State = fsm.CallbackDead },
		"is not known":        func(h *History, _ string) { h.Deliveries[0].ID = "other" },
		"it is of task":       func(h *History, _ string) { h.Deliveries[1].State = "failed" },
		"was written at":      func(h *History, _ string) { h.Deliveries[0].At = at(900) },
		"has 0 callbacks":     func(h *History, _ string) { h.Dumps[0].Callbacks, h.Deliveries = nil, nil },
		"and 0 tasks that heard": func(h *History, id string) {
			t := h.Dumps[0].Tasks[id]
			t.Job = tellingJob
			h.Dumps[0].Tasks[id] = t
		},
	} {
		h, id := told()
		break_(&h, id)
		c := newCheck(h, Limits{})
		c.ends[id] = []end{{state: job.Success, version: 9, wrote: at(1120)}}
		c.callbacks()
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("callbacks of which something is %q gave %q", want, found)
		}
	}
}
