package fsm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
)

func subOf(name, workflow string, needs ...string) job.Step {
	return job.Step{Name: name, Workflow: workflow, Needs: needs}
}

// child judges a step that is a workflow, and returns its run.
func (w *world) child(ref RunRef, step string) RunRef {
	w.t.Helper()
	if r := w.judge(ref, step); r.Err != nil {
		w.t.Fatalf("%v", r.Err)
	}
	id := w.steps(ref)[step].Child
	if id.IsZero() {
		w.t.Fatalf("step %s has no run: %s", step, w.steps(ref)[step].Record.Error)
	}
	return RunRef{"default", id}
}

func (w *world) nested() {
	w.put("inner", job.WorkflowSpec{Params: []job.Param{{Name: "x"}}, Steps: []job.Step{stepOf("i", "")}, Finally: []job.Step{stepOf("if", "")}})
	w.put("outer", job.WorkflowSpec{Steps: []job.Step{subOf("sub", "inner"), stepOf("z", "", "sub")}, Finally: []job.Step{stepOf("of", "")}})
}

// A step that is a workflow is a run of it, and ends as it does.
func TestChildRun(t *testing.T) {
	w := newWorld(t)
	w.nested()
	ref := w.start("outer")
	child := w.child(ref, "sub")
	if run := w.run(child); run.Trigger.Kind != "run" || run.Trigger.Run != ref.ID || run.Trigger.Step != "sub" || run.Depth != 1 {
		t.Errorf("child %+v", run)
	}
	w.want(ref, job.RunRunning, map[string]string{"sub": "blocked", "z": "blocked"})
	w.end(child, "i", job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"sub": "blocked"})
	w.end(child, "if", job.OutcomeSuccess)
	w.want(child, job.RunSuccess, nil)
	w.want(ref, job.RunRunning, map[string]string{"sub": "success", "z": "pending"})
	w.end(ref, "z", job.OutcomeSuccess)
	w.end(ref, "of", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

// A child that failed fails its step; run again with success, it brings the parent on.
func TestChildRunFails(t *testing.T) {
	w := newWorld(t)
	w.nested()
	ref := w.start("outer")
	child := w.child(ref, "sub")
	w.end(child, "i", job.OutcomeFailed)
	w.end(child, "if", job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"sub": "failed", "z": "upstream_failed"})
	w.end(ref, "of", job.OutcomeSuccess)
	w.want(ref, job.RunFailed, nil)
	if s := w.steps(ref)["sub"].Record; s.Error != "its run "+child.ID.String()+" ended failed" || s.Dead {
		t.Errorf("error %q, dead %v", s.Error, s.Dead)
	}
	w.do(RerunRun{Ref: child, Mode: RerunFailed})
	w.settle()
	w.end(child, "i", job.OutcomeSuccess)
	w.end(child, "if", job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"sub": "success", "z": "pending"})
	w.end(ref, "z", job.OutcomeSuccess)

	// A rerun of the parent starts a child anew, and the old one is nothing to it.
	other := w.start("outer")
	old := w.child(other, "sub")
	w.end(old, "i", job.OutcomeFailed)
	w.end(old, "if", job.OutcomeSuccess)
	w.end(other, "of", job.OutcomeSuccess)
	w.do(RerunRun{Ref: other, Mode: RerunFailed})
	w.settle()
	w.do(RerunRun{Ref: old, Mode: RerunFailed})
	w.settle()
	w.end(old, "i", job.OutcomeSuccess)
	w.end(old, "if", job.OutcomeSuccess)
	w.want(other, job.RunRunning, map[string]string{"sub": "blocked"})
	if again := w.child(other, "sub"); again == old {
		t.Error("the same run again")
	}
}

// What cancels a run cancels the runs that its steps are; their finally steps run
// before its own.
func TestChildRunIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.nested()
	ref := w.start("outer")
	child := w.child(ref, "sub")
	for _, c := range []Command{
		Cancel{Ref: TaskRef{"default", w.steps(ref)["sub"].Task}}, ForceSuccess{Ref: ref, Step: "sub"},
	} {
		if r := w.try(c)[0]; r.Err == nil || r.Err.Code != job.CodeConflict {
			t.Errorf("%T: %v", c, r.Err)
		}
	}
	w.do(CancelRun{Ref: ref, Reason: "no more"})
	w.settle()
	w.want(child, job.RunRunning, map[string]string{"i": "cancelled", "if": "pending"})
	w.want(ref, job.RunRunning, map[string]string{"sub": "blocked", "z": "cancelled", "of": "blocked"})
	w.end(child, "if", job.OutcomeSuccess)
	w.want(child, job.RunCancelled, nil)
	w.want(ref, job.RunRunning, map[string]string{"sub": "cancelled", "of": "pending"})
	w.end(ref, "of", job.OutcomeSuccess)
	w.want(ref, job.RunCancelled, nil)
}

// Workflows that lead back to themselves are refused with the way named, and so is
// one that doesn't exist.
func TestWorkflowCycles(t *testing.T) {
	w := newWorld(t)
	put := func(name string, steps ...job.Step) *job.Error {
		return w.try(PutWorkflow{Namespace: "default", Name: name, Spec: job.WorkflowSpec{Steps: steps}})[0].Err
	}
	if err := put("a", subOf("s", "b")); err == nil || err.Error() != `steps[0].workflow: must be a workflow that exists (got "b")` {
		t.Error(err)
	}
	if err := put("a", stepOf("x", ""), subOf("s", "a")); err == nil || err.Error() != `steps[1].workflow: must not lead back to itself: a → a (got "a")` {
		t.Error(err)
	}
	for _, err := range []*job.Error{put("c", stepOf("x", "")), put("b", subOf("s", "c")), put("a", subOf("s", "b"), subOf("t", "c"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := put("c", subOf("s", "a")); err == nil || err.Error() != `steps[0].workflow: must not lead back to itself: c → a → b → c (got "a")` {
		t.Error(err)
	}
}

// Runs within each other end somewhere, also where a workflow was changed meanwhile.
func TestChildRunsAreNotEndless(t *testing.T) {
	w := newWorld(t)
	w.put("w0", job.WorkflowSpec{Steps: []job.Step{stepOf("x", "")}})
	for i := range MaxRunDepth {
		w.put(fmt.Sprintf("w%d", i+1), job.WorkflowSpec{Steps: []job.Step{subOf("s", fmt.Sprintf("w%d", i))}})
	}
	ref := w.start(fmt.Sprintf("w%d", MaxRunDepth))
	top := ref
	for range MaxRunDepth - 1 {
		ref = w.child(ref, "s")
	}
	w.judge(ref, "s")
	w.want(top, job.RunFailed, map[string]string{"s": "failed"})
	if s := w.steps(ref)["s"].Record; s.Error != "its run would be the 17th within another, of at most 16" {
		t.Errorf("error %q", s.Error)
	}
}

func TestChildRunCannotStart(t *testing.T) {
	w := newWorld(t)
	w.nested()
	ref := w.start("outer")
	w.judge(ref, "sub", func(c *StepVerdict) { c.Params = []byte(`{"y": 1}`) })
	w.want(ref, job.RunRunning, map[string]string{"sub": "failed", "z": "upstream_failed"})
	if s := w.steps(ref)["sub"].Record; !strings.HasPrefix(s.Error, `its run could not be started: params: must be parameters`) {
		t.Errorf("error %q", s.Error)
	}
	// A run keeps its version, so what it is to start may have gone meanwhile.
	w.put("outer", job.WorkflowSpec{Steps: []job.Step{stepOf("z", "")}})
	w.do(DeleteWorkflow{Namespace: "default", Name: "inner"})
	w.do(RerunRun{Ref: ref, Mode: RerunFailed})
	w.settle()
	w.judge(ref, "sub")
	w.want(ref, job.RunRunning, map[string]string{"sub": "failed"})
}
