package fsm

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/axd-project/axd/job"
)

// runOracle is what a run does, written a second time: it knows the steps that began,
// or were set by hand, and works all others out anew from those, again and again until
// nothing changes, with no counters and no order.
type runOracle struct {
	spec   job.WorkflowSpec
	held   map[string]string // state of what has begun or was set: pending, success, ...
	frozen map[string]string // states kept until a section's time comes again
	failed bool              // whether on_failure's steps are to run
	phase  int
	stop   job.RunState
}

func (o *runOracle) section(name string) (int, *job.Step) {
	for i, s := range o.spec.Sections() {
		for j := range s.Steps {
			if s.Steps[j].Name == name {
				return i, &s.Steps[j]
			}
		}
	}
	panic(name)
}

// states works out the state of every step.
func (o *runOracle) states() map[string]string {
	states := map[string]string{}
	for i, section := range o.spec.Sections() {
		for left := len(section.Steps); left >= 0; left-- { // any order comes to rest
			for j := range section.Steps {
				s := &section.Steps[j]
				states[s.Name] = o.state(states, i, s)
			}
		}
	}
	return states
}

func (o *runOracle) state(states map[string]string, section int, s *job.Step) string {
	if st, ok := o.held[s.Name]; ok {
		return st
	}
	if st, ok := o.frozen[s.Name]; ok {
		return st
	}
	if o.phase < section {
		return "blocked"
	}
	if section == 1 && !o.failed {
		return "skipped"
	}
	var n job.Needs
	for _, name := range s.Needs {
		n.Total++
		switch states[name] {
		case "success":
			n.Success++
		case "failed", "timeout", "cancelled":
			n.Failed++
		case "skipped":
			n.Skipped++
		case "upstream_failed":
			n.Upstream++
		}
	}
	switch s.RuleOrDefault().Decide(n) {
	case job.DecideBegin:
		return "begins"
	case job.DecideSkip:
		return "skipped"
	case job.DecideFail:
		return "upstream_failed"
	}
	return "blocked"
}

func open(state string) bool { return state == "blocked" || state == "pending" || state == "begins" }

// settle begins what may begin, section by section, and returns the states and the
// run's state.
func (o *runOracle) settle() (map[string]string, job.RunState) {
	for {
		states := o.states()
		began := false
		for name, st := range states {
			if st == "begins" {
				o.held[name], began = "pending", true
			}
		}
		if began {
			continue
		}
		if o.anyOpen(states, o.phase) {
			return states, job.RunRunning
		}
		if o.phase == sectionFinally {
			return states, o.end(states)
		}
		o.phase++
		for _, s := range o.spec.Sections()[o.phase].Steps {
			if o.stop == 0 || o.phase == sectionFinally {
				delete(o.frozen, s.Name)
			}
		}
		if o.phase == sectionOnFailure {
			o.failed = o.stop == 0 && o.end(states) == job.RunFailed
		}
	}
}

func (o *runOracle) anyOpen(states map[string]string, section int) bool {
	for _, s := range o.spec.Sections()[section].Steps {
		if open(states[s.Name]) {
			return true
		}
	}
	return false
}

func (o *runOracle) end(states map[string]string) job.RunState {
	if o.stop != 0 {
		return o.stop
	}
	for name, st := range states {
		_, s := o.section(name)
		if !s.AllowFailure && slices.Contains([]string{"failed", "timeout", "cancelled", "upstream_failed"}, st) {
			return job.RunFailed
		}
	}
	return job.RunSuccess
}

// free makes a step follow its needs again.
func (o *runOracle) free(name string) {
	delete(o.held, name)
	delete(o.frozen, name)
	o.thaw(name)
}

// thaw has those follow again that need a step whose outcome has changed.
func (o *runOracle) thaw(name string) {
	section, _ := o.section(name)
	for _, s := range o.spec.Sections()[section].Steps {
		if _, frozen := o.frozen[s.Name]; frozen && slices.Contains(s.Needs, name) {
			delete(o.frozen, s.Name)
			o.thaw(s.Name)
		}
	}
}

// reopens lowers the phase to the first section with a step that is open again.
func (o *runOracle) reopens(states map[string]string) {
	for section := range o.phase {
		if o.anyOpen(states, section) {
			all := o.spec.Sections()
			for _, later := range all[section+1:] { // stays as it is until its time comes again
				for _, s := range later.Steps {
					if o.held[s.Name] == "" && !open(states[s.Name]) {
						o.frozen[s.Name] = states[s.Name]
					}
				}
			}
			o.phase = section
			return
		}
	}
}

func drawWorkflow(t *rapid.T) job.WorkflowSpec {
	var spec job.WorkflowSpec
	spec.MaxParallel = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "max parallel")
	for section, most := range []int{8, 2, 2} {
		var steps []job.Step
		for i := range rapid.IntRange(1-min(section, 1), most).Draw(t, "steps") {
			s := stepOf(fmt.Sprintf("%c%d", "mfz"[section], i), "")
			for _, before := range steps {
				if rapid.IntRange(0, 2).Draw(t, "needs") == 0 {
					s.Needs = append(s.Needs, before.Name)
				}
			}
			if len(s.Needs) > 0 {
				s.Rule = rapid.SampledFrom(job.Rules).Draw(t, "rule")
			}
			s.AllowFailure = rapid.IntRange(0, 4).Draw(t, "allow failure") == 0
			steps = append(steps, s)
		}
		switch section {
		case sectionMain:
			spec.Steps = steps
		case sectionOnFailure:
			spec.OnFailure = steps
		default:
			spec.Finally = steps
		}
	}
	return spec
}

// runModel drives a run and its oracle.
type runModel struct {
	t   *rapid.T
	w   *world
	o   *runOracle
	ref RunRef
}

// compare wants the states that the oracle works out. A step that max_parallel
// holds up is blocked, though for the oracle it has begun.
func (m *runModel) compare() {
	want, state := m.o.settle()
	if m.w.m != nil && rapid.IntRange(0, 3).Draw(m.t, "restart") == 0 {
		m.w.m = NewMachine()
	}
	got := m.w.steps(m.ref)
	for name, s := range got {
		is := s.Record.State.String()
		if want[name] == "pending" && s.Phase == StepReady {
			if !s.Fixed { // until then it follows its needs
				delete(m.o.held, name)
			}
			continue
		}
		if is != want[name] {
			m.t.Fatalf("step %s is %s, want %s; all: %v", name, is, want[name], want)
		}
	}
	run := m.w.run(m.ref)
	if run.State != state {
		m.t.Fatalf("the run is %v, want %v; %v", run.State, state, want)
	}
	if most := m.o.spec.MaxParallel; most > 0 && int(run.Counts[job.Pending]) > most {
		m.t.Fatalf("%d tasks at once, at most %d may be", run.Counts[job.Pending], most)
	}
	if busy := run.Counts[job.Pending]; busy == 0 && run.Ready > 0 {
		m.t.Fatalf("%d steps wait for nothing", run.Ready)
	}
}

// pick draws one of the steps that something is true of.
func (m *runModel) pick(holds func(*RunStep) bool) (string, *RunStep) {
	steps := m.w.steps(m.ref)
	var names []string
	for _, name := range slices.Sorted(maps.Keys(steps)) {
		s := steps[name]
		if holds(&s) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "", nil
	}
	name := rapid.SampledFrom(names).Draw(m.t, "step")
	s := steps[name]
	return name, &s
}

func (m *runModel) finish() {
	name, s := m.pick(func(s *RunStep) bool { return s.Record.State == job.Pending })
	if s == nil {
		return
	}
	o := rapid.SampledFrom([]job.Outcome{job.OutcomeSuccess, job.OutcomeSuccess, job.OutcomeFailed, job.OutcomeTimeout}).Draw(m.t, "outcome")
	m.w.finish(&s.Record, o)
	m.w.settle()
	m.o.held[name] = map[job.Outcome]string{job.OutcomeSuccess: "success", job.OutcomeFailed: "failed", job.OutcomeTimeout: "timeout"}[o]
	m.compare()
}

func (m *runModel) cancelTask() {
	name, s := m.pick(func(s *RunStep) bool { return !s.Record.State.Terminal() })
	if s == nil {
		return
	}
	m.w.do(Cancel{Ref: s.Record.Ref()})
	m.w.settle()
	m.o.held[name] = "cancelled"
	m.compare()
}

// set forces success or skips.
func (m *runModel) set() {
	if m.o.stop != 0 && m.w.run(m.ref).State == job.RunRunning {
		return // refused
	}
	to, state := job.Success, "success"
	if rapid.Bool().Draw(m.t, "skip") {
		to, state = job.Skipped, "skipped"
	}
	name, s := m.pick(func(s *RunStep) bool { return s.Record.State != job.Success && s.Record.State != to })
	if s == nil {
		return
	}
	m.again()
	if to == job.Success {
		m.w.do(ForceSuccess{Ref: m.ref, Step: name})
	} else {
		m.w.do(SkipStep{Ref: m.ref, Step: name})
	}
	m.w.settle()
	m.o.free(name)
	m.o.held[name] = state
	m.o.reopens(m.o.states())
	m.compare()
}

// again takes a run that has ended back, in the oracle.
func (m *runModel) again() {
	if m.w.run(m.ref).State.Terminal() {
		m.o.stop = 0
	}
}

func (m *runModel) replay() {
	name, s := m.pick(func(s *RunStep) bool { return s.Record.Dead })
	if s == nil || m.o.stop != 0 && m.w.run(m.ref).State == job.RunRunning {
		return
	}
	m.again()
	m.w.do(DeadLetters{Namespace: "default", Replay: true, IDs: []job.ID{s.Record.ID}})
	m.w.settle()
	m.o.free(name)
	m.o.held[name] = "pending"
	m.o.reopens(m.o.states())
	m.compare()
}

func (m *runModel) rerun() {
	run := m.w.run(m.ref)
	if m.o.stop != 0 && run.State == job.RunRunning {
		return
	}
	states := m.o.states()
	c := RerunRun{Ref: m.ref, Mode: RerunFailed}
	about := func(name string) bool {
		return slices.Contains([]string{"failed", "timeout", "cancelled"}, states[name])
	}
	mode := rapid.SampledFrom([]RerunMode{RerunFailed, RerunFrom, RerunOne}).Draw(m.t, "mode")
	if mode == RerunOne {
		m.rerunOne()
		return
	}
	if mode == RerunFrom {
		name, s := m.pick(func(s *RunStep) bool { return s.Record.State.Terminal() })
		if s == nil {
			return
		}
		c.Mode, c.Step = RerunFrom, name
		below := m.below(name)
		about = func(name string) bool { return below[name] }
	} else if run.Counts[job.Failed]+run.Counts[job.TimedOut]+run.Counts[job.Cancelled] == 0 {
		return
	}
	m.o.stop = 0
	m.w.do(c)
	m.w.settle()
	for name := range states {
		section, _ := m.o.section(name)
		if !open(states[name]) && (section > 0 || about(name)) {
			m.o.free(name)
		}
	}
	m.o.phase = 0
	m.compare()
}

// rerunOne runs a step again: what has ended and not begun stays as it is.
func (m *runModel) rerunOne() {
	name, s := m.pick(func(s *RunStep) bool { return s.Record.State.Terminal() })
	if s == nil {
		return
	}
	m.again()
	m.w.do(RerunRun{Ref: m.ref, Mode: RerunOne, Step: name})
	m.w.settle()
	section, _ := m.o.section(name)
	states := m.o.states()
	m.o.free(name)
	m.o.held[name] = "pending"
	for _, child := range m.o.spec.Sections()[section].Steps {
		st := states[child.Name]
		if slices.Contains(child.Needs, name) && m.o.held[child.Name] == "" && !open(st) {
			m.o.held[child.Name] = st
		}
	}
	m.o.reopens(m.o.states())
	m.compare()
}

func (m *runModel) below(name string) map[string]bool {
	below := map[string]bool{name: true}
	for _, section := range m.o.spec.Sections() {
		for range section.Steps {
			for _, s := range section.Steps {
				if slices.ContainsFunc(s.Needs, func(n string) bool { return below[n] }) {
					below[s.Name] = true
				}
			}
		}
	}
	return below
}

func (m *runModel) cancelRun() {
	if rapid.IntRange(0, 3).Draw(m.t, "really") > 0 || m.w.run(m.ref).State != job.RunRunning || m.o.stop != 0 {
		return
	}
	states := m.o.states()
	m.w.do(CancelRun{Ref: m.ref})
	m.w.settle()
	m.o.stop = job.RunCancelled
	for name, st := range states {
		if section, _ := m.o.section(name); section < sectionFinally && open(st) {
			m.o.held[name] = "cancelled"
		} else if section == sectionOnFailure && m.o.held[name] == "" {
			m.o.frozen[name] = st
		}
	}
	m.compare()
}

// TestRunModel holds runs of random workflows to the oracle.
func TestRunModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &runModel{t: t, w: newWorld(t)}
		m.o = &runOracle{spec: drawWorkflow(t), held: map[string]string{}, frozen: map[string]string{}}
		r := m.w.try(PutWorkflow{Namespace: "default", Name: "w", Spec: m.o.spec})[0]
		if r.Err != nil {
			t.Skip(r.Err) // a rule that contradicts another
		}
		m.ref = m.w.start("w")
		m.compare()
		acts := []func(){m.finish, m.finish, m.finish, m.finish, m.cancelTask, m.set, m.replay, m.rerun, m.cancelRun}
		for range rapid.IntRange(1, 30).Draw(t, "acts") {
			rapid.SampledFrom(acts).Draw(t, "act")()
		}
		m.w.now += 40 * 24 * 3600 * 1000
		for more := true; more; {
			more = m.w.do(Expire{EndedBefore: m.w.now})[0].More
		}
		tx, machine := newMemTx(), NewMachine() // without restarts it writes the same
		for _, e := range m.w.log {
			mustApply(t, machine, tx, e)
		}
		if got, want := ReadInfo(tx).Chain, ReadInfo(m.w.tx).Chain; got != want {
			t.Fatalf("hash chain %x, want %x", got, want)
		}
	})
}
