package store

import (
	"strconv"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

// applyBench is the state machine on the store on disk, without Raft.
type applyBench struct {
	b     *testing.B
	s     Store
	m     *fsm.Machine
	index uint64
	cpu   time.Duration // of measured entries and what the store did beside
}

func newApplyBench(b *testing.B) *applyBench {
	x := &applyBench{b: b, s: openBench(b), m: fsm.NewMachine()}
	x.apply(
		fsm.PutJob{Namespace: "default", Name: "mail", Spec: job.Spec{Executor: job.Executor{Handler: "mail"}}},
		fsm.RegisterWorker{Term: 1, Name: "w1", Boot: "b1", Slots: 1000},
	)
	x.cpu = 0
	return x
}

// apply applies commands as one entry in one batch, as raftnode does.
func (x *applyBench) apply(commands ...fsm.Command) []fsm.Result {
	entry := fsm.Entry{At: 1_800_000_000_000 + int64(x.index)}
	for _, c := range commands {
		b, err := fsm.EncodeCommand(c)
		if err != nil {
			x.b.Fatal(err)
		}
		entry.Commands = append(entry.Commands, b)
	}
	data, err := fsm.EncodeEntry(entry)
	if err != nil {
		x.b.Fatal(err)
	}
	x.index++
	before := cpuTime(x.b)
	batch := x.s.Batch()
	results, _, err := x.m.Apply(batch, fsm.Meta{Index: x.index, Term: 1}, data)
	if err != nil {
		x.b.Fatal(err)
	}
	batch.Commit()
	x.cpu += cpuTime(x.b) - before
	for _, r := range results {
		if r.Err != nil {
			x.b.Fatal(r.Err)
		}
	}
	return results
}

// submit creates tasks, with idempotency keys where delayed.
func (x *applyBench) submit(n int, delay job.Duration) []fsm.SubmitResult {
	c := fsm.Submit{Namespace: "default"}
	for i := range n {
		s := job.TaskSpec{Job: "mail", Delay: delay, Payload: []byte(`{"to": "someone@example.org", "subject": "a payload of about a hundred bytes", "n": 123456}`)}
		if delay > 0 {
			s.IdempotencyKey = "order-" + strconv.FormatUint(x.index, 10) + "-" + strconv.Itoa(i)
		}
		c.Tasks = append(c.Tasks, s)
	}
	return x.apply(c)[0].Tasks
}

func (x *applyBench) report(tasks int) {
	x.b.ReportMetric(float64(x.cpu.Nanoseconds())/float64(tasks), "cpu-ns/task")
}

// BenchmarkApplySubmit is what one server spends on a delayed task of a batch with
// an idempotency key.
func BenchmarkApplySubmit(b *testing.B) {
	x := newApplyBench(b)
	n := 0
	for b.Loop() {
		n += len(x.submit(500, job.Duration(time.Hour)))
	}
	x.report(n)
}

// BenchmarkApplyLife is what one server spends on an immediate task from its submit
// over its assign to its end.
func BenchmarkApplyLife(b *testing.B) {
	x := newApplyBench(b)
	n := 0
	for b.Loop() {
		tasks := x.submit(500, 0)
		n += len(tasks)
		var assign fsm.Assign
		assign.Term = 1
		for _, t := range tasks {
			assign.Items = append(assign.Items, fsm.AssignItem{
				Ref: t.Task.Ref(), Version: t.Task.Version, Worker: "w1", Boot: "b1",
			})
		}
		var finished []fsm.Command
		for i, a := range x.apply(assign)[0].Assigned {
			if a.Err != nil {
				b.Fatal(a.Err)
			}
			finished = append(finished, fsm.Finished{
				AttemptRef: fsm.AttemptRef{Ref: assign.Items[i].Ref, Token: a.Token},
				Result:     fsm.AttemptResult{Outcome: job.OutcomeSuccess},
			})
		}
		x.apply(finished...)
	}
	x.report(n)
}
