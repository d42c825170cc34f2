package chaos

import (
	"fmt"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

func TestChecksFindLimitsThatAreExceeded(t *testing.T) {
	v := store.NewMemory().View()
	defer v.Close()
	n := uint64(0)
	assign := func(name string, key int, ms int64) change {
		n++
		body, err := msgpack.Marshal(fsm.Body{Payload: []byte(fmt.Sprintf(`{"k": %d}`, key))})
		if err != nil {
			t.Fatal(err)
		}
		is := fsm.Task{ID: job.NewID(1, n, 0), Job: name, Token: token(n), State: job.Dispatched, Dispatched: ms, Body: body}
		return change{view: v, is: is}
	}
	ended := func(ch change) change {
		ch.was, ch.is.Token, ch.is.State = ch.is, job.Token{}, job.Success
		return ch
	}
	unique := func(state job.State) change {
		n++
		return change{view: v, is: fsm.Task{ID: job.NewID(1, n, 0), UniqueKey: "u", State: state}}
	}
	one, two, three := assign(limitedJob, 1, 0), assign(limitedJob, 1, 0), assign(limitedJob, 1, 0)
	var fast []change
	for i := range int64(rateMax + rateBurst) {
		fast = append(fast, assign(ratedJob, 0, i*10))
	}
	for name, tt := range map[string]struct {
		changes []change
		want    string
	}{
		"as many as may":     {[]change{one, two, ended(one), three}, ""},
		"of two keys":        {[]change{one, two, assign(limitedJob, 2, 0)}, ""},
		"one too many":       {[]change{one, two, three}, "the limit is 2"},
		"a rate":             {fast[:rateMax+rateBurst-1], ""},
		"too fast":           {fast, "2s allows 5"},
		"two of one key":     {[]change{unique(job.Pending), unique(job.Pending)}, "2 tasks of the unique key u"},
		"one after it ended": {[]change{unique(job.Success), unique(job.Pending)}, ""},
	} {
		c := newCheck(History{}, Limits{})
		w := newLimitWatch(c)
		w.see(tt.changes)
		w.done(v)
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, tt.want) || tt.want == "" && found != "" {
			t.Errorf("%s: found %q", name, found)
		}
	}
}

func TestChecksFindAttemptsBeyondALimitAtWorkers(t *testing.T) {
	a := Attempt{Task: "t", Job: limitedJob, Payload: `{"k": 1}`, Start: at(0), End: at(100)}
	later := a
	later.Start, later.End = at(100), at(200)
	held := a
	held.Frozen = true
	for name, tt := range map[string]struct {
		attempts []Attempt
		want     bool
	}{
		"three":                {[]Attempt{a, a, a}, true},
		"two, then one":        {[]Attempt{a, a, later}, false},
		"one of them was held": {[]Attempt{a, a, held}, false},
	} {
		c := newCheck(History{Attempts: tt.attempts}, Limits{})
		if c.sweep(); len(c.found) > 0 != tt.want {
			t.Errorf("%s: found %q", name, c.found)
		}
	}
}

func TestChecksFindBreakersThatMiscount(t *testing.T) {
	of := breakerOf{"w1", "j"}
	for name, tt := range map[string]struct {
		outcomes []job.Outcome
		held     []fsm.Breaker
		want     string
	}{
		"as counted": {[]job.Outcome{job.OutcomeFailed, job.OutcomeTimeout}, []fsm.Breaker{{Kind: fsm.BreakerWorkerJob, Worker: "w1", Job: "j", Failures: 2}}, ""},
		"a success":  {[]job.Outcome{job.OutcomeFailed, job.OutcomeSuccess}, nil, ""},
		"lost":       {[]job.Outcome{job.OutcomeLost}, nil, ""},
		"none":       {[]job.Outcome{job.OutcomeFailed}, nil, "its breaker counts 0"},
		"too many":   {nil, []fsm.Breaker{{Kind: fsm.BreakerWorkerJob, Worker: "w1", Job: "j", Failures: 2}}, "that no attempt shows"},
		"while it is open": {
			[]job.Outcome{2, 2, 2, 2, 2, 2}, []fsm.Breaker{{Kind: fsm.BreakerWorkerJob, Worker: "w1", Job: "j", Failures: 5, OpenUntil: breakFor}}, "",
		},
		"for too short": {
			[]job.Outcome{2, 2, 2, 2, 2}, []fsm.Breaker{{Kind: fsm.BreakerWorkerJob, Worker: "w1", Job: "j", Failures: 5, OpenUntil: 7}}, "is open until",
		},
		"not opened": {
			[]job.Outcome{2, 2, 2, 2, 2}, []fsm.Breaker{{Kind: fsm.BreakerWorkerJob, Worker: "w1", Job: "j", Failures: 5}}, "its breaker is closed",
		},
	} {
		c := newCheck(History{}, Limits{})
		w := newBreakerWatch(c)
		for _, o := range tt.outcomes {
			w.ended(of, o, 0)
		}
		w.compare(tt.held)
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, tt.want) || tt.want == "" && found != "" {
			t.Errorf("%s: found %q", name, found)
		}
	}
}
