package fsm

import (
	"bytes"
	"slices"

	"github.com/axd-project/axd/job"
)

// runTables checks the tables of workflows and runs.
func (c *checker) runTables() {
	c.rows(tableWorkflows, c.workflow)
	c.rows(tableWorkflowVersions, c.workflowVersion)
	c.rows(tableWorkflowJobs, func(k, _ []byte) {
		kr := readKey(k)
		ns, name, workflow := kr.name(), kr.name(), kr.name()
		w, ok := GetWorkflow(c.r, ns, workflow)
		c.want(ok && kr.done() && slices.Contains(jobsOf(w.Spec), name), "job row %x: workflow %s does not name %s", k, workflow, name)
	})
	c.rows(tableNamed, c.named)
	c.rows(tableRuns, c.run)
	c.rows(tableRunParams, func(k, _ []byte) { c.ofRun(k, func(r *Run) bool { return r.HasParams }) })
	c.rows(tableSteps, func(k, _ []byte) {
		kr := readKey(k)
		ref, n := kr.runRef(), kr.u32()
		run, ok := GetRun(c.r, ref)
		c.want(ok && kr.done() && int(n) < run.Steps, "step row %x: its run has %d steps", k, run.Steps)
	})
	c.rows(tableRunsByState, func(k, _ []byte) {
		kr := readKey(k)
		ns, state, id := kr.name(), job.RunState(kr.u8()), kr.id()
		run, _ := GetRun(c.r, RunRef{ns, id})
		c.want(kr.done() && run.State == state, "state row %x of run %s: the run is %v", k, id, run.State)
	})
	c.rows(tableRunsByWorkflow, func(k, _ []byte) {
		kr := readKey(k)
		ns, name, id := kr.name(), kr.name(), kr.id()
		run, _ := GetRun(c.r, RunRef{ns, id})
		c.want(kr.done() && run.Workflow == name, "workflow row %x of run %s: the run is of %q", k, id, run.Workflow)
	})
	c.rows(tableRunOwed, func(k, _ []byte) { c.ofRun(k, (*Run).owes) })
	c.rows(tableRunEnded, func(k, _ []byte) {
		kr := keyReader{rest: k[2:]}
		kr.time()
		run, _ := GetRun(c.r, kr.runRef())
		c.want(run.State.Terminal() && bytes.Equal(k, key{}.runEnded(&run)), "ended row %x: run %s is %v, ended %d", k, run.ID, run.State, run.Ended)
	})
	c.rows(tableRunDeadlines, func(k, _ []byte) {
		kr := readKey(k)
		at := kr.time()
		run, _ := GetRun(c.r, kr.runRef())
		c.want(run.EndBy == at, "deadline row %x: run %s has time until %d", k, run.ID, run.EndBy)
	})
	c.rows(tableRunKeys, func(k, v []byte) {
		kr := readKey(k)
		ns, name := kr.name(), kr.name()
		row, ok := decodeKeyRow(v)
		run, _ := GetRun(c.r, RunRef{ns, row.ID})
		c.want(ok && run.Key == name && run.KeyExpiry == row.Expiry, "run key row %x: run %s has %q", k, run.ID, run.Key)
	})
	c.stepRows(tableStepOwed, func(run *Run, _ *Step) bool { return run.Owes })
	c.stepRows(tableStepReady, func(_ *Run, s *Step) bool { return s.inReady() })
	c.stepRows(tableStepWanted, func(_ *Run, s *Step) bool { return s.WaitsForVerdict() })
	c.rows(tableItems, c.item)
	for ref, n := range c.runTasks {
		c.report("run %s: %d tasks are of it, and none of its steps", ref.ID, n)
	}
}

// ofRun checks a row that a run has while something holds.
func (c *checker) ofRun(k []byte, holds func(*Run) bool) {
	kr := readKey(k)
	run, ok := GetRun(c.r, kr.runRef())
	c.want(ok && kr.done() && holds(&run), "row %x: the run, %v, is to have none", k, run.State)
}

// stepRows checks the rows of a table that steps have while something holds.
func (c *checker) stepRows(table byte, holds func(*Run, *Step) bool) {
	c.rows(table, func(k, _ []byte) {
		kr := readKey(k)
		ref, n := kr.runRef(), kr.u32()
		run, ok := GetRun(c.r, ref)
		s, known := getRow[Step](c.r, key{}.step(ref, n))
		c.want(ok && known && kr.done() && holds(&run, &s), "row %x: step %d of run %s is to have none", k, n, ref.ID)
	})
}

func (c *checker) workflow(k, v []byte) {
	w, ok := record[Workflow](c, k, v)
	if !ok {
		return
	}
	c.want(bytes.Equal(k, key{}.workflow(w.Namespace, w.Name)), "workflow %s/%s: under the key %x", w.Namespace, w.Name, k)
	if w.Deleted {
		return
	}
	row, ok := getRow[workflowRow](c.r, key{}.workflowVersion(w.Namespace, w.Name, w.Version))
	c.want(ok, "workflow %s/%s: version %d is gone", w.Namespace, w.Name, w.Version)
	c.names(namedByWorkflow(w.Namespace, w.Name, &row.Spec))
	for _, name := range jobsOf(&row.Spec) {
		c.want(c.has(key{}.workflowJob(w.Namespace, name, w.Name)), "workflow %s/%s: job %s has no row for it", w.Namespace, w.Name, name)
		c.want(c.has(key{}.job(w.Namespace, name)), "workflow %s/%s: job %s does not exist", w.Namespace, w.Name, name)
	}
}

func (c *checker) workflowVersion(k, v []byte) {
	kr := readKey(k)
	ns, name, version := kr.name(), kr.name(), kr.u64()
	record[workflowRow](c, k, v)
	w, ok := getRow[Workflow](c.r, key{}.workflow(ns, name))
	runs := readCounter(c.r, key{}.counter(countRunVersion).name(ns).name(name).u64(version))
	c.want(ok && version <= w.Version, "version %d of workflow %s/%s: the newest is %d", version, ns, name, w.Version)
	c.want(runs > 0 || !w.Deleted && version+MaxWorkflowVersions > w.Version,
		"version %d of workflow %s/%s: kept beside version %d, and no run uses it", version, ns, name, w.Version)
}

// run checks a run with all its steps.
func (c *checker) run(k, v []byte) {
	run, ok := record[Run](c, k, v)
	if !ok {
		return
	}
	if run.Trigger.Schedule != "" {
		c.firedRun(&run)
	}
	ref := run.Ref()
	c.want(bytes.Equal(k, key{}.run(ref)), "run %s: under the key %x", run.ID, k)
	c.want(c.has(key{}.runByState(run.Namespace, run.State).id(run.ID)), "run %s: has no row by state %v", run.ID, run.State)
	c.want(c.has(key{}.runByWorkflow(run.Namespace, run.Workflow).id(run.ID)), "run %s: has no row by workflow", run.ID)
	c.want(run.owes() == c.has(key{}.runOwed(ref)), "run %s: its row of owed work differs", run.ID)
	c.want(run.State.Terminal() == (run.Ended != 0), "run %s: %v, ended %d", run.ID, run.State, run.Ended)
	c.want(!run.State.Terminal() || c.has(key{}.runEnded(&run)), "run %s: %v without an ended row", run.ID, run.State)
	c.want(run.EndBy == 0 || !run.State.Terminal() && c.has(key{}.runDeadline(run.EndBy, ref)), "run %s: has no row of its deadline", run.ID)
	c.want(run.HasParams == c.has(key{}.runParams(ref)), "run %s: has no parameters", run.ID)
	if run.KeyExpiry > c.clock {
		b, _ := c.r.Get(key{}.runKey(run.Namespace, run.Key))
		row, ok := decodeKeyRow(b)
		c.want(ok && row.ID == run.ID, "run %s: key %q is live, and has no row for it", run.ID, run.Key)
	}
	c.counts[string(key{}.counter(countRuns).u8(byte(run.State)))]++
	c.counts[string(key{}.counter(countRunNamespace).name(run.Namespace).u8(byte(run.State)))]++
	c.counts[string(key{}.counter(countRunWorkflow).name(run.Namespace).name(run.Workflow).u8(byte(run.State)))]++
	c.counts[string(key{}.counter(countRunVersion).name(run.Namespace).name(run.Workflow).u64(run.WorkflowVersion))]++
	w, ok := GetWorkflowVersion(c.r, run.Namespace, run.Workflow, run.WorkflowVersion)
	if !ok {
		c.report("run %s: version %d of workflow %s is gone", run.ID, run.WorkflowVersion, run.Workflow)
		return
	}
	c.runSteps(&run, newGraph(w.Spec))
}

// runSteps checks the steps of a run against their tasks and each other.
func (c *checker) runSteps(run *Run, g *graph) {
	ref := run.Ref()
	c.want(run.Steps == len(g.steps), "run %s: %d steps, the workflow has %d", run.ID, run.Steps, len(g.steps))
	steps := make([]*Step, len(g.steps))
	is := Run{Open: g.sizes()}
	tasks := 0
	for n := range steps {
		s, ok := getRow[Step](c.r, key{}.step(ref, uint32(n)))
		made := run.Act.Kind != ActCreate || uint32(n) < run.Act.At
		gone := run.Act.Kind == ActDelete && uint32(n) < run.Act.At
		c.want(ok == (made && !gone), "run %s: step %s is there: %v", run.ID, g.steps[n].Name, ok)
		if !ok {
			continue
		}
		t, ok := c.taskOf("step", TaskRef{run.Namespace, s.Task})
		if !ok {
			continue
		}
		steps[n] = &s
		tasks += 1 + c.items(ref, &is, g.steps[n].Name, uint32(n), &s)
		c.want(t.Run == run.ID && t.Step == g.steps[n].Name, "step %s of run %s: task %s is of step %q", g.steps[n].Name, run.ID, t.ID, t.Step)
		c.tallyStep(&is, g, uint32(n), &s, &t)
	}
	c.want(tasks == c.runTasks[ref], "run %s: %d tasks are of it, and %d of its steps", run.ID, c.runTasks[ref], tasks)
	delete(c.runTasks, ref)
	if run.Act.Kind == ActDelete {
		is.Open, is.Failed = run.Open, run.Failed
	}
	c.want(is.Counts == run.Counts && is.Items == run.Items && is.Open == run.Open && is.Failed == run.Failed && is.Dead == run.Dead && is.Ready == run.Ready,
		"run %s: counts %v open %v failed %d dead %d ready %d, the steps say %v %v %d %d %d", run.ID,
		run.Counts, run.Open, run.Failed, run.Dead, run.Ready, is.Counts, is.Open, is.Failed, is.Dead, is.Ready)
	c.want(!run.State.Terminal() || run.Open == [sections]uint32{}, "run %s: %v with open steps %v", run.ID, run.State, run.Open)
	if run.Act.Kind != ActDelete && run.Act.Kind != ActCreate {
		for n := range steps {
			c.stepNeeds(run, g, steps, uint32(n))
		}
	}
}

// tallyStep adds a step to what its run counts.
func (c *checker) tallyStep(run *Run, g *graph, n uint32, s *Step, t *Task) {
	run.Counts[countedState(t.State)]++
	if t.Dead {
		run.Dead++
	}
	if s.inReady() {
		run.Ready++
	}
	if s.Now != NoOutcome {
		run.Open[g.section(n)]--
	}
	if !s.Child.IsZero() && s.Phase == StepBegun && s.Now == NoOutcome {
		c.want(c.childOf(t, s.Child), "step %s of run %s: stands for run %s, which has ended, or is another's", t.Step, t.Run, s.Child)
	}
	if s.Now.failed() && !g.steps[n].AllowFailure {
		run.Failed++
	}
	c.want(s.Now == outcomeOf(t.State), "step %s of run %s: outcome %d, its task is %v", t.Step, t.Run, s.Now, t.State)
	begun := t.State == job.Pending || t.State.Active()
	c.want(!begun || s.Phase == StepBegun, "step %s of run %s: %v, but it has not begun", t.Step, t.Run, t.State)
	c.want(s.Phase == StepBegun || s.Phase == StepWaits || t.State == job.Blocked, "step %s of run %s: %v in phase %d", t.Step, t.Run, t.State, s.Phase)
	c.want(s.inReady() == c.has(key{}.stepReady(t.RunRef(), n)), "step %s of run %s: its row among the ready differs", t.Step, t.Run)
	c.want(s.WaitsForVerdict() == c.has(key{}.stepWanted(t.RunRef(), n)), "step %s of run %s: its row among the wanted differs", t.Step, t.Run)
}

// childOf reports whether a run goes on that a task stands for.
func (c *checker) childOf(t *Task, id job.ID) bool {
	child, ok := GetRun(c.r, RunRef{t.Namespace, id})
	by := child.Trigger
	return ok && !child.State.Terminal() && by.Run == t.Run && by.Step == t.Step && by.Item == t.Item
}

// stepNeeds checks that a step has counted what those that it needs have had
// counted, and that its state follows.
func (c *checker) stepNeeds(run *Run, g *graph, steps []*Step, n uint32) {
	s, name := steps[n], g.steps[n].Name
	if s == nil {
		return
	}
	var met [UpstreamOutcome + 1]uint32
	for _, p := range g.parents[n] {
		if steps[p] != nil {
			if o := steps[p].countedBy(g.children[p], n); o != NoOutcome {
				met[o]++
			}
		}
	}
	c.want(met == s.Met, "step %s of run %s: has counted %v, its needs have had counted %v", name, run.ID, s.Met, met)
	if run.owes() {
		return
	}
	c.want(!s.Moving && s.Counted == s.Now, "step %s of run %s: outcome %d is not counted, and nothing is owed", name, run.ID, s.Now)
	h := heldRun{Run: *run, graph: g}
	d := h.verdict(n, s)
	switch {
	case s.Phase == StepBegun:
		c.want(run.Touched || d == job.DecideBegin, "step %s of run %s: has begun, but its rule does not hold", name, run.ID)
	case s.Phase != StepWaits:
		c.want(s.Fixed || d == job.DecideBegin || int(run.Phase) < g.section(n), "step %s of run %s: in phase %d, but its rule does not hold", name, run.ID, s.Phase)
	case s.Fixed, h.stopped(n), run.State.Terminal() && run.Stop != 0:
	case s.Now != NoOutcome && int(run.Phase) < g.section(n): // as it was when its section was open before
	case s.Now == NoOutcome:
		c.want(d == job.DecideWait, "step %s of run %s: waits, but its rule says %d", name, run.ID, d)
	case s.Now == SkippedOutcome:
		c.want(d == job.DecideSkip || s.Judged, "step %s of run %s: skipped, but its rule says %d", name, run.ID, d)
	case s.Now == UpstreamOutcome:
		c.want(d == job.DecideFail, "step %s of run %s: upstream_failed, but its rule says %d", name, run.ID, d)
	}
}

// countedBy is the outcome of a step that one of those that need it has counted.
func (s *Step) countedBy(children []uint32, n uint32) StepOutcome {
	if !s.Moving {
		return s.Counted
	}
	if _, before := slices.BinarySearch(children[:s.At], n); before {
		return s.To
	}
	return s.Counted
}

// items checks the tasks of a step's items, adds them to what its run counts, and
// returns their number.
func (c *checker) items(ref RunRef, run *Run, name string, n uint32, s *Step) int {
	if s.Fan == nil {
		return 0
	}
	f := s.Fan
	var counts RunCounts
	running := uint32(0)
	for item := uint32(1); item <= f.First+f.Made; item++ {
		b, _ := c.r.Get(key{}.items(ref, n).u32(item))
		id, child, ok := decodeItem(b)
		if !ok {
			c.report("step %s of run %s: item %d is not there", name, ref.ID, item)
			continue
		}
		t, ok := c.taskOf("item", TaskRef{ref.Namespace, id})
		if !ok {
			continue
		}
		if !child.IsZero() && !t.State.Terminal() {
			running++
			c.want(c.childOf(&t, child), "item %d of step %s of run %s: stands for run %s, which has ended, or is another's", item, name, ref.ID, child)
		}
		c.want(t.Item == item && t.Step == name && t.Run == ref.ID, "step %s of run %s: item %d is task %s, which is item %d of %s",
			name, ref.ID, item, t.ID, t.Item, t.Step)
		c.want(s.Phase == StepBegun || t.State.Terminal(), "step %s of run %s: has not begun, and item %d is %v", name, ref.ID, item, t.State)
		run.Counts[countedState(t.State)]++
		run.Items++
		if t.Dead {
			run.Dead++
		}
		if item > f.First {
			counts[countedState(t.State)]++
		}
	}
	c.want(running == f.Running, "step %s of run %s: counts %d runs of items, has %d", name, ref.ID, f.Running, running)
	c.want(counts == f.Counts, "step %s of run %s: its items are %v, it has counted %v", name, ref.ID, counts, f.Counts)
	c.want(f.Next <= f.Made && f.Made <= f.Total, "step %s of run %s: %d of %d items made, %d begun", name, ref.ID, f.Made, f.Total, f.Next)
	return int(f.First + f.Made)
}

// item checks that the row of an item is one of its step's.
func (c *checker) item(k, _ []byte) {
	kr := readKey(k)
	ref, n, item := kr.runRef(), kr.u32(), kr.u32()
	s, ok := getRow[Step](c.r, key{}.step(ref, n))
	c.want(ok && kr.done() && s.Fan != nil && item > 0 && item <= s.Fan.First+s.Fan.Made, "row %x: step %d of run %s has no item %d", k, n, ref.ID, item)
}
