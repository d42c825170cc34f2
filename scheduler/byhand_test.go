package scheduler

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// TestByHand lives through the lives of fixed seeds, or that of AXD_MODEL_SEED: tasks,
// schedules and workflows under leader changes, slow and failing commits, crashes and
// lost sessions of workers. Once all is well, everything ends, and the log, applied anew,
// makes the same state.
func TestByHand(t *testing.T) {
	seeds := []uint64{1, 2, 3, 4, 5, 6}
	if text := os.Getenv("AXD_MODEL_SEED"); text != "" {
		seed, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatalf("AXD_MODEL_SEED must be a number, is %q", text)
		}
		seeds = []uint64{seed}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			h := liveByHand(t, seed)
			t.Logf("%v virtual, %d entries, %d starts, %d terms", time.Duration(h.age)*time.Millisecond, len(h.log), h.starts, h.term)
		})
	}
}

func liveByHand(t *testing.T, seed uint64) *hand {
	h := newHand(t, seed)
	h.define()
	for range 400 {
		h.happen()
		h.pass(h.rng.Int64N(400))
	}
	h.heal()
	h.judgeAll()
	return h
}

func (h *hand) define() {
	retry := &job.Retry{MaxRetries: new(2), Initial: job.Duration(300 * time.Millisecond)}
	for _, c := range []fsm.Command{
		fsm.PutJob{Namespace: "default", Name: "j", Spec: job.Spec{Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Retry: retry}}},
		fsm.PutJob{Namespace: "default", Name: "limited", Spec: job.Spec{
			Executor: job.Executor{Handler: "work"}, Policy: job.Policy{Retry: retry, Concurrency: &job.Concurrency{Max: 2}},
		}},
		fsm.PutWorkflow{Namespace: "default", Name: "f", Spec: job.WorkflowSpec{
			Params: []job.Param{{Name: "list", Type: job.ParamList, Default: job.JSON(`[1,2,3]`)}},
			Steps: []job.Step{
				{Name: "a", Job: "j"}, {Name: "fan", Job: "j", Needs: []string{"a"}, ForEach: &job.ForEach{Items: job.JSON(`"${{ params.list }}"`)}},
				{Name: "b", Job: "j", Needs: []string{"fan"}, Rule: job.AllDone, When: "true"}, {Name: "c", Job: "j", Needs: []string{"a", "b"}, Rule: job.OneSuccess},
			},
			Finally: []job.Step{{Name: "z", Job: "limited"}},
		}},
		fsm.PutSchedule{Namespace: "default", Name: "tick", Spec: job.ScheduleSpec{Job: "j", Every: job.Duration(7 * time.Second), Overlap: job.OverlapAllow}},
		fsm.PutSchedule{Namespace: "default", Name: "flow", Spec: job.ScheduleSpec{Workflow: "f", Every: job.Duration(20 * time.Second), Overlap: job.OverlapQueueOne}},
	} {
		if r := h.apply(c); r.Err != nil {
			h.fatalf("%T: %v", c, r.Err)
		}
	}
	for _, w := range h.workers {
		w.connect()
	}
}

// happen does one thing that may happen.
func (h *hand) happen() {
	w := h.workers[h.rng.IntN(len(h.workers))]
	switch n := h.rng.IntN(100); {
	case n < 45:
		spec := job.TaskSpec{Job: "j", Delay: job.Duration(h.rng.Int64N(6000) * int64(time.Millisecond))}
		if h.chance(20) {
			spec.Job = "limited"
		}
		spec.Priority = job.Priority(h.rng.IntN(4))
		h.apply(fsm.Submit{Namespace: "default", Tasks: []job.TaskSpec{spec}})
	case n < 50:
		if ref, ok := h.waiting(); ok {
			h.apply(fsm.Cancel{Ref: ref})
		}
	case n < 55:
		if ref, ok := h.waiting(); ok {
			h.apply(fsm.Reschedule{Ref: ref, Delay: job.Duration(h.rng.Int64N(4000) * int64(time.Millisecond))})
		}
	case n < 63:
		w.disconnect()
	case n < 67:
		w.crash()
	case n < 85:
		w.connect()
	case n < 88:
		h.lead()
	case n < 90:
		h.s.Reset() // as if hints had been lost
	case n < 92:
		h.apply(fsm.DrainWorker{Name: w.name, Resume: h.chance(70)})
	case n < 94:
		h.pass(14_000) // leases of those who are away end
	case n < 96:
		h.machine = fsm.NewMachine()
	}
}

// waiting draws one of the tasks that have not ended.
func (h *hand) waiting() (fsm.TaskRef, bool) {
	r, release := h.Read()
	defer release()
	page, err := fsm.ListTasks(r, fsm.TaskFilter{Namespace: "default"}, "", 1000, h.now)
	if err != nil {
		h.fatalf("%v", err)
	}
	var open []fsm.TaskRef
	for i := range page.Tasks {
		if !page.Tasks[i].State.Terminal() {
			open = append(open, page.Tasks[i].Ref())
		}
	}
	if len(open) == 0 {
		return fsm.TaskRef{}, false
	}
	return open[h.rng.IntN(len(open))], true
}

// heal lets everything go well, until all has ended.
func (h *hand) heal() {
	h.calm = true
	for _, name := range []string{"tick", "flow"} {
		h.apply(fsm.PauseSchedule{Namespace: "default", Name: name})
	}
	for _, w := range h.workers {
		h.apply(fsm.DrainWorker{Name: w.name, Resume: true})
	}
	for range 90 {
		for _, w := range h.workers {
			w.connect()
		}
		h.pass(2000)
		if _, open := h.waiting(); !open {
			return
		}
	}
	ref, _ := h.waiting()
	h.fatalf("task %s has not ended three minutes after all was well", ref.ID)
}

// judgeAll wants the state whole, each planned time judged once, and the log to make the
// same state again.
func (h *hand) judgeAll() {
	r, release := h.Read()
	defer release()
	for _, broken := range fsm.Check(r, 10) {
		h.t.Error(broken)
	}
	for _, ref := range []fsm.ScheduleRef{{Namespace: "default", Name: "tick"}, {Namespace: "default", Name: "flow"}} {
		h.judgeLedger(r, ref)
	}
	again := newHand(h.t, 0)
	for _, e := range h.log {
		batch := again.store.Batch()
		if _, _, err := again.machine.Apply(batch, e.meta, e.entry); err != nil {
			h.fatalf("%v", err)
		}
		batch.Commit()
	}
	v := again.store.View()
	defer v.Close()
	if got, want := fsm.StateHash(v), fsm.StateHash(r); got != want {
		h.fatalf("the log makes another state: hash %x, want %x", got, want)
	}
}

// judgeLedger wants no planned time twice, and none left out.
func (h *hand) judgeLedger(r fsm.Reader, ref fsm.ScheduleRef) {
	s, st, ok := fsm.GetSchedule(r, ref)
	if !ok {
		h.fatalf("schedule %s is gone", ref.Name)
	}
	var seen int64
	for cursor := ""; ; {
		page, next, err := fsm.ListFires(r, ref, fsm.FireFilter{}, cursor, 1000)
		if err != nil {
			h.fatalf("%v", err)
		}
		for i := range page {
			seen += max(page[i].Count, 1)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	every := s.Spec.Every.Milliseconds()
	if want := (st.Cursor - s.Created) / every; seen != want {
		h.fatalf("schedule %s has %d verdicts, %d times have passed", ref.Name, seen, want)
	}
}
