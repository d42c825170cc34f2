package fsm

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

func fanOf(name string, parallel int, needs ...string) job.Step {
	s := stepOf(name, "", needs...)
	s.ForEach = &job.ForEach{Items: job.JSON(`"${{ params.list }}"`), Parallel: parallel}
	return s
}

// fan hands in the items of a step, part by part, as the leader does.
func (w *world) fan(ref RunRef, step string, items int) {
	w.t.Helper()
	for made := 0; ; {
		s := w.steps(ref)[step]
		c := StepVerdict{Ref: ref, Step: s.Number, Want: s.Want, Total: uint32(items), Made: uint32(made)}
		for ; made < items && len(c.Items) < MaxItemsPart; made++ {
			c.Items = append(c.Items, fmt.Appendf(nil, `{"item":%d}`, made))
		}
		w.do(c)
		w.settle()
		if made == items {
			return
		}
	}
}

// items reads all items of a step.
func (w *world) items(ref RunRef, step string) (all []Task) {
	w.t.Helper()
	s := w.steps(ref)[step]
	for {
		items := Items(w.tx, ref, s.Number, &s.Step, uint32(len(all)), 50)
		for _, it := range items {
			if int(it.Number) != len(all)+1 {
				w.t.Fatalf("item %d follows %d", it.Number, len(all))
			}
			all = append(all, it.Record)
		}
		if len(items) < 50 {
			return all
		}
	}
}

// itemStates counts them by state.
func (w *world) itemStates(ref RunRef, step string) string {
	w.t.Helper()
	counts := map[job.State]int{}
	for _, t := range w.items(ref, step) {
		counts[t.State]++
	}
	return fmt.Sprint(counts)
}

// endItems ends as many of a step's items that are pending.
func (w *world) endItems(ref RunRef, step string, n int, o job.Outcome) {
	w.t.Helper()
	for n > 0 {
		before := n
		for _, t := range w.items(ref, step) {
			if n > 0 && t.State == job.Pending {
				n--
				w.finish(&t, o)
				w.settle()
			}
		}
		if n == before {
			w.t.Fatalf("%d items too few are pending", n)
		}
	}
}

func (w *world) wantItems(ref RunRef, step, want string) {
	w.t.Helper()
	if got := w.itemStates(ref, step); got != want {
		w.t.Fatalf("items of %s are %s, want %s", step, got, want)
	}
}

// A step that fans out is a task for each item, as many at once as it says, and ends
// with the last; an empty list is a success.
func TestFanOut(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "list"}}, Steps: []job.Step{fanOf("f", 3), stepOf("z", "", "f")}})
	ref := w.start("w")
	w.want(ref, job.RunRunning, map[string]string{"f": "blocked", "z": "blocked"})
	w.fan(ref, "f", 150)
	w.wantItems(ref, "f", "map[pending:3 blocked:147]")
	if s := w.steps(ref)["f"]; s.Record.State != job.Blocked || s.Record.Item != 0 {
		t.Errorf("the step's own task is %v", s.Record.State)
	}
	first := w.items(ref, "f")[0]
	if b, _ := BodyOf(w.tx, &first); string(b.Payload) != `{"item":0}` || first.Item != 1 || first.Run != ref.ID {
		t.Errorf("payload %s of item %d", b.Payload, first.Item)
	}
	w.endItems(ref, "f", 149, job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"z": "blocked"})
	w.endItems(ref, "f", 1, job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"f": "success", "z": "pending"})
	w.end(ref, "z", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
	if run := w.run(ref); run.Items != 150 || run.Counts[job.Success] != 152 {
		t.Errorf("%d items, counts %v", run.Items, run.Counts)
	}

	empty := w.start("w")
	w.fan(empty, "f", 0)
	w.want(empty, job.RunRunning, map[string]string{"f": "success", "z": "pending"})
}

// max_parallel of the run bounds items and other steps together.
func TestFanOutWithinMaxParallel(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{MaxParallel: 4, Params: []job.Param{{Name: "list"}}, Steps: []job.Step{stepOf("a", ""), fanOf("f", 0), fanOf("g", 0)}})
	ref := w.start("w")
	w.fan(ref, "f", 10)
	w.fan(ref, "g", 2)
	w.wantItems(ref, "f", "map[pending:3 blocked:7]")
	w.end(ref, "a", job.OutcomeSuccess)
	w.wantItems(ref, "f", "map[pending:4 blocked:6]")
	w.endItems(ref, "f", 10, job.OutcomeSuccess)
	w.wantItems(ref, "g", "map[pending:2]")
	w.endItems(ref, "g", 2, job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

// Failed items fail the step once all have ended; replayed dead letters or a rerun
// mend it. A rerun computes the items anew.
func TestFanOutFails(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "list"}}, Steps: []job.Step{fanOf("f", 0), stepOf("z", "", "f")}})
	ref := w.start("w")
	w.fan(ref, "f", 3)
	w.endItems(ref, "f", 2, job.OutcomeFailed)
	w.want(ref, job.RunRunning, map[string]string{"f": "blocked"})
	w.endItems(ref, "f", 1, job.OutcomeSuccess)
	w.want(ref, job.RunFailed, map[string]string{"f": "failed", "z": "upstream_failed"})
	if s := w.steps(ref)["f"]; s.Record.Error != "2 of 3 items failed" || s.Record.Dead {
		t.Errorf("error %q, dead %v", s.Record.Error, s.Record.Dead)
	}
	dead := w.items(ref, "f")[0]
	r := w.do(DeadLetters{Namespace: "default", Replay: true, IDs: []job.ID{dead.ID}})[0]
	w.settle()
	if r.Attempts[0] != nil {
		t.Fatal(r.Attempts[0])
	}
	w.want(ref, job.RunRunning, map[string]string{"f": "blocked", "z": "blocked"})
	w.endItems(ref, "f", 1, job.OutcomeSuccess)
	w.want(ref, job.RunFailed, map[string]string{"f": "failed"})

	w.do(RerunRun{Ref: ref, Mode: RerunFailed})
	w.settle()
	w.want(ref, job.RunRunning, map[string]string{"f": "blocked", "z": "blocked"})
	w.fan(ref, "f", 2)
	w.wantItems(ref, "f", "map[pending:2]")
	dead = w.items(ref, "f")[0]
	w.endItems(ref, "f", 2, job.OutcomeSuccess)
	w.want(ref, job.RunRunning, map[string]string{"f": "success", "z": "pending"})
	if run := w.run(ref); run.Items != 5 || run.Dead != 1 || dead.Item != 4 {
		t.Errorf("%d items, %d dead, the newest begin with %d", run.Items, run.Dead, dead.Item)
	}
	w.end(ref, "z", job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
}

// What a run cancels, it cancels with all items, also while they are made; nothing by
// hand touches the step meanwhile.
func TestFanOutIsCancelled(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "list"}}, Steps: []job.Step{fanOf("f", 2)}, Finally: []job.Step{stepOf("end", "")}})
	ref := w.start("w")
	s := w.steps(ref)["f"]
	part := StepVerdict{Ref: ref, Step: s.Number, Want: s.Want, Total: 2000}
	for range MaxItemsPart {
		part.Items = append(part.Items, []byte("1"))
	}
	w.do(part)
	if r := w.try(part)[0]; r.Err == nil || r.Err.Code != job.CodeStale {
		t.Fatalf("took a part twice: %v", r.Err)
	}
	for _, c := range []Command{
		Cancel{Ref: TaskRef{"default", s.Task}}, ForceSuccess{Ref: ref, Step: "f"}, SkipStep{Ref: ref, Step: "f"},
	} {
		if r := w.try(c)[0]; r.Err == nil || r.Err.Code != job.CodeConflict {
			t.Errorf("%T: %v", c, r.Err)
		}
	}
	if w.wanted() != 1 {
		t.Fatal("no more items are wanted")
	}
	w.do(CancelRun{Ref: ref})
	w.settle()
	if w.wanted() != 0 {
		t.Error("items of a cancelled run are wanted")
	}
	w.want(ref, job.RunRunning, map[string]string{"f": "cancelled", "end": "pending"})
	w.wantItems(ref, "f", fmt.Sprintf("map[cancelled:%d]", MaxItemsPart))
	w.end(ref, "end", job.OutcomeSuccess)
	w.want(ref, job.RunCancelled, nil)
}

// Each step that fans out is stopped from its first item on, also behind another that
// ended with its last.
func TestCancelledRunStopsAllThatFansOut(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "list"}}, Steps: []job.Step{fanOf("f", 1), fanOf("g", 1), fanOf("h", 1)}})
	ref := w.start("w")
	for _, step := range []string{"f", "g", "h"} {
		w.fan(ref, step, 3)
	}
	w.do(CancelRun{Ref: ref})
	w.settle()
	for _, step := range []string{"f", "g", "h"} {
		w.wantItems(ref, step, "map[cancelled:3]")
	}
	w.want(ref, job.RunCancelled, nil)
}

// An item whose list changed, or can't be computed any more, ends the making.
func TestFanOutBreaks(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "list"}}, Steps: []job.Step{fanOf("f", 2)}})
	for _, change := range []func(*StepVerdict){
		func(c *StepVerdict) { c.Total++ }, func(c *StepVerdict) { c.Fail, c.Items = "no list", nil },
	} {
		ref := w.start("w")
		s := w.steps(ref)["f"]
		part := StepVerdict{Ref: ref, Step: s.Number, Want: s.Want, Total: 3, Items: [][]byte{[]byte("1")}}
		w.do(part)
		part.Made = 1
		change(&part)
		w.do(part)
		w.endItems(ref, "f", 1, job.OutcomeSuccess)
		w.want(ref, job.RunFailed, map[string]string{"f": "failed"})
	}
	ref := w.start("w")
	s := w.steps(ref)["f"]
	for _, c := range []StepVerdict{
		{Total: 3}, {Total: 1, Items: [][]byte{{'1'}, {'2'}}}, {Total: 1, Items: [][]byte{make([]byte, job.MaxPayload+1)}},
		{Total: 100, Items: make([][]byte, MaxItemsPart+1)},
	} {
		c.Ref, c.Step, c.Want = ref, s.Number, s.Want
		if r := w.try(c)[0]; r.Err == nil || r.Err.Code != job.CodeInvalid {
			t.Errorf("took %d items of %d: %v", len(c.Items), c.Total, r.Err)
		}
	}
	w.do(StepVerdict{Ref: ref, Step: s.Number, Want: s.Want, Total: job.MaxRunTasks, Items: [][]byte{{'1'}}})
	w.want(ref, job.RunFailed, map[string]string{"f": "failed"})
}

// A run is deleted with all its items, of every time, in parts.
func TestFanOutExpires(t *testing.T) {
	w := newWorld(t)
	w.put("w", job.WorkflowSpec{Params: []job.Param{{Name: "list"}}, Steps: []job.Step{fanOf("f", 0)}})
	ref := w.start("w")
	w.fan(ref, "f", 120)
	w.endItems(ref, "f", 120, job.OutcomeSuccess)
	w.do(RerunRun{Ref: ref, Mode: RerunFrom, Step: "f"})
	w.fan(ref, "f", 1)
	w.endItems(ref, "f", 1, job.OutcomeSuccess)
	w.want(ref, job.RunSuccess, nil)
	w.now += 1000
	for more := true; more; {
		more = w.do(Expire{EndedBefore: w.now})[0].More
	}
	if _, ok := GetRun(w.tx, ref); ok {
		t.Error("the run is still there")
	}
	w.tx.Ascend([]byte{tableItems}, tableEnd(tableItems), func(k, _ []byte) bool {
		t.Errorf("row %x is left", k)
		return false
	})
}
