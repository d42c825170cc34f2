package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
)

func putAfter(name string, fires job.Upstream, all ...job.Upstream) PutSchedule {
	spec := job.ScheduleSpec{Job: fires.Job, Workflow: fires.Workflow}
	if len(all) > 0 {
		spec.After = &job.After{All: all}
	}
	return PutSchedule{Namespace: "default", Name: name, Spec: spec}
}

func (w *world) refuses(c Command, field, text string) {
	w.t.Helper()
	r := w.try(c)[0]
	if r.Err == nil || r.Err.Field != field || !strings.Contains(r.Err.Error(), text) {
		w.t.Fatalf("got %v, want %s: %s", r.Err, field, text)
	}
}

// Schedules that wait for what they bring about, over jobs, workflows and each other,
// are refused with the way, when they are made and when a workflow changes.
func TestK6_01_CircleByAfter(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c"} {
		w.do(PutJob{Namespace: "default", Name: name, Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	}
	ofJob, ofFlow, of := func(n string) job.Upstream { return job.Upstream{Job: n} }, func(n string) job.Upstream { return job.Upstream{Workflow: n} },
		func(n string) job.Upstream { return job.Upstream{Schedule: n} }
	step := func(jobs ...string) (spec job.WorkflowSpec) {
		for _, name := range jobs {
			spec.Steps = append(spec.Steps, job.Step{Name: name, Job: name})
		}
		return spec
	}
	w.put("inner", step("b"))
	w.put("outer", job.WorkflowSpec{Steps: []job.Step{{Name: "s", Workflow: "inner"}}})

	w.refuses(putAfter("self", ofJob("a"), ofJob("a")), "after", "schedule self → job a → schedule self")
	w.refuses(putAfter("self", ofJob("a"), of("self")), "after.all[0].schedule", "must not be the schedule itself")
	w.refuses(putAfter("deep", ofFlow("outer"), ofJob("c"), ofJob("b")), "after",
		"schedule deep → workflow outer → workflow inner → job b → schedule deep")

	w.do(putAfter("first", ofJob("a")))
	w.do(putAfter("second", ofFlow("outer"), of("first")))
	w.do(putAfter("third", ofJob("c"), ofJob("b")))
	w.refuses(putAfter("first", ofJob("a"), of("third")), "after",
		"schedule first → schedule second → workflow outer → workflow inner → job b → schedule third → schedule first")
	w.refuses(putAfter("fourth", ofFlow("inner"), of("third")), "after", "schedule fourth → workflow inner → job b → schedule third → schedule fourth")
}

func TestK6_01_CircleByWorkflowChange(t *testing.T) {
	w := newWorld(t)
	w.do(PutJob{Namespace: "default", Name: "a", Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	w.put("flow", job.WorkflowSpec{Steps: []job.Step{{Name: "s", Job: "true"}}})
	w.do(putAfter("s", job.Upstream{Workflow: "flow"}, job.Upstream{Job: "a"}))
	w.refuses(PutWorkflow{Namespace: "default", Name: "flow", Spec: job.WorkflowSpec{Steps: []job.Step{{Name: "s", Job: "a"}}}}, "steps",
		"workflow flow → job a → schedule s → workflow flow")
	if f, _ := GetWorkflow(w.tx, "default", "flow"); f.Version != 1 {
		t.Errorf("version %d is stored", f.Version)
	}
}

// A diamond is no circle.
func TestK6_02_DiamondByAfter(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"a", "b", "c", "d"} {
		w.do(PutJob{Namespace: "default", Name: name, Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	}
	w.do(putAfter("b", job.Upstream{Job: "b"}, job.Upstream{Job: "a"}))
	w.do(putAfter("c", job.Upstream{Job: "c"}, job.Upstream{Job: "a"}))
	w.do(putAfter("d", job.Upstream{Job: "d"}, job.Upstream{Schedule: "b"}, job.Upstream{Schedule: "c"}, job.Upstream{Job: "a"}))
}

// What is waited for exists, and stays.
func TestK6_03_UpstreamsExist(t *testing.T) {
	w := newWorld(t)
	w.do(PutJob{Namespace: "default", Name: "a", Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	w.put("flow", job.WorkflowSpec{Steps: []job.Step{{Name: "s", Job: "true"}}})
	w.do(putAfter("up", job.Upstream{Job: "true"}))
	for field, u := range map[string]job.Upstream{
		"after.all[1].job": {Job: "nope"}, "after.all[1].workflow": {Workflow: "nope"}, "after.all[1].schedule": {Schedule: "nope"},
	} {
		w.refuses(putAfter("x", job.Upstream{Job: "true"}, job.Upstream{Job: "a"}, u), field, "does not exist")
	}
	w.do(putAfter("x", job.Upstream{Job: "true"}, job.Upstream{Job: "a"}, job.Upstream{Workflow: "flow"}, job.Upstream{Schedule: "up"}))
	w.refuses(DeleteJob{Namespace: "default", Name: "a"}, "job", `is what schedule "x" waits for`)
	w.refuses(DeleteWorkflow{Namespace: "default", Name: "flow"}, "workflow", `is what schedule "x" waits for`)
	w.refuses(DeleteSchedule{Namespace: "default", Name: "up"}, "schedule", `is what schedule "x" waits for`)
	w.do(putAfter("x", job.Upstream{Job: "true"}))
	w.do(DeleteJob{Namespace: "default", Name: "a"}, DeleteWorkflow{Namespace: "default", Name: "flow"}, DeleteSchedule{Namespace: "default", Name: "up"})
}

// The end of a task that nobody waits for costs not one row more, though others are
// waited for.
func TestTheEndOfATaskThatNobodyWaitsForCostsNothing(t *testing.T) {
	w := newWorld(t)
	w.quick = true
	cost := func() int {
		id := w.do(Submit{Namespace: "default", Tasks: []job.TaskSpec{{Job: "true"}}})[0].Tasks[0].ID
		task, _ := GetTask(w.tx, TaskRef{"default", id})
		ending := w.ending(&task, job.OutcomeSuccess)
		before := w.tx.ops
		w.do(ending...)
		return w.tx.ops - before
	}
	cost()
	alone := cost()
	w.do(PutJob{Namespace: "default", Name: "a", Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	w.do(putAfter("s", job.Upstream{Job: "true"}, job.Upstream{Job: "a"}))
	if n := cost(); n != alone {
		t.Errorf("%d rows with a schedule that waits for another job, %d without", n, alone)
	}
	w.do(PutJob{Namespace: "default", Name: "b", Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	w.do(putAfter("t", job.Upstream{Job: "b"}, job.Upstream{Job: "true"}))
	if n := cost(); n == alone {
		t.Errorf("%d rows with a schedule that waits for it, as without", n)
	}
}

// A chain of schedules may be long; what closes it is refused at once, with both ends
// of the way.
func TestK6_05_LongChainByAfter(t *testing.T) {
	w := newWorld(t)
	w.quick = true
	of := func(i int) string { return fmt.Sprint("s", i) }
	w.do(putAfter(of(0), job.Upstream{Job: "true"}))
	const n = 2000
	var chain []Command
	for i := 1; i < n; i++ {
		chain = append(chain, putAfter(of(i), job.Upstream{Job: "true"}, job.Upstream{Schedule: of(i - 1)}))
	}
	w.do(chain...)
	w.refuses(putAfter(of(0), job.Upstream{Job: "true"}, job.Upstream{Schedule: of(n - 1)}), "after",
		"schedule s0 → schedule s1 →")
	r := w.try(putAfter(of(0), job.Upstream{Job: "true"}, job.Upstream{Schedule: of(n - 1)}))[0]
	if text := r.Err.Error(); len(text) > 3000 || !strings.Contains(text, "… 1901 more …") || !strings.Contains(text, "schedule s1999 → schedule s0") {
		t.Errorf("%d bytes: %s", len(text), text)
	}
	w.check()
}

// Only so many schedules wait for one; it counts those that leave.
func TestUpstreamsAreNotWaitedForByTooMany(t *testing.T) {
	w := newWorld(t)
	w.quick = true
	w.do(PutJob{Namespace: "default", Name: "a", Spec: job.Spec{Executor: job.Executor{Handler: "x"}}})
	for i := range MaxDependents {
		w.do(putAfter(fmt.Sprint("s", i), job.Upstream{Job: "true"}, job.Upstream{Job: "a"}))
	}
	last := putAfter("last", job.Upstream{Job: "true"}, job.Upstream{Job: "a"})
	if r := w.try(last)[0]; r.Err == nil || r.Err.Code != job.CodeQuotaExceeded || r.Err.Field != "after.all[0].job" {
		t.Errorf("one more: %v", r.Err)
	}
	w.m.Reset()
	w.do(DeleteSchedule{Namespace: "default", Name: "s7"}, last)
	w.check()
}
