package fsm

import (
	"github.com/axd-project/axd/job"
)

// fataler is a test, or a run of a property.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// world is a machine whose runs tests drive: it stands for the leader and for the
// workers.
type world struct {
	t     fataler
	tx    *memTx
	m     *Machine
	index uint64
	now   int64
	owing map[RunRef]bool // by events
	quick bool            // leave out Check
	log   []logged
}

// largeState is how many rows a state has whose Check takes much of a test's time.
const largeState = 400

func newWorld(t fataler) *world {
	t.Helper()
	w := &world{t: t, tx: newMemTx(), m: NewMachine(), now: scriptStart, owing: map[RunRef]bool{}}
	none := 0
	w.do(
		PutJob{Namespace: "default", Name: "true", Spec: job.Spec{
			Executor: job.Executor{Handler: "h"}, Policy: job.Policy{Retry: &job.Retry{MaxRetries: &none}},
		}},
		RegisterWorker{Name: "w1", Boot: "b1", Slots: 1000},
	)
	return w
}

// do applies commands as one entry.
func (w *world) do(commands ...Command) []Result {
	w.t.Helper()
	results := w.try(commands...)
	for i, r := range results {
		if r.Err != nil {
			w.t.Fatalf("%T: %v", commands[i], r.Err)
		}
	}
	return results
}

func (w *world) try(commands ...Command) []Result {
	w.t.Helper()
	e := Entry{At: w.now}
	for _, c := range commands {
		b, err := EncodeCommand(c)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		e.Commands = append(e.Commands, b)
	}
	b, err := EncodeEntry(e)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	w.index++
	if !w.quick {
		w.log = append(w.log, logged{Meta{Index: w.index}, b})
	}
	results, events, err := w.m.Apply(w.tx, Meta{Index: w.index}, b)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	for _, e := range events {
		if e.Kind == EventRunOwed {
			w.owing[e.Run.Ref()] = true
		}
	}
	if !w.quick && (w.tx.tree.Len() < largeState || w.index%checkLarge == 0) {
		w.check()
	}
	return results
}

func (w *world) check() {
	w.t.Helper()
	if broken := Check(w.tx, 10); broken != nil {
		w.t.Fatalf("entry %d: %q", w.index, broken)
	}
}

// settle continues what is owed, and returns how many commands it took.
func (w *world) settle() (commands int) {
	w.t.Helper()
	for _, ref := range ListOwingRuns(w.tx, 1000) {
		if !w.owing[ref] {
			w.t.Fatalf("run %s owes work, and no event told so", ref.ID)
		}
		for more := true; more; commands++ {
			more = w.do(ContinueRun{Ref: ref})[0].More
		}
	}
	clear(w.owing)
	return commands
}

func (w *world) put(name string, spec job.WorkflowSpec) {
	w.t.Helper()
	w.do(PutWorkflow{Namespace: "default", Name: name, Spec: spec})
}

func (w *world) start(name string) RunRef {
	w.t.Helper()
	ref := w.do(StartRun{Namespace: "default", Workflow: name})[0].Run.Ref()
	w.settle()
	return ref
}

func (w *world) run(ref RunRef) Run {
	w.t.Helper()
	run, ok := GetRun(w.tx, ref)
	if !ok {
		w.t.Fatalf("run %s is gone", ref.ID)
	}
	return run
}

// steps returns all steps of a run by name.
func (w *world) steps(ref RunRef) map[string]RunStep {
	w.t.Helper()
	all := map[string]RunStep{}
	for cursor := ""; ; {
		page, next, err := ListRunSteps(w.tx, ref, cursor, 1000)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		for _, s := range page {
			all[s.Record.Step] = s
		}
		if cursor = next; cursor == "" {
			return all
		}
	}
}

// finish gives a pending task to the worker and ends it.
func (w *world) finish(t *Task, o job.Outcome) {
	w.t.Helper()
	w.do(w.ending(t, o)...)
}

// ending assigns a pending task and returns the command that ends it.
func (w *world) ending(t *Task, o job.Outcome) []Command {
	w.t.Helper()
	r := w.do(Assign{Items: []AssignItem{{Ref: t.Ref(), Version: t.Version, Worker: "w1", Boot: "b1"}}})[0].Assigned[0]
	if r.Err != nil {
		w.t.Fatalf("assign step %s: %v", t.Step, r.Err)
	}
	return []Command{Finished{AttemptRef: AttemptRef{t.Ref(), r.Token}, Result: AttemptResult{Outcome: o}}}
}

// end ends a step that is pending, and does what follows.
func (w *world) end(ref RunRef, step string, o job.Outcome) {
	w.t.Helper()
	s, ok := w.steps(ref)[step]
	if !ok || s.Record.State != job.Pending {
		w.t.Fatalf("step %s is %v, not pending", step, s.Record.State)
	}
	w.finish(&s.Record, o)
	w.settle()
}

func (w *world) want(ref RunRef, state job.RunState, steps map[string]string) {
	w.t.Helper()
	run, got := w.run(ref), w.steps(ref)
	for name, want := range steps {
		if s := got[name].Record.State.String(); s != want {
			w.t.Fatalf("step %s is %s, want %s", name, s, want)
		}
	}
	if run.State != state {
		w.t.Fatalf("the run is %v, want %v", run.State, state)
	}
}

func stepOf(name string, rule job.Rule, needs ...string) job.Step {
	return job.Step{Name: name, Job: "true", Rule: rule, Needs: needs}
}
