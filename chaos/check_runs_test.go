package chaos

import (
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

// TestJudgeFollowsTheGuide: each rule over what may have become of two steps, 0 standing
// for one that has not ended.
func TestJudgeFollowsTheGuide(t *testing.T) {
	const s, f, k, u, o = job.Success, job.Failed, job.Skipped, job.UpstreamFailed, job.State(0)
	for rule, cases := range map[job.Rule]map[[2]job.State]verdict{
		"":                       {{s, s}: begins, {s, o}: waits, {f, o}: waits, {s, f}: fails, {s, k}: skips, {u, k}: fails},
		job.AllDone:              {{f, k}: begins, {f, o}: waits},
		job.AllFailed:            {{f, u}: begins, {f, s}: skips, {f, o}: waits},
		job.OneSuccess:           {{s, o}: begins, {f, o}: waits, {f, k}: fails, {k, k}: skips},
		job.OneFailed:            {{f, o}: begins, {u, o}: begins, {s, k}: skips},
		job.OneDone:              {{f, o}: begins, {s, o}: begins, {k, o}: waits, {k, k}: skips},
		job.NoneFailed:           {{s, k}: begins, {k, k}: begins, {s, o}: waits, {s, f}: fails},
		job.NoneFailedMinSuccess: {{s, k}: begins, {k, k}: skips, {k, u}: fails},
		job.Always:               {{o, o}: begins},
	} {
		for needs, want := range cases {
			if got := judge(rule, needs[:]); got != want {
				t.Errorf("rule %s after %v gives %d, not %d", rule, needs, got, want)
			}
		}
	}
	if judge("", nil) != begins {
		t.Error("a step that needs nothing does not begin")
	}
}

// ran is a run of rulesFlow whose first step failed and third was skipped, and one of
// outerFlow for the items 1 and 2, with what its steps ran.
func ran() History {
	h := History{Plan: Plan{Length: time.Minute}, Dumps: []Dump{{Tasks: map[string]fsm.Task{}, Runs: map[string]RunDump{}}}}
	n := uint64(0)
	add := func(run *RunDump, name string, state job.State, payloads ...string) {
		n++
		s := StepDump{Name: name, Task: job.NewID(1, n, 0).String()}
		h.Dumps[0].Tasks[s.Task] = fsm.Task{State: state}
		for i, p := range payloads {
			task := s.Task
			if len(payloads) > 1 {
				task = job.NewID(2, n, uint32(i)).String()
			}
			s.Tasks = append(s.Tasks, task)
			h.Attempts = append(h.Attempts, Attempt{Task: task, OK: state == job.Success, Payload: p})
		}
		run.Steps = append(run.Steps, s)
	}
	rules := RunDump{Workflow: rulesFlow, State: job.RunSuccess, Params: `{"mask": 5}`}
	add(&rules, "a", job.Failed, "{}")
	add(&rules, "b", job.Success, "{}")
	add(&rules, "c", job.Skipped)
	for rule, state := range map[job.Rule]job.State{
		job.AllSuccess: job.UpstreamFailed, job.AllDone: job.Success, job.AllFailed: job.Skipped, job.OneSuccess: job.Success,
		job.OneFailed: job.Success, job.OneDone: job.Success, job.NoneFailed: job.UpstreamFailed,
		job.NoneFailedMinSuccess: job.UpstreamFailed, job.Always: job.Success,
	} {
		if state == job.Success {
			add(&rules, string(rule), state, "{}")
		} else {
			add(&rules, string(rule), state)
		}
	}
	add(&rules, "last", job.Success, "{}")
	add(&rules, "tell", job.Skipped)
	add(&rules, "end", job.Success, "{}")
	outer := RunDump{Workflow: outerFlow, State: job.RunSuccess, Params: `{"ms": 3, "list": [1, 2]}`}
	add(&outer, "first", job.Success, `{"run_ms": 3}`)
	add(&outer, "even", job.Skipped)
	add(&outer, "fan", job.Success, `{"run_ms": 80}`, `{"run_ms": 40}`)
	add(&outer, "sub", job.Success)
	add(&outer, "join", job.Success, "{}")
	add(&outer, "end", job.Success, "{}")
	inner := RunDump{Workflow: innerFlow, State: job.RunSuccess, Params: `{"ms": 3}`, Parent: "o", Step: "sub"}
	add(&inner, "a", job.Success, `{"run_ms": 3}`)
	add(&inner, "b", job.Success, "{}")
	h.Dumps[0].Runs = map[string]RunDump{"r": rules, "o": outer, "i": inner}
	h.Calls = []Call{{Verb: StartRun, Object: "r", Key: "k"}}
	return h
}

func TestChecksFindBrokenRuns(t *testing.T) {
	state := func(h *History, run, step string, is job.State) {
		for _, s := range h.Dumps[0].Runs[run].Steps {
			if s.Name == step {
				h.Dumps[0].Tasks[s.Task] = fsm.Task{State: is}
			}
		}
	}
	edit := func(h *History, run string, change func(*RunDump)) {
		r := h.Dumps[0].Runs[run]
		change(&r)
		h.Dumps[0].Runs[run] = r
	}
	for want, break_ := range map[string]func(h *History){
		"":                             func(*History) {},
		"and is missing":               func(h *History) { h.Calls[0].Object = "x" },
		"acknowledged with r and with": func(h *History) { h.Calls = append(h.Calls, Call{Verb: StartRun, Object: "o", Key: "k"}) },
		"run r is running at the end":  func(h *History) { edit(h, "r", func(r *RunDump) { r.State = job.RunRunning }) },
		"its workflow":                 func(h *History) { edit(h, "r", func(r *RunDump) { r.Steps = r.Steps[1:] }) },
		"step all_success is success":  func(h *History) { state(h, "r", "all_success", job.Success) },
		"step one_failed is skipped":   func(h *History) { state(h, "r", "one_failed", job.Skipped) },
		"step tell is success":         func(h *History) { state(h, "r", "tell", job.Success) },
		"step end is skipped":          func(h *History) { state(h, "r", "end", job.Skipped) },
		"step c is success":            func(h *History) { state(h, "r", "c", job.Success) },
		"step even is success":         func(h *History) { state(h, "o", "even", job.Success) },
		"by its steps it is success":   func(h *History) { edit(h, "r", func(r *RunDump) { r.State = job.RunFailed }) },
		"by its steps it is failed":    func(h *History) { state(h, "r", "b", job.Failed) },
		"and no run of it is":          func(h *History) { edit(h, "i", func(r *RunDump) { r.Parent = "" }) },
		"they were to give [40 80]":    func(h *History) { edit(h, "o", func(r *RunDump) { r.Steps[2].Tasks = r.Steps[2].Tasks[:1] }) },
		"its parameter says 4":         func(h *History) { edit(h, "o", func(r *RunDump) { r.Params = `{"ms": 4, "list": [1, 2]}` }) },
		"which no worker saw":          func(h *History) { h.Attempts[1].OK = false },
		"of its attempts ran": func(h *History) {
			edit(h, "r", func(r *RunDump) {
				r.Steps[2].Tasks = []string{r.Steps[2].Task}
				h.Attempts = append(h.Attempts, Attempt{Task: r.Steps[2].Task})
			})
		},
		"the mask 7 has it fail": func(h *History) { edit(h, "r", func(r *RunDump) { r.Params = `{"mask": 7}` }) },
	} {
		h := ran()
		break_(&h)
		c := newCheck(h, Limits{})
		c.graphs()
		if found := strings.Join(c.found, "\n"); !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("runs of which something is %q gave %q", want, found)
		}
	}
}

// watched follows changes of the steps of a run of smallFlow.
func watched(changes ...change) []string {
	c := newCheck(History{}, Limits{})
	w := newGraphWatch(c)
	run := job.NewID(9, 9, 9)
	r := &watchedRun{steps: map[string]*job.Step{}, states: map[string]job.State{}, begun: map[string]int{}}
	spec := flows()[smallFlow]
	for i := range spec.Steps {
		r.steps[spec.Steps[i].Name] = &spec.Steps[i]
	}
	w.runs[run.String()] = r
	for i := range changes {
		changes[i].is.Run = run
		w.see(changes[i : i+1])
	}
	return c.found
}

func TestChecksFindAStepThatBeginsTooEarlyOrTwice(t *testing.T) {
	v := store.NewMemory().View()
	defer v.Close()
	is := func(step string, was, state job.State) change {
		return change{view: v, was: fsm.Task{State: was, Version: 1}, is: fsm.Task{Step: step, State: state, Version: 2}}
	}
	begin := func(step string) change { return is(step, job.Blocked, job.Pending) }
	ended := func(step string) change { return is(step, job.Running, job.Success) }
	for want, changes := range map[string][]change{
		"":                       {begin("extract"), ended("extract"), begin("clean"), begin("count"), ended("count"), ended("clean"), begin("report")},
		"begins step report":     {begin("extract"), ended("extract"), begin("clean"), ended("clean"), begin("report")},
		"begins step clean":      {begin("extract"), is("extract", job.Running, job.Failed), begin("clean")},
		"for the 2th time":       {begin("extract"), begin("extract")},
		"begins step count of r": {begin("count")},
	} {
		found := strings.Join(watched(changes...), "\n")
		if !strings.Contains(found, want) || want == "" && found != "" {
			t.Errorf("changes in which something is %q gave %q", want, found)
		}
	}
}
