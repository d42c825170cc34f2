package fsm

import (
	"strings"
	"testing"

	"github.com/axd-project/axd/job"
)

// fannedRuns puts a workflow with a step that is a run of another for each item.
func (w *world) fannedRuns(parallel int) {
	w.put("inner", job.WorkflowSpec{Params: []job.Param{{Name: "item", Type: job.ParamInt}}, Steps: []job.Step{stepOf("i", "")}})
	fan := subOf("f", "inner")
	fan.ForEach = &job.ForEach{Items: job.JSON(`[{"item":0}]`), Parallel: parallel}
	w.put("outer", job.WorkflowSpec{MaxParallel: 1, Steps: []job.Step{fan, stepOf("z", "", "f")}, Finally: []job.Step{stepOf("end", "")}})
}

// itemRuns are the runs of a step's items, in their order; zero: it has none.
func (w *world) itemRuns(ref RunRef, step string) (runs []RunRef) {
	w.t.Helper()
	s := w.steps(ref)[step]
	for _, it := range Items(w.tx, ref, s.Number, &s.Step, 0, 1000) {
		runs = append(runs, RunRef{ref.Namespace, it.Run})
	}
	return runs
}

func begun(runs []RunRef) (n int) {
	for _, r := range runs {
		if !r.ID.IsZero() {
			n++
		}
	}
	return n
}

// A step that is a workflow and fans out is a run for each item, as many at once as it
// says, and ends with the last; max_parallel bounds the tasks of its own run alone.
func TestFanOutOfRuns(t *testing.T) {
	w := newWorld(t)
	w.fannedRuns(2)
	ref := w.start("outer")
	w.fan(ref, "f", 5)
	runs := w.itemRuns(ref, "f")
	if begun(runs) != 2 {
		t.Fatalf("%d runs at once", begun(runs))
	}
	child := w.run(runs[1])
	if by := child.Trigger; by.Run != ref.ID || by.Step != "f" || by.Item != 2 || child.Depth != 1 || string(RunParams(w.tx, &child)) != `{"item":1}` {
		t.Errorf("child %+v with %s", child, RunParams(w.tx, &child))
	}
	for i := range 5 {
		w.want(ref, job.RunRunning, map[string]string{"f": "blocked", "z": "blocked"})
		w.end(w.itemRuns(ref, "f")[i], "i", job.OutcomeSuccess)
		if got, want := begun(w.itemRuns(ref, "f")), min(i+3, 5); got != want {
			t.Fatalf("%d runs have begun, want %d", got, want)
		}
	}
	w.want(ref, job.RunRunning, map[string]string{"f": "success", "z": "pending"})
	w.end(ref, "z", job.OutcomeSuccess)
	w.end(ref, "end", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

// A run of an item that fails fails the step; run again with success it mends it. One
// of an earlier time of the step is nothing to it.
func TestFanOutOfRunsFails(t *testing.T) {
	w := newWorld(t)
	w.fannedRuns(0)
	ref := w.start("outer")
	w.fan(ref, "f", 3)
	runs := w.itemRuns(ref, "f")
	w.end(runs[0], "i", job.OutcomeFailed)
	w.end(runs[1], "i", job.OutcomeSuccess)
	w.end(runs[2], "i", job.OutcomeFailed)
	w.want(ref, job.RunRunning, map[string]string{"f": "failed", "z": "upstream_failed", "end": "pending"})
	s := w.steps(ref)["f"]
	first := w.items(ref, "f")[0]
	if s.Record.Error != "2 of 3 items failed" || s.Record.Dead || first.Dead || first.Error != "its run "+runs[0].ID.String()+" ended failed" {
		t.Errorf("error %q, dead %v; item: %q, dead %v", s.Record.Error, s.Record.Dead, first.Error, first.Dead)
	}
	again := func(child RunRef, o job.Outcome) {
		w.do(RerunRun{Ref: child, Mode: RerunFailed})
		w.settle()
		w.end(child, "i", o)
	}
	again(runs[0], job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"f": "failed", "z": "upstream_failed"})
	if got := w.steps(ref)["f"].Record.Error; got != "1 of 3 items failed" {
		t.Errorf("error %q", got)
	}
	again(runs[2], job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"f": "success", "z": "blocked"}) // max_parallel
	w.end(ref, "end", job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"z": "pending"})
	w.end(ref, "z", job.OutcomeSuccess)

	w.do(RerunRun{Ref: ref, Mode: RerunFrom, Step: "f"})
	w.settle()
	w.fan(ref, "f", 1)
	w.do(RerunRun{Ref: runs[1], Mode: RerunFrom, Step: "i"})
	w.settle()
	w.end(runs[1], "i", job.OutcomeFailed)
	w.want(ref, job.RunRunning, map[string]string{"f": "blocked"})
	w.end(w.itemRuns(ref, "f")[0], "i", job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"f": "success"})
}

// What cancels the run cancels those of its items, and nothing by hand touches the tasks
// that stand for them.
func TestFanOutOfRunsIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.fannedRuns(2)
	ref := w.start("outer")
	w.fan(ref, "f", 4)
	items := w.items(ref, "f")
	if r := w.try(Cancel{Ref: items[0].Ref()})[0]; r.Err == nil || r.Err.Code != job.CodeConflict {
		t.Errorf("cancelled the task of a run that goes on: %v", r.Err)
	}
	w.do(Cancel{Ref: items[3].Ref()}) // its run has not begun
	w.settle()
	w.do(CancelRun{Ref: w.itemRuns(ref, "f")[0]})
	w.settle()
	if got := begun(w.itemRuns(ref, "f")); got != 3 {
		t.Errorf("%d runs", got)
	}
	w.do(CancelRun{Ref: ref})
	w.settle()
	w.want(ref, job.RunRunning, map[string]string{"f": "cancelled", "z": "cancelled", "end": "pending"})
	for _, r := range w.itemRuns(ref, "f")[:3] {
		w.want(r, job.RunCancelled, nil)
	}
	w.wantItems(ref, "f", "map[cancelled:4]")
	w.end(ref, "end", job.OutcomeSuccess)
	w.want(ref, job.RunCancelled, nil)
}

// An item whose run can't be started fails alone; a run with all its items expires.
func TestFanOutOfRunsCannotStart(t *testing.T) {
	w := newWorld(t)
	w.fannedRuns(0)
	ref := w.start("outer")
	s := w.steps(ref)["f"]
	w.do(StepVerdict{Ref: ref, Step: s.Number, Want: s.Want, Total: 2, Items: [][]byte{[]byte(`{"item":"x"}`), []byte(`{}`)}})
	w.settle()
	if got := w.items(ref, "f")[0]; got.State != job.Failed || !strings.HasPrefix(got.Error, "its run could not be started: params.item") || got.Dead {
		t.Errorf("%v, %q, dead %v", got.State, got.Error, got.Dead)
	}
	w.end(w.itemRuns(ref, "f")[1], "i", job.OutcomeSuccess)
	w.end(ref, "end", job.OutcomeSuccess)
	w.want(ref, job.RunFailed, map[string]string{"f": "failed"})
	w.now += 40 * 24 * 3600 * 1000
	for more := true; more; {
		more = w.do(Expire{EndedBefore: w.now})[0].More
	}
	for _, table := range []byte{tableItems, tableRuns} {
		w.tx.Ascend([]byte{table}, tableEnd(table), func(k, _ []byte) bool {
			t.Errorf("row %x is left", k)
			return false
		})
	}
}

// Many runs begin in entries that stay small.
func TestFanOutOfManyRuns(t *testing.T) {
	w := newWorld(t)
	w.fannedRuns(0)
	ref := w.start("outer")
	w.quick = true
	w.fan(ref, "f", 300)
	w.check()
	runs := w.itemRuns(ref, "f")
	if begun(runs) != 300 {
		t.Fatalf("%d runs have begun", begun(runs))
	}
	for _, r := range runs {
		w.end(r, "i", job.OutcomeSuccess)
	}
	w.check()
	w.want(ref, job.RunRunning, map[string]string{"f": "success"})
}
