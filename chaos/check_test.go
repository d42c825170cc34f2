package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// at is a moment of a history that is written by hand.
func at(ms int64) time.Time { return time.UnixMilli(1_000_000 + ms) }

func token(index uint64) job.Token { return job.Token{Index: index} }

// one is a task that ended well: submitted at 0, due at 1000, run from 1001 to
// 1100 by the token 5.
func one() (History, string) {
	t := fsm.Task{
		Namespace: job.DefaultNamespace, ID: job.NewID(1, 2, 3), State: job.Success, LastToken: token(5), IdempotencyKey: "k",
	}
	id := t.ID.String()
	dump := func(server string) Dump {
		return Dump{
			Server: server, Hash: 7, Tasks: map[string]fsm.Task{id: t}, Counts: map[job.State]int64{job.Success: 1},
			Attempts: map[string][]fsm.Attempt{id: {{Number: 1, Token: token(5), Outcome: job.OutcomeSuccess}}},
		}
	}
	return History{
		Calls: []Call{
			{Verb: Submit, Task: id, Key: "k", Delay: time.Second, Begun: at(0), Ended: at(1), State: "scheduled"},
			{Verb: Look, Task: id, Begun: at(2000), Ended: at(2001), State: "success"},
		},
		Attempts: []Attempt{{Task: id, Number: 1, Token: token(5), Worker: "w1", Due: at(1000), Start: at(1001), End: at(1100), OK: true}},
		Dumps:    []Dump{dump("s1"), dump("s2")},
	}, id
}

func TestChecksPassAHistoryThatKeepsThePromises(t *testing.T) {
	h, _ := one()
	if found := Check(h, Limits{}); len(found) > 0 {
		t.Error(found)
	}
}

// A key may be taken by another body, unless the call's own was acknowledged before.
func TestChecksKnowWhoTookAKey(t *testing.T) {
	own, other := Call{Verb: Submit, Key: "q", Begun: at(10), Ended: at(20)}, Call{Verb: Submit, Key: "q", Body: 1, Begun: at(30), Ended: at(40)}
	refused := Call{Verb: Submit, Key: "q", Begun: at(50), Ended: at(60), Code: job.CodeIdempotencyMismatch}
	unknown := own
	unknown.Code = job.CodeUnknownOutcome
	for name, tt := range map[string]struct {
		calls []Call
		taken bool
	}{
		"by another":       {[]Call{unknown, other, refused}, true},
		"by its own":       {[]Call{own, other, refused}, false},
		"by nobody":        {[]Call{unknown, refused}, false},
		"by another later": {[]Call{unknown, refused, {Verb: Submit, Key: "q", Body: 1, Begun: at(70), Ended: at(80)}}, false},
	} {
		c := newCheck(History{Calls: tt.calls}, Limits{})
		if got := c.takenByOther(&refused); got != tt.taken {
			t.Errorf("%s: taken by another is %v", name, got)
		}
	}
}

// One entry may hold the end of a task, its replay and another end.
func TestChecksSeeWhatHappensWithinAnEntry(t *testing.T) {
	dead := fsm.Task{Namespace: "n", ID: job.NewID(1, 2, 3), State: job.Failed, Dead: true, Version: 3}
	again, ended := dead, dead
	again.State, again.Dead, again.Version = job.Pending, false, 4
	ended.Version = 5
	c := newCheck(History{}, Limits{})
	codes := []fsm.Code{fsm.CodeFinished, fsm.CodeDeadLetters}
	c.step(7, codes, &fsm.Task{State: job.Running}, &dead, time.Time{})
	c.step(7, codes, &dead, &again, time.Time{})
	c.step(7, codes, &again, &ended, time.Time{})
	w := &stepWatch{c}
	w.see([]change{{index: 7, codes: codes, was: fsm.Task{State: job.Running}, is: ended}})
	if id := dead.ID.String(); len(c.ends[id]) != 2 || !c.revived[id] || len(c.found) > 0 {
		t.Errorf("%d ends, want 2; revived %v; %q", len(c.ends[id]), c.revived[id], c.found)
	}
}

// A step that fails and is replayed in one entry waits for a verdict at its end, of
// which apply tells nobody.
func TestChecksSeeAStepReplayedWhereItFailed(t *testing.T) {
	failed := fsm.Task{Namespace: "n", ID: job.NewID(1, 2, 3), Run: job.NewID(4, 5, 6), State: job.Failed}
	waits := failed
	waits.State = job.Blocked
	for _, tt := range []struct {
		codes   []fsm.Code
		touched bool
		revived bool
	}{
		{[]fsm.Code{fsm.CodeFinished, fsm.CodeDeadLetters}, false, true},
		{[]fsm.Code{fsm.CodeFinished}, true, true},
		{[]fsm.Code{fsm.CodeFinished}, false, false},
	} {
		c := newCheck(History{}, Limits{})
		c.touched[failed.Run.String()] = tt.touched
		c.replayed(tt.codes, &failed, &waits)
		if got := c.revived[failed.ID.String()]; got != tt.revived {
			t.Errorf("%+v: revived is %v", tt, got)
		}
	}
}

// What a schedule fired is in the way of the next no more once it was replayed, even
// in the entry of its end.
func TestAReplayedFireIsInNobodysWay(t *testing.T) {
	c := newCheck(History{}, Limits{})
	w := newFireWatch(c)
	runs := fsm.Task{Namespace: "n", ID: job.NewID(1, 2, 3), Schedule: "s", State: job.Running, Version: 2}
	again, next := runs, runs
	again.State, again.Version = job.Pending, 4
	next.ID = job.NewID(7, 8, 9)
	w.see([]change{{index: 1, is: runs}})
	c.revived[runs.ID.String()] = true
	w.see([]change{{index: 2, was: runs, is: again}, {index: 2, is: next}})
	if len(c.found) > 0 {
		t.Error(c.found)
	}
}

func TestChecksFindEachBrokenPromise(t *testing.T) {
	task := func(h *History, id string, change func(*fsm.Task)) {
		for _, d := range h.Dumps {
			is := d.Tasks[id]
			change(&is)
			d.Tasks[id] = is
		}
	}
	again := func(h *History, a Attempt) {
		first := h.Attempts[0]
		a.Task, a.Number, a.Worker, a.Due = first.Task, 2, "w2", first.Due
		h.Attempts = append(h.Attempts, a)
	}
	for want, break_ := range map[string]func(h *History, id string){
		"missing on server s2":     func(h *History, id string) { delete(h.Dumps[1].Tasks, id) },
		"is not found":             func(h *History, id string) { h.Calls[1].Code = job.CodeNotFound },
		"was answered with inter":  func(h *History, _ string) { h.Calls[1].Code = job.CodeInternal },
		"at the end":               func(h *History, id string) { task(h, id, func(t *fsm.Task) { t.State = job.Pending }) },
		"for a caller and is":      func(h *History, _ string) { h.Calls[1].State = "failed" },
		"was failed, then success": func(h *History, _ string) { h.Calls[0].State = "failed" },
		"no worker saw one":        func(h *History, _ string) { h.Attempts[0].OK = false },
		"that no worker saw":       func(h *History, id string) { h.Dumps[1].Attempts[id][0].Token = token(6) },
		"counts as a success":      func(h *History, id string) { task(h, id, func(t *fsm.Task) { t.State = job.Failed }) },
		"started after attempt 1": func(h *History, _ string) {
			again(h, Attempt{Token: token(4), Start: at(1200), End: at(1300)})
		},
		"still ran":            func(h *History, _ string) { again(h, Attempt{Token: token(6), Start: at(1050), End: at(1300)}) },
		"before it was due":    func(h *History, _ string) { h.Attempts[0].Start = at(999) },
		"before its delay":     func(h *History, _ string) { h.Attempts[0].Start, h.Attempts[0].Due = at(990), at(990) },
		"acknowledged with ta": func(h *History, _ string) { h.Calls = append(h.Calls, Call{Verb: Submit, Key: "k", Task: "other"}) },
		"two bodies": func(h *History, id string) {
			h.Calls = append(h.Calls, Call{Verb: Submit, Key: "k", Task: id, Body: 1, State: "success"})
		},
		"has tasks": func(h *History, id string) {
			h.Dumps[1].Tasks["other"] = h.Dumps[1].Tasks[id]
		},
		"after it was cancelled": func(h *History, id string) {
			h.Calls = append(h.Calls, Call{Verb: Cancel, Task: id, Begun: at(10), Ended: at(11), State: "cancelled"})
		},
		"although it was moved": func(h *History, id string) {
			h.Calls = append(h.Calls, Call{Verb: Reschedule, Task: id, Begun: at(10), Ended: at(11), State: "scheduled", Due: at(5000)})
		},
		"a broken invariant":    func(h *History, _ string) { h.Dumps[0].Broken = []string{"a broken invariant"} },
		"counts 2 tasks":        func(h *History, _ string) { h.Dumps[0].Counts[job.Success] = 2 },
		"hold different states": func(h *History, _ string) { h.Dumps[1].Hash = 8 },
	} {
		h, id := one()
		break_(&h, id)
		if found := strings.Join(Check(h, Limits{}), "\n"); !strings.Contains(found, want) {
			t.Errorf("a history in which something is %q gave %q", want, found)
		}
	}
}

// A leader's loop begins only after its term's barrier. Whatever else is committed
// may come before; and a barrier of an earlier term is none.
func TestChecksFindALeaderThatDecidesBeforeItsBarrier(t *testing.T) {
	entry := func(index, term uint64, c fsm.Command) *raft.Log {
		b, err := fsm.EncodeCommand(c)
		if err != nil {
			t.Fatal(err)
		}
		data, err := fsm.EncodeEntry(fsm.Entry{At: 1, Commands: [][]byte{b}})
		if err != nil {
			t.Fatal(err)
		}
		return &raft.Log{Index: index, Term: term, Type: raft.LogCommand, Data: data}
	}
	barrier := func(index, term uint64) *raft.Log { return &raft.Log{Index: index, Term: term, Type: raft.LogBarrier} }
	for name, tt := range map[string]struct {
		log  []*raft.Log
		want bool
	}{
		"after it":           {[]*raft.Log{barrier(1, 3), entry(2, 3, fsm.Assign{})}, false},
		"before it":          {[]*raft.Log{entry(1, 3, fsm.Assign{}), barrier(2, 3)}, true},
		"after another's":    {[]*raft.Log{barrier(1, 3), entry(2, 3, fsm.Expire{}), entry(3, 5, fsm.LoseAttempts{})}, true},
		"a caller's command": {[]*raft.Log{entry(1, 3, fsm.Checksum{}), entry(2, 3, fsm.Finished{})}, false},
	} {
		c := &check{}
		c.barriers(tt.log)
		if found := len(c.found) > 0; found != tt.want {
			t.Errorf("%s: found %q", name, c.found)
		}
	}
}

func TestHeldProcessMayOverlap(t *testing.T) {
	h, id := one()
	h.Attempts[0].Frozen, h.Attempts[0].OK, h.Attempts[0].End = true, false, at(9000)
	h.Attempts = append(h.Attempts, Attempt{Task: id, Number: 2, Token: token(6), Due: at(1000), Start: at(5000), End: at(5001), OK: true})
	for i := range h.Dumps {
		is := h.Dumps[i].Tasks[id]
		is.LastToken = token(6)
		h.Dumps[i].Tasks[id] = is
		h.Dumps[i].Attempts[id] = []fsm.Attempt{{Number: 2, Token: token(6), Outcome: job.OutcomeSuccess}}
	}
	h.Calls[1].Begun, h.Calls[1].Ended = at(9500), at(9501)
	if found := Check(h, Limits{}); len(found) > 0 {
		t.Error(found)
	}
}

// A delay is short by as long as the cluster's clock stood, which it does for some
// seconds where clocks are wrong, and else never.
func TestADelayIsShortOnlyWhereClocksAreWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		early    time.Duration
		troubles []Trouble
		found    bool
	}{
		"clocks right":           {2 * time.Second, nil, true},
		"a clock wrong":          {2 * time.Second, []Trouble{{Kind: ClockJump, From: at(-1), Until: at(900)}}, false},
		"a clock was wrong":      {2 * time.Second, []Trouble{{Kind: ClockJump, From: at(-900), Until: at(-800)}}, true},
		"a clock wrong, by more": {10 * time.Second, []Trouble{{Kind: ClockJump, From: at(-1), Until: at(900)}}, true},
	} {
		h, _ := one()
		h.Troubles = tt.troubles
		for i := range h.Calls {
			if h.Calls[i].Verb == Submit {
				h.Calls[i].Delay = h.Attempts[0].Start.Sub(h.Calls[i].Begun) + tt.early
			}
		}
		c := newCheck(h, Limits{Skew: 100 * time.Millisecond})
		if c.starts(); len(c.found) > 0 != tt.found {
			t.Errorf("%s: found %q", name, c.found)
		}
	}
}
