package fsm

import (
	"fmt"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

// A join behind a branch of which one side is skipped.
func TestK6_04_JoinAfterASkippedBranch(t *testing.T) {
	const ok, failed, skipped = job.OutcomeSuccess, job.OutcomeFailed, job.Outcome(0)
	for _, c := range []struct {
		name string
		a, b job.Outcome
		want map[job.Rule]string
	}{
		{"a succeeds, b is skipped", ok, skipped, map[job.Rule]string{
			job.AllSuccess: "skipped", job.NoneFailed: "pending", job.NoneFailedMinSuccess: "pending", job.AllDone: "pending", job.OneSuccess: "pending",
		}},
		{"a fails, b is skipped", failed, skipped, map[job.Rule]string{
			job.AllSuccess: "upstream_failed", job.NoneFailed: "upstream_failed", job.NoneFailedMinSuccess: "upstream_failed",
			job.OneSuccess: "upstream_failed", job.AllDone: "pending",
		}},
		{"both are skipped", skipped, skipped, map[job.Rule]string{
			job.NoneFailed: "pending", job.AllDone: "pending",
			job.NoneFailedMinSuccess: "skipped", job.OneSuccess: "skipped", job.AllSuccess: "skipped",
		}},
	} {
		for rule, want := range c.want {
			t.Run(c.name+" "+string(rule), func(t *testing.T) {
				w := newWorld(t)
				w.put("w", job.WorkflowSpec{Steps: []job.Step{
					stepOf("branch", ""), stepOf("a", "", "branch"), stepOf("b", "", "branch"), stepOf("join", rule, "a", "b"),
				}})
				ref := w.start("w")
				w.end(ref, "branch", ok)
				for step, o := range map[string]job.Outcome{"b": c.b, "a": c.a} {
					if o == skipped {
						w.do(SkipStep{Ref: ref, Step: step})
						w.settle()
					}
				}
				if c.a != skipped {
					w.want(ref, job.RunRunning, map[string]string{"join": "blocked"})
					w.end(ref, "a", c.a)
				}
				w.want(ref, w.run(ref).State, map[string]string{"join": want})
				if want == "pending" {
					w.end(ref, "join", ok)
				}
				state := job.RunSuccess
				if c.a == failed {
					state = job.RunFailed
				}
				w.want(ref, state, nil)
			})
		}
	}
}

func chainOf(n int) (spec job.WorkflowSpec) {
	for i := range n {
		s := stepOf(fmt.Sprintf("s%d", i), "")
		if i > 0 {
			s.Needs = []string{fmt.Sprintf("s%d", i-1)}
		}
		spec.Steps = append(spec.Steps, s)
	}
	return spec
}

// A chain of 10,000 steps (chainSteps) is accepted, runs in order, and fails as a whole at once.
func TestK6_05_VeryLongChain(t *testing.T) {
	const n = chainSteps
	w := newWorld(t)
	w.quick = true
	begin := time.Now()
	w.put("chain", chainOf(n))
	t.Logf("accepted after %v, should be at most 2s", time.Since(begin))
	ref := w.start("chain")
	w.check()
	begin = time.Now()
	w.end(ref, "s0", job.OutcomeFailed)
	t.Logf("all failed after %v, should be at most 2s", time.Since(begin))
	w.check()
	run := w.run(ref)
	if run.State != job.RunFailed || run.Counts[job.UpstreamFailed] != n-1 {
		t.Errorf("%v, counts %v", run.State, run.Counts)
	}

	// Rerun: all of it goes back, and then in order.
	w.do(RerunRun{Ref: ref, Mode: RerunFailed})
	w.settle()
	w.check()
	last := w.run(ref)
	if last.State != job.RunRunning || last.Counts[job.Blocked] != n-1 || last.Counts[job.Pending] != 1 {
		t.Fatalf("after the rerun %v, counts %v", last.State, last.Counts)
	}
	for i := range n {
		due := ScanDue(w.tx, job.Normal, DueKey{}, w.now+1, 10)
		task, _ := GetTask(w.tx, TaskRef{"default", due[0].ID})
		if want := fmt.Sprintf("s%d", i); len(due) != 1 || task.Step != want {
			t.Fatalf("%d steps are due, the first is %s, want %s", len(due), task.Step, want)
		}
		w.finish(&task, job.OutcomeSuccess)
	}
	w.check()
	if run := w.run(ref); run.State != job.RunSuccess || run.Counts[job.Success] != n {
		t.Errorf("%v, counts %v", run.State, run.Counts)
	}
}

// Thousands into one: what a step's end costs does not grow with their number.
func TestK6_06_ThousandsIntoOne(t *testing.T) {
	perStep := func(n int) (time.Duration, float64) {
		w := newWorld(t)
		w.quick = true
		w.put("wide", wideOf(n))
		ref := w.start("wide")
		w.end(ref, "start", job.OutcomeSuccess)
		var took time.Duration
		rows := 0
		for left := n; left > 0; {
			var commands []Command
			for _, row := range ScanDue(w.tx, job.Normal, DueKey{}, w.now+1, 250) {
				task, _ := GetTask(w.tx, TaskRef{"default", row.ID})
				if task.Step == "end" {
					t.Fatalf("the end begins with %d steps left", left)
				}
				commands = append(commands, w.ending(&task, job.OutcomeSuccess)...)
			}
			left -= len(commands)
			before, begin := w.tx.ops, time.Now()
			w.do(commands...)
			took += time.Since(begin)
			rows += w.tx.ops - before
		}
		w.settle()
		w.end(ref, "end", job.OutcomeSuccess)
		w.check()
		w.want(ref, job.RunSuccess, nil)
		if end := w.steps(ref)["end"].Record; end.Attempt != 1 {
			t.Errorf("the end had %d attempts", end.Attempt)
		}
		return took / time.Duration(n), float64(rows) / float64(n)
	}
	fewTime, fewRows := perStep(500)
	manyTime, manyRows := perStep(5000)
	t.Logf("a step's end takes %v and %.1f rows among 5000, %v and %.1f among 500", manyTime, manyRows, fewTime, fewRows)
	if manyRows > 1.2*fewRows {
		t.Errorf("a step's end reads and writes %.1f rows among 5000, %.1f among 500", manyRows, fewRows)
	}
}

func wideOf(n int) job.WorkflowSpec {
	spec := job.WorkflowSpec{Steps: []job.Step{stepOf("start", "")}}
	end := stepOf("end", "")
	for i := range n {
		name := fmt.Sprintf("s%d", i)
		spec.Steps = append(spec.Steps, stepOf(name, "", "start"))
		end.Needs = append(end.Needs, name)
	}
	spec.Steps = append(spec.Steps, end)
	return spec
}

// Layers of 300, each step of which needs the whole layer before, come to their end.
func TestK6_06_FullLayers(t *testing.T) {
	const width, layers = 300, 2
	w := newWorld(t)
	w.quick = true
	var spec job.WorkflowSpec
	var before []string
	for l := range layers {
		var names []string
		for i := range width {
			s := stepOf(fmt.Sprintf("l%ds%d", l, i), "")
			s.Needs = before
			spec.Steps = append(spec.Steps, s)
			names = append(names, s.Name)
		}
		before = names
	}
	w.put("layers", spec)
	ref := w.start("layers")
	for range layers {
		rows := ScanDue(w.tx, job.Normal, DueKey{}, w.now+1, 2*width)
		if len(rows) != width {
			t.Fatalf("%d steps are due, want %d", len(rows), width)
		}
		for _, row := range rows {
			task, _ := GetTask(w.tx, TaskRef{"default", row.ID})
			w.finish(&task, job.OutcomeSuccess)
		}
		w.settle()
		w.check()
	}
	w.want(ref, job.RunSuccess, nil)
}
