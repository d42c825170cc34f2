package fsm

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/job"
)

// benchAdvance measures the entries that end the steps of chains, each with the
// begin of the next, beside so many other tasks.
func benchAdvance(b *testing.B, others int) {
	x := newBench(b)
	x.tx.fast = true
	for range others / benchPerEntry {
		x.now++
		x.apply(x.submit(benchPerEntry, false))
	}
	x.apply([]Command{PutWorkflow{Namespace: "default", Name: "chain", Spec: benchChain(100)}})
	begin := func() {
		x.tasks = nil
		var commands []Command
		for range 50 {
			commands = append(commands, StartRun{Namespace: "default", Workflow: "chain"})
		}
		x.apply(commands)
	}
	n := 0
	for b.Loop() {
		b.StopTimer()
		if n%100 == 0 {
			begin()
		}
		n++
		x.now++
		var items []AssignItem
		for _, p := range []job.Priority{job.High} {
			for _, row := range ScanDue(x.tx, p, DueKey{}, x.now+1, 50) {
				t, _ := GetTask(x.tx, TaskRef{"default", row.ID})
				items = append(items, AssignItem{Ref: t.Ref(), Version: t.Version, Worker: "w1", Boot: "b1"})
			}
		}
		x.apply([]Command{Assign{Items: items}})
		entry := x.encode(x.finish())
		b.StartTimer()
		x.measure(entry)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n*50), "ns/step")
}

func benchChain(n int) (spec job.WorkflowSpec) {
	for i := range n {
		s := job.Step{Name: fmt.Sprintf("s%d", i), Job: "mail", Policy: job.Policy{Priority: job.High}}
		if i > 0 {
			s.Needs = []string{fmt.Sprintf("s%d", i-1)}
		}
		spec.Steps = append(spec.Steps, s)
	}
	return spec
}

// BenchmarkAdvance shows what the end of a step costs beside few and beside many
// other tasks.
func BenchmarkAdvance(b *testing.B) {
	for _, others := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) { benchAdvance(b, others) })
	}
}
