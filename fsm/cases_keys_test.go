package fsm

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/axd-project/axd/job"
)

// one submits one task and returns its result.
func (e *limitsEnv) one(s job.TaskSpec) SubmitResult {
	e.t.Helper()
	if s.Job == "" {
		s.Executor = job.Executor{Handler: "own"}
	}
	r := e.apply(Submit{Namespace: "default", Tasks: []job.TaskSpec{s}})[0]
	e.check()
	return r.Tasks[0]
}

// created submits a task that must be a new one.
func (e *limitsEnv) created(s job.TaskSpec) *Task {
	e.t.Helper()
	r := e.one(s)
	if r.Err != nil || r.Deduplicated {
		e.t.Fatalf("not created: %v, deduplicated %v", r.Err, r.Deduplicated)
	}
	return r.Task
}

// TestK7_02_UniqueKeyIsFreedByEveryEnd ends the holder of a unique key in every way
// there is: another is accepted at once. Before, it is refused with the holder's id.
func TestK7_02_UniqueKeyIsFreedByEveryEnd(t *testing.T) {
	e := newLimitsEnv(t)
	spec := job.TaskSpec{UniqueKey: "k", Policy: job.Policy{Retry: &job.Retry{MaxRetries: new(1)}}}
	refused := func(holder *Task) {
		t.Helper()
		r := e.one(spec)
		if !errors.Is(r.Err, job.ErrConflict) || r.Err.Field != "unique_key" || !strings.Contains(r.Err.Rule, holder.ID.String()) {
			t.Fatalf("want a conflict that names %s, got %v", holder.ID, r.Err)
		}
	}
	run := func(task *Task) AttemptRef {
		t.Helper()
		now, _ := GetTask(e.tx, task.Ref())
		e.now = max(e.now, now.Due)
		e.assign([]*Task{&now})
		refused(task)
		now, _ = GetTask(e.tx, task.Ref())
		e.apply(Started{AttemptRef: AttemptRef{task.Ref(), now.Token}, At: e.now})
		refused(task)
		return AttemptRef{task.Ref(), now.Token}
	}
	fail := func(task *Task, o job.Outcome) {
		t.Helper()
		e.apply(Finished{AttemptRef: run(task), Result: AttemptResult{Outcome: o}})
	}
	ends := map[string]func(*Task){
		"cancelled while scheduled": func(task *Task) { e.apply(Cancel{Ref: task.Ref()}) },
		"success":                   func(task *Task) { fail(task, job.OutcomeSuccess) },
		"failed for good": func(task *Task) {
			fail(task, job.OutcomeFailed)
			refused(task) // it waits for its retry
			fail(task, job.OutcomeFailed)
		},
		"timed out": func(task *Task) { fail(task, job.OutcomeFailed); fail(task, job.OutcomeTimeout) },
		"its worker was lost, twice": func(task *Task) {
			for range 2 {
				e.apply(LoseAttempts{Attempts: []AttemptRef{run(task)}, Outcome: job.OutcomeLost})
			}
		},
		"cancelled while running": func(task *Task) {
			ref := run(task)
			e.apply(Cancel{Ref: task.Ref()})
			refused(task)
			e.apply(Finished{AttemptRef: ref, Result: AttemptResult{Outcome: job.OutcomeCancelled}})
		},
		"given back and cancelled": func(task *Task) {
			ref := run(task)
			e.apply(Cancel{Ref: task.Ref()}, GiveBack{Attempts: []AttemptRef{ref}})
		},
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			e.t = t
			later := spec
			later.Delay = job.Duration(time.Hour)
			holder := e.created(later)
			refused(holder)
			end(holder)
			e.apply(Cancel{Ref: e.created(spec).Ref()})
		})
	}
}

// TestK7_03_KeyUsedAgain submits every minute what runs for 10 s: under an
// idempotency key with a window of 2 min 59 s, and under a unique key.
func TestK7_03_KeyUsedAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		spec job.TaskSpec
		want string // by minute: + a new task, = the last one again
	}{
		"idempotency": {job.TaskSpec{IdempotencyKey: "sync", IdempotencyWindow: job.Duration(179 * time.Second)}, "+==+==+"},
		"unique":      {job.TaskSpec{UniqueKey: "sync"}, "+++++++"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newLimitsEnv(t)
			begin := e.now
			var last job.ID
			for minute, want := range tt.want {
				e.now = begin + int64(minute)*60_000
				r := e.one(tt.spec)
				if r.Err != nil || r.Deduplicated != (want == '=') || r.Deduplicated && r.ID != last {
					t.Fatalf("minute %d: %v, deduplicated %v", minute, r.Err, r.Deduplicated)
				}
				if last = r.ID; r.Deduplicated {
					continue
				}
				e.assign([]*Task{r.Task})
				now, _ := GetTask(e.tx, r.Task.Ref())
				e.now += 10_000
				e.apply(Finished{AttemptRef: AttemptRef{now.Ref(), now.Token}, Result: AttemptResult{Outcome: job.OutcomeSuccess}})
				e.check()
			}
		})
	}
}

// TestK7_04_PeriodOfTheDueTime submits pairs under one key that holds once per 12
// minutes: what is due in different periods is two tasks, in one it is one. A batch
// obeys the same rule.
func TestK7_04_PeriodOfTheDueTime(t *testing.T) {
	const day = 86_400_000
	ten := scriptStart - scriptStart%day + day + 10*3_600_000
	for name, tt := range map[string]struct {
		second int64 // minutes after 10:00
		tasks  int
	}{"10:00 and 10:13": {13, 2}, "10:00 and 10:05": {5, 1}} {
		for _, batch := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				e := newLimitsEnv(t)
				spec := func(due int64) job.TaskSpec {
					return job.TaskSpec{
						Executor: job.Executor{Handler: "own"}, IdempotencyKey: "k",
						IdempotencyPeriod: job.Duration(12 * time.Minute), Due: due,
					}
				}
				a, b := spec(ten), spec(ten+tt.second*60_000)
				var got []SubmitResult
				if batch {
					got = e.apply(Submit{Namespace: "default", Tasks: []job.TaskSpec{a, b}})[0].Tasks
				} else {
					got = append(got, e.one(a))
					e.now += 1000
					got = append(got, e.one(b))
				}
				e.check()
				if got[0].Err != nil || got[1].Err != nil || got[1].Deduplicated != (tt.tasks == 1) {
					t.Errorf("batch %v: %+v", batch, got)
				}
				if n := CountTasks(e.tx, "default").Sum(); n != int64(tt.tasks) {
					t.Errorf("batch %v: %d tasks, want %d", batch, n, tt.tasks)
				}
			})
		}
	}
}
