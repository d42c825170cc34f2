package fsm

import (
	"testing"

	"github.com/axd-project/axd/job"
)

// judge answers for the leader what was computed for a step.
func (w *world) judge(ref RunRef, step string, change ...func(*StepVerdict)) Result {
	w.t.Helper()
	s := w.steps(ref)[step]
	c := StepVerdict{Ref: ref, Step: s.Number, Want: s.Want}
	for _, fn := range change {
		fn(&c)
	}
	r := w.try(c)[0]
	w.settle()
	return r
}

func (w *world) wanted() int {
	return len(ListWantedSteps(w.tx, nil, 1000))
}

func skipIt(c *StepVerdict) { c.Skip = "when is false" }
func failIt(c *StepVerdict) { c.Fail = "when: column 3: no" }

func whenOf(name, when string, needs ...string) job.Step {
	s := stepOf(name, "", needs...)
	s.When = when
	return s
}

// A step with a when waits for its needs, then for a verdict, then begins.
func TestVerdict(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Steps: []job.Step{stepOf("a", ""), whenOf("b", "true", "a"), stepOf("c", "", "b")}})
	ref := w.start("w")
	if w.wanted() != 0 {
		t.Fatal("a verdict is wanted before the needs have ended")
	}
	w.end(ref, "a", job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"b": "blocked", "c": "blocked"})
	if got := ListWantedSteps(w.tx, nil, 10); len(got) != 1 || got[0].Run != ref || got[0].Number != 1 {
		t.Fatalf("wanted %v", got)
	}
	if got := ListWantedSteps(w.tx, &WantedStep{ref, 1}, 10); len(got) != 0 {
		t.Fatalf("after the last %v", got)
	}
	if r := w.judge(ref, "b", func(c *StepVerdict) { c.Want++ }); r.Err == nil || r.Err.Code != job.CodeStale {
		t.Fatalf("took a verdict on another wait: %v", r.Err)
	}
	if r := w.judge(ref, "b", func(c *StepVerdict) { c.Term = 99 }); r.Err == nil {
		t.Fatal("took a verdict of another term")
	}
	if r := w.judge(ref, "b", func(c *StepVerdict) { c.Step = 7 }); r.Err == nil || r.Err.Code != job.CodeStale {
		t.Fatalf("took a verdict on no step: %v", r.Err)
	}
	if r := w.judge(ref, "b"); r.Err != nil {
		t.Fatal(r.Err)
	}
	if r := w.judge(ref, "b"); r.Err == nil || r.Err.Code != job.CodeStale {
		t.Fatalf("took a verdict twice: %v", r.Err)
	}
	w.want(ref, job.RunRunning, map[string]string{"b": "pending", "c": "blocked"})
	w.end(ref, "b", job.OutcomeSuccess)
	w.end(ref, "c", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

// Whether it is skipped or fails, what needs the step follows by its rule, and the
// step stays so until it is rerun.
func TestVerdictEndsStep(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Steps: []job.Step{
		whenOf("b", "false"), stepOf("c", "", "b"), stepOf("d", job.NoneFailed, "b"), stepOf("e", job.AllDone, "b"),
	}})
	skipped := w.start("w")
	w.judge(skipped, "b", skipIt)
	w.want(skipped, job.RunRunning, map[string]string{"b": "skipped", "c": "skipped", "d": "pending", "e": "pending"})
	if s := w.steps(skipped)["b"].Record; s.Error != "when is false" || w.wanted() != 0 {
		t.Errorf("error %q, %d wanted", s.Error, w.wanted())
	}

	failed := w.start("w")
	w.judge(failed, "b", failIt)
	w.want(failed, job.RunRunning, map[string]string{"b": "failed", "c": "upstream_failed", "d": "upstream_failed", "e": "pending"})
	b := w.steps(failed)["b"].Record
	if r := w.try(DeadLetters{Namespace: "default", Replay: true, IDs: []job.ID{b.ID}})[0]; r.Attempts[0] == nil || r.Attempts[0].Code != job.CodeConflict {
		t.Errorf("a step that never began was replayed: %v", r.Attempts)
	}
	w.end(failed, "e", job.OutcomeSuccess)
	w.want(failed, job.RunFailed, nil)
	w.do(RerunRun{Ref: failed, Mode: RerunFailed})
	w.settle()
	w.want(failed, job.RunRunning, map[string]string{"b": "blocked", "c": "blocked"})
	w.judge(failed, "b")
	w.end(failed, "b", job.OutcomeSuccess)
	w.end(failed, "c", job.OutcomeSuccess)
	w.end(failed, "d", job.OutcomeSuccess)
	w.want(failed, job.RunSuccess, nil)
}

// A step whose needs run again gives its place among the wanted back, and waits
// under another number, so that a verdict on the old outputs is refused.
func TestVerdictOnOldNeeds(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Steps: []job.Step{stepOf("a", ""), whenOf("b", "true", "a")}})
	ref := w.start("w")
	w.end(ref, "a", job.OutcomeSuccess)
	old := w.steps(ref)["b"].Want
	w.do(RerunRun{Ref: ref, Mode: RerunOne, Step: "a"})
	w.settle()
	if w.wanted() != 0 {
		t.Fatal("a verdict is wanted while a need runs again")
	}
	w.end(ref, "a", job.OutcomeSuccess)
	if r := w.judge(ref, "b", func(c *StepVerdict) { c.Want = old }); r.Err == nil || r.Err.Code != job.CodeStale {
		t.Fatalf("took a verdict on old outputs: %v", r.Err)
	}
	w.judge(ref, "b", skipIt)
	w.want(ref, job.RunSuccess, map[string]string{"b": "skipped"})
	// What was skipped by a verdict is judged again after its needs have run again.
	w.do(RerunRun{Ref: ref, Mode: RerunFrom, Step: "a"})
	w.settle()
	w.end(ref, "a", job.OutcomeSuccess)
	w.judge(ref, "b")
	w.end(ref, "b", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

func TestVerdictPayload(t *testing.T) {
	w := newWorld(t)
	s := stepOf("a", "")
	s.Payload = job.JSON(`{"x": "${{ params.x }}"}`)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "x", Default: job.JSON(`"d"`)}}, MaxParallel: 1, Steps: []job.Step{stepOf("0", ""), s}})
	ref := w.start("w")
	run := w.run(ref)
	if p := RunParams(w.tx, &run); string(p) != `{"x":"d"}` {
		t.Errorf("parameters %s", p)
	}
	if r := w.judge(ref, "a", func(c *StepVerdict) { c.Payload = make([]byte, job.MaxPayload+1) }); r.Err == nil || r.Err.Code != job.CodeInvalid {
		t.Fatal(r.Err)
	}
	large := make([]byte, 4000)
	w.judge(ref, "a", func(c *StepVerdict) { c.Payload = large })
	w.want(ref, job.RunRunning, map[string]string{"a": "blocked"}) // for max_parallel
	record := w.steps(ref)["a"].Record
	if b, _ := BodyOf(w.tx, &record); len(b.Payload) != len(large) {
		t.Errorf("payload of %d bytes", len(b.Payload))
	}
	w.end(ref, "0", job.OutcomeSuccess)
	w.end(ref, "a", job.OutcomeFailed)
	w.do(RerunRun{Ref: ref, Mode: RerunFailed})
	w.settle()
	w.judge(ref, "a", func(c *StepVerdict) { c.Payload = []byte(`"small"`) })
	record = w.steps(ref)["a"].Record
	if b, _ := BodyOf(w.tx, &record); string(b.Payload) != `"small"` || record.HasBody {
		t.Errorf("payload %s", b.Payload)
	}
	w.end(ref, "a", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

// Cancelling a run, forcing success and skipping by hand end the wait.
func TestVerdictIsNotNeededAnyMore(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Steps: []job.Step{whenOf("a", "true"), whenOf("b", "true")}})
	ref := w.start("w")
	w.do(SkipStep{Ref: ref, Step: "a"})
	w.do(ForceSuccess{Ref: ref, Step: "b"})
	w.settle()
	w.want(ref, job.RunSuccess, map[string]string{"a": "skipped", "b": "success"})
	other := w.start("w")
	w.do(CancelRun{Ref: other})
	w.settle()
	w.want(other, job.RunCancelled, map[string]string{"a": "cancelled"})
	if n := w.wanted(); n != 0 {
		t.Errorf("%d wanted", n)
	}
}
