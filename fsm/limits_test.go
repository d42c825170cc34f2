package fsm

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

// countingTx counts the writes of an entry.
type countingTx struct {
	*memTx
	writes int
}

func (c *countingTx) Set(k, v []byte) { c.writes++; c.memTx.Set(k, v) }
func (c *countingTx) Delete(k []byte) { c.writes++; c.memTx.Delete(k) }

// limitsEnv applies commands one entry each.
type limitsEnv struct {
	t     *testing.T
	tx    *countingTx
	m     *Machine
	index uint64
	now   int64
}

func newLimitsEnv(t *testing.T) *limitsEnv {
	e := &limitsEnv{t: t, tx: &countingTx{memTx: newMemTx()}, m: NewMachine(), now: scriptStart}
	e.tx.fast = true
	e.apply(RegisterWorker{Name: "w1", Boot: "b1"})
	return e
}

func (e *limitsEnv) apply(commands ...Command) []Result {
	e.t.Helper()
	entry := Entry{At: e.now}
	for _, c := range commands {
		b, err := EncodeCommand(c)
		if err != nil {
			e.t.Fatal(err)
		}
		entry.Commands = append(entry.Commands, b)
	}
	b, err := EncodeEntry(entry)
	if err != nil {
		e.t.Fatal(err)
	}
	e.index++
	e.tx.writes = 0
	results, _, err := e.m.Apply(e.tx, Meta{Index: e.index}, b)
	if err != nil {
		e.t.Fatal(err)
	}
	return results
}

func (e *limitsEnv) check() {
	e.t.Helper()
	if broken := Check(e.tx, 5); broken != nil {
		e.t.Fatalf("%q", broken)
	}
}

func (e *limitsEnv) submit(n int, change func(i int, s *job.TaskSpec)) []*Task {
	e.t.Helper()
	c := Submit{Namespace: "default"}
	for i := range n {
		s := job.TaskSpec{Executor: job.Executor{Handler: "own"}}
		change(i, &s)
		c.Tasks = append(c.Tasks, s)
	}
	var tasks []*Task
	for _, s := range e.apply(c)[0].Tasks {
		if s.Err != nil {
			e.t.Fatal(s.Err)
		}
		tasks = append(tasks, s.Task)
	}
	return tasks
}

func (e *limitsEnv) assign(tasks []*Task) {
	e.t.Helper()
	c := Assign{}
	for _, t := range tasks {
		c.Items = append(c.Items, AssignItem{Ref: t.Ref(), Version: t.Version, Worker: "w1", Boot: "b1"})
	}
	for _, r := range e.apply(c)[0].Assigned {
		if r.Err != nil {
			e.t.Fatal(r.Err)
		}
	}
}

func TestExpireTouchesAtMostMaxFanOutRows(t *testing.T) {
	e := newLimitsEnv(t)
	const n = 1300
	tasks := e.submit(n, func(i int, s *job.TaskSpec) {
		s.IdempotencyKey, s.IdempotencyWindow = fmt.Sprint("k", i), 1_000_000_000
	})
	var cancels []Command
	for _, task := range tasks {
		cancels = append(cancels, Cancel{Ref: task.Ref()})
	}
	e.apply(cancels...)
	e.now += 10_000
	deleted, calls := 0, 0
	for more := true; more; calls++ {
		r := e.apply(Expire{EndedBefore: e.now})[0]
		deleted += r.Deleted
		more = r.More
		const beside = 2 + 3 + 3 // state and chain, low marks, counters
		if e.tx.writes > maxFanOut+beside {
			t.Errorf("call %d wrote %d rows", calls, e.tx.writes)
		}
		e.check()
	}
	if deleted != n || calls < n*4/maxFanOut {
		t.Errorf("%d records deleted in %d calls, want %d", deleted, calls, n)
	}
	if left := CountTasks(e.tx, "").Sum(); left != 0 {
		t.Errorf("%d tasks are left", left)
	}
}

func TestLastAttemptsAreKept(t *testing.T) {
	e := newLimitsEnv(t)
	task := e.submit(1, func(_ int, s *job.TaskSpec) {
		s.Retry = &job.Retry{MaxRetries: new(100), Initial: 1_000_000, Cap: 1_000_000}
	})[0]
	var tokens []job.Token
	for range MaxAttempts + 5 {
		e.now += 10_000
		e.assign([]*Task{task})
		held := ListActive(e.tx, "w1", 1)[0]
		tokens = append(tokens, held.Token)
		task = e.apply(Finished{AttemptRef: held.AttemptRef, Result: AttemptResult{Outcome: job.OutcomeFailed}})[0].Task
	}
	e.check()
	attempts := ListAttempts(e.tx, task.Ref())
	if len(attempts) != MaxAttempts || attempts[0].Number != 6 || attempts[MaxAttempts-1].Number != MaxAttempts+5 {
		t.Fatalf("%d attempts from %d", len(attempts), attempts[0].Number)
	}
	// A report of an attempt that is no longer known leaves nothing.
	late := Finished{AttemptRef: AttemptRef{task.Ref(), tokens[0]}, Result: AttemptResult{Outcome: job.OutcomeSuccess}}
	if r := e.apply(late)[0]; code(r.Err) != job.CodeStale {
		t.Errorf("%+v", r)
	}
	// Given back at the limit, the next attempt takes the number again.
	e.now += 10_000
	e.assign([]*Task{task})
	e.apply(GiveBack{Attempts: []AttemptRef{ListActive(e.tx, "w1", 1)[0].AttemptRef}})
	e.check()
	given, _ := GetTask(e.tx, task.Ref())
	e.assign([]*Task{&given})
	e.check()
	if got := ListActive(e.tx, "w1", 1)[0]; got.Attempt != MaxAttempts+6 || got.Token.Compare(tokens[len(tokens)-1]) <= 0 {
		t.Errorf("%+v", got)
	}
}

func TestLastJobVersionsAreKept(t *testing.T) {
	e := newLimitsEnv(t)
	for i := range MaxJobVersions + 5 {
		e.apply(PutJob{Namespace: "default", Name: "j", Spec: job.Spec{Executor: job.Executor{Handler: fmt.Sprint("h", i)}}})
	}
	e.check()
	if _, ok := GetJobVersion(e.tx, "default", "j", 5); ok {
		t.Error("version 5 is kept")
	}
	if j, ok := GetJobVersion(e.tx, "default", "j", 6); !ok || j.Spec.Handler != "h5" {
		t.Errorf("version 6: %+v, %v", j, ok)
	}
	e.apply(DeleteJob{Namespace: "default", Name: "j"})
	e.check()
	for v := range uint64(MaxJobVersions + 10) {
		if _, ok := GetJobVersion(e.tx, "default", "j", v); ok {
			t.Errorf("version %d outlived the job", v)
		}
	}
}

func TestSubmitIsBounded(t *testing.T) {
	e := newLimitsEnv(t)
	for _, n := range []int{0, job.MaxBatch + 1} {
		if r := e.apply(Submit{Namespace: "default", Tasks: make([]job.TaskSpec, n)})[0]; code(r.Err) != job.CodeInvalid {
			t.Errorf("%d tasks: %+v", n, r.Err)
		}
	}
}

// TestManyTasks wants pages that end at the scan limit, and all attempts listed.
func TestManyTasks(t *testing.T) {
	e := newLimitsEnv(t)
	var tasks []*Task
	for range 2 {
		tasks = append(tasks, e.submit(ScanLimit/2+100, func(int, *job.TaskSpec) {})...)
	}
	e.assign(tasks)
	p, err := ListTasks(e.tx, TaskFilter{Namespace: "default", App: "none"}, "", 10, e.now)
	if err != nil || len(p.Tasks) != 0 || p.Next == "" {
		t.Fatalf("%d tasks, next %q, %v", len(p.Tasks), p.Next, err)
	}
	p, err = ListTasks(e.tx, TaskFilter{Namespace: "default", App: "none"}, p.Next, 10, e.now)
	if err != nil || len(p.Tasks) != 0 || p.Next != "" {
		t.Fatalf("second page: %d tasks, next %q, %v", len(p.Tasks), p.Next, err)
	}
	if len(ListActive(e.tx, "", len(tasks)+1)) != len(tasks) {
		t.Error("ListActive does not find all")
	}
}

func TestCachesAreBounded(t *testing.T) {
	e := newLimitsEnv(t)
	put := func(from, n int) {
		var commands []Command
		for i := from; i < from+n; i++ {
			commands = append(commands,
				PutJob{Namespace: "default", Name: fmt.Sprint("j", i), Spec: job.Spec{Executor: job.Executor{Handler: "h"}}},
				Submit{Namespace: fmt.Sprint("n", i), Tasks: []job.TaskSpec{{Executor: job.Executor{Handler: "h"}}}},
				Submit{Namespace: fmt.Sprint("m", i), Tasks: []job.TaskSpec{{Executor: job.Executor{Handler: "h"}}}},
				RegisterWorker{Name: fmt.Sprint("w", i), Boot: "b"})
		}
		e.apply(commands...)
	}
	for i := range 2 {
		put(i*4200, 4200)
		if len(e.m.jobs) > maxCachedJobs || len(e.m.workers) > maxCachedWorkers || len(e.m.counters) > maxCachedCounters {
			t.Fatalf("%d jobs, %d workers, %d counters", len(e.m.jobs), len(e.m.workers), len(e.m.counters))
		}
	}
}

// TestExpirable wants Expirable to come to rest, and to speak
// up for each thing that Expire does.
func TestExpirable(t *testing.T) {
	e := newLimitsEnv(t)
	rest := func(when string) {
		t.Helper()
		e.apply(Expire{EndedBefore: e.now - 1000})
		if Expirable(e.tx, e.now-1000, e.now) {
			t.Errorf("%s: an Expire is worth an entry right after one", when)
		}
		e.now += 3_600_000
		if Expirable(e.tx, 0, e.now) {
			t.Errorf("%s: an idle cluster does not come to rest", when)
		}
	}
	rest("empty")
	task := e.submit(1, func(int, *job.TaskSpec) {})[0]
	rest("pending")
	e.submit(1, func(_ int, s *job.TaskSpec) { s.Delay = job.Duration(3600 * 1_000_000_000) })
	rest("another later")
	e.apply(Cancel{Ref: task.Ref()})
	if !Expirable(e.tx, 0, e.now) {
		t.Error("the low mark lies an hour behind")
	}
	if !Expirable(e.tx, e.now+1, e.now+1) {
		t.Error("a task has ended")
	}
}
