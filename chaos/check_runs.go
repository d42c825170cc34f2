package chaos

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// verdict is what a rule says, by the guide, of a step that needs others.
type verdict int

const (
	waits verdict = iota
	begins
	skips
	fails // upstream
)

// judge is a rule for steps that need those of the given states; 0 is one that has not
// ended.
func judge(rule job.Rule, needs []job.State) verdict {
	var success, failed, skipped, open, upstream int
	for _, s := range needs {
		switch s {
		case job.Success:
			success++
		case job.Skipped:
			skipped++
		case job.UpstreamFailed:
			failed++
			upstream++
		case job.Failed, job.TimedOut, job.Cancelled:
			failed++
		default:
			open++
		}
	}
	n := len(needs)
	var holds, early bool
	switch rule {
	case job.AllDone:
		holds = open == 0
	case job.AllFailed:
		holds = failed == n
	case job.OneSuccess:
		holds, early = success > 0, true
	case job.OneFailed:
		holds, early = failed > 0, true
	case job.OneDone:
		holds, early = success+failed-upstream > 0, true
	case job.NoneFailed:
		holds = failed == 0 && open == 0
	case job.NoneFailedMinSuccess:
		holds = failed == 0 && open == 0 && success > 0
	case job.Always:
		holds, early = true, true
	default:
		holds = success == n
	}
	wantsFailure := rule == job.AllFailed || rule == job.OneFailed
	switch {
	case n == 0 || holds && (early || open == 0):
		return begins
	case open > 0:
		return waits
	case failed > 0 && !wantsFailure:
		return fails
	}
	return skips
}

// graphs: no run that was acknowledged is missing, and a repeated start is the first;
// each run ends; its steps have the states that follow from the graph, and the run the
// one that follows from them.
func (c *check) graphs() {
	if len(c.Dumps) == 0 {
		return
	}
	runs := c.Dumps[0].Runs
	keyed := map[string]string{}
	for _, call := range c.Calls {
		if call.Verb != StartRun || call.Code != "" {
			continue
		}
		if _, ok := runs[call.Object]; !ok {
			c.broken("run %s was acknowledged and is missing", call.Object)
		}
		if first := keyed[call.Key]; call.Key != "" && first != "" && first != call.Object {
			c.broken("the start of a run under key %s was acknowledged with %s and with %s", call.Key, first, call.Object)
		}
		keyed[call.Key] = call.Object
	}
	all := flows()
	for _, id := range slices.Sorted(maps.Keys(runs)) {
		run := runs[id]
		if !run.State.Terminal() {
			c.broken("run %s is %s at the end", id, run.State)
		}
		spec, ok := all[run.Workflow]
		if !ok {
			continue
		}
		g := &graphCheck{check: c, id: id, run: run, spec: spec, states: map[string]job.State{}, tasks: map[string]*StepDump{}}
		g.look()
	}
}

type graphCheck struct {
	*check
	id     string
	run    RunDump
	spec   job.WorkflowSpec
	states map[string]job.State
	tasks  map[string]*StepDump
	params struct {
		MS   int   `json:"ms"`
		List []int `json:"list"`
		Mask int   `json:"mask"`
	}
}

func (g *graphCheck) look() {
	_ = json.Unmarshal([]byte(g.run.Params), &g.params) // a run without has none
	for i := range g.run.Steps {
		s := &g.run.Steps[i]
		g.states[s.Name], g.tasks[s.Name] = g.Dumps[0].Tasks[s.Task].State, s
	}
	if len(g.states) != g.spec.Count() {
		g.broken("run %s has %d steps, its workflow %d", g.id, len(g.states), g.spec.Count())
		return
	}
	if g.touched[g.id] {
		return
	}
	failed := false
	for _, section := range g.spec.Sections() {
		runs := section.Name != job.SectionOnFailure || failed && g.run.State != job.RunCancelled || g.run.State == job.RunTimedOut
		for i := range section.Steps {
			s := &section.Steps[i]
			g.step(s, runs && (!g.run.Stopped || section.Name == job.SectionFinally))
			state := g.states[s.Name]
			bad := state == job.Failed || state == job.TimedOut || state == job.Cancelled || state == job.UpstreamFailed
			failed = failed || bad && !s.AllowFailure
		}
	}
	want := job.RunSuccess
	if failed {
		want = job.RunFailed
	}
	if !g.run.Stopped && g.run.State != want {
		g.broken("run %s is %s: by its steps it is %s", g.id, g.run.State, want)
	}
}

// step judges the end of one step; runs tells whether its section has run.
func (g *graphCheck) step(s *job.Step, runs bool) {
	state, dump := g.states[s.Name], g.tasks[s.Name]
	if g.run.Stopped && !runs {
		return // however far it had come
	}
	needs := make([]job.State, len(s.Needs))
	for i, need := range s.Needs {
		needs[i] = g.states[need]
	}
	want := judge(s.RuleOrDefault(), needs)
	if !runs {
		want = skips
	}
	ran := 0
	for _, task := range dump.Tasks {
		ran += len(g.runs[task])
	}
	switch {
	case want == fails && state != job.UpstreamFailed, want == skips && state != job.Skipped,
		want == begins && (state == job.UpstreamFailed || state == job.Skipped && g.when(s)), want == begins && state == job.Success && !g.when(s):
		g.broken("run %s: step %s is %s, after %v under the rule %s", g.id, s.Name, state, needs, s.RuleOrDefault())
	case (state == job.Skipped || state == job.UpstreamFailed) && ran > 0:
		g.broken("run %s: step %s is %s, and %d of its attempts ran", g.id, s.Name, state, ran)
	case state == job.Success:
		g.success(s, dump)
	}
}

// when is the condition of a step, said another way.
func (g *graphCheck) when(s *job.Step) bool {
	switch {
	case s.When == "":
		return true
	case s.Name == "even":
		return g.params.MS%2 == 0
	}
	return g.params.Mask < skipsC
}

// success judges what a step that succeeded has done.
func (g *graphCheck) success(s *job.Step, dump *StepDump) {
	ranWith := func(task string) (b behaviour, ok bool) {
		for _, a := range g.runs[task] {
			if a.OK {
				ok = json.Unmarshal([]byte(a.Payload), &b) == nil
			}
		}
		return b, ok
	}
	switch {
	case s.Workflow != "":
		for _, child := range g.Dumps[0].Runs {
			if child.Parent == g.id && child.Step == s.Name && child.State == job.RunSuccess {
				return
			}
		}
		g.broken("run %s: step %s is a success, and no run of it is", g.id, s.Name)
	case s.ForEach != nil:
		var want, got []int
		for _, item := range g.params.List {
			want = append(want, item*40)
		}
		for _, task := range dump.Tasks {
			if b, ok := ranWith(task); ok {
				got = append(got, int(b.RunMS))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(want, got) {
			g.broken("run %s: step %s has run for items that gave %v, they were to give %v", g.id, s.Name, got, want)
		}
	default:
		b, ok := ranWith(dump.Task)
		switch {
		case !ok:
			g.broken("run %s: step %s is a success, which no worker saw", g.id, s.Name)
		case (s.Name == "first" || s.Name == "a" && g.run.Workflow == innerFlow) && int(b.RunMS) != g.params.MS:
			g.broken("run %s: step %s ran for %d ms, its parameter says %d", g.id, s.Name, b.RunMS, g.params.MS)
		case g.run.Workflow == rulesFlow && (s.Name == "a" && g.params.Mask&failsA != 0 || s.Name == "b" && g.params.Mask&failsB != 0):
			g.broken("run %s: step %s is a success, the mask %d has it fail", g.id, s.Name, g.params.Mask)
		}
	}
}

// graphWatch follows the steps of runs, entry by entry: none begins before its rule
// holds, and each once.
type graphWatch struct {
	*check
	all  map[string]job.WorkflowSpec
	runs map[string]*watchedRun
}

type watchedRun struct {
	steps  map[string]*job.Step
	states map[string]job.State
	begun  map[string]int
}

func newGraphWatch(c *check) *graphWatch {
	return &graphWatch{check: c, all: flows(), runs: map[string]*watchedRun{}}
}

func (w *graphWatch) done(fsm.Reader) {}

func (w *graphWatch) see(entry []change) {
	for i := range entry { // first what has ended: the same entry may begin what waited for it
		ch := &entry[i]
		if r := w.run(ch); r != nil && ch.is.Item == 0 {
			r.states[ch.is.Step] = 0
			if ch.is.State.Terminal() {
				r.states[ch.is.Step] = ch.is.State
			}
		}
	}
	for i := range entry {
		w.one(&entry[i])
	}
}

func (w *graphWatch) one(ch *change) {
	r := w.run(ch)
	if r == nil || ch.is.State.Terminal() || ch.is.State == job.Blocked || ch.was.State != job.Blocked && ch.was.Version != 0 {
		return
	}
	id := ch.is.Run.String()
	if ch.is.Item == 0 {
		if r.begun[ch.is.Step]++; r.begun[ch.is.Step] > 1 && !w.touched[id] {
			w.broken("entry %d releases step %s of run %s for the %dth time", ch.index, ch.is.Step, id, r.begun[ch.is.Step])
		}
	}
	w.began(id, r, ch.is.Step, ch.index)
}

// run finds the run that a task is of, if its workflow is known. That it is there
// begins the step that it is.
func (w *graphWatch) run(ch *change) *watchedRun {
	if ch.is.Run.IsZero() {
		return nil
	}
	id := ch.is.Run.String()
	if r, ok := w.runs[id]; ok {
		return r
	}
	row, _ := fsm.GetRun(ch.view, fsm.RunRef{Namespace: ch.is.Namespace, ID: ch.is.Run})
	spec, known := w.all[row.Workflow]
	if !known {
		return nil
	}
	r := &watchedRun{steps: map[string]*job.Step{}, states: map[string]job.State{}, begun: map[string]int{}}
	for _, section := range spec.Sections() {
		for i := range section.Steps {
			r.steps[section.Steps[i].Name] = &section.Steps[i]
		}
	}
	w.runs[id] = r
	if outer := w.runs[row.Trigger.Run.String()]; outer != nil {
		w.began(row.Trigger.Run.String(), outer, row.Trigger.Step, ch.index)
	}
	return r
}

// began judges the begin of a step, or of one of its items.
func (w *graphWatch) began(id string, r *watchedRun, name string, index uint64) {
	s := r.steps[name]
	if s == nil || w.touched[id] {
		return
	}
	needs := make([]job.State, len(s.Needs))
	for i, need := range s.Needs {
		needs[i] = r.states[need]
	}
	if judge(s.RuleOrDefault(), needs) != begins {
		w.broken("entry %d begins step %s of run %s before its rule %s holds: what it needs is %v", index, name, id, s.RuleOrDefault(), needs)
	}
}
