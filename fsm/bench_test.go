package fsm

import (
	"testing"

	"github.com/axd-project/axd/job"
)

// benchPerEntry is how many commands the benchmarks put into an entry.
const benchPerEntry = 500

var benchPayload = []byte(`{"to": "someone@example.org", "subject": "a payload of about a hundred bytes", "n": 123456}`)

// bench is a machine on an ordered map in memory; the map's own cost, about a
// microsecond a row, is part of the figures.
type bench struct {
	b     *testing.B
	tx    *memTx
	m     *Machine
	index uint64
	now   int64
	tasks []*Task
}

func newBench(b *testing.B) *bench {
	b.Helper()
	x := &bench{b: b, tx: newMemTx(), m: NewMachine(), now: scriptStart}
	x.tx.fast = true
	x.apply([]Command{
		PutJob{Namespace: "default", Name: "mail", Spec: job.Spec{Executor: job.Executor{Handler: "mail"}}},
		RegisterWorker{Name: "w1", Boot: "b1", Slots: 1000},
	})
	return x
}

func (x *bench) encode(commands []Command) []byte {
	e := Entry{At: x.now}
	for _, c := range commands {
		b, err := EncodeCommand(c)
		if err != nil {
			x.b.Fatal(err)
		}
		e.Commands = append(e.Commands, b)
	}
	entry, err := EncodeEntry(e)
	if err != nil {
		x.b.Fatal(err)
	}
	return entry
}

// apply applies the commands outside the measured time, and keeps the tasks
// they made.
func (x *bench) apply(commands []Command) {
	x.measure(x.encode(commands))
}

func (x *bench) measure(entry []byte) {
	x.index++
	results, _, err := x.m.Apply(x.tx, Meta{Index: x.index}, entry)
	if err != nil {
		x.b.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			x.b.Fatal(r.Err)
		}
		for _, s := range r.Tasks {
			if s.Err != nil {
				x.b.Fatal(s.Err)
			}
			x.tasks = append(x.tasks, s.Task)
		}
		if r.Task != nil {
			x.tasks = append(x.tasks, r.Task)
		}
	}
}

func (x *bench) submit(n int, key bool) []Command {
	commands := make([]Command, n)
	for i := range commands {
		s := job.TaskSpec{Job: "mail", Payload: benchPayload}
		if key {
			s.IdempotencyKey = job.NewID(x.now, x.index, uint32(i)).String()
		}
		commands[i] = Submit{Namespace: "default", Tasks: []job.TaskSpec{s}}
	}
	return commands
}

func (x *bench) assign() []Command {
	var items []AssignItem
	for _, t := range x.tasks {
		items = append(items, AssignItem{Ref: t.Ref(), Version: t.Version, Worker: "w1", Boot: "b1"})
	}
	x.tasks = x.tasks[:0]
	return []Command{Assign{Items: items}}
}

func (x *bench) finish() []Command {
	var commands []Command
	for _, a := range ListActive(x.tx, "w1", benchPerEntry) {
		code := 0
		commands = append(commands, Finished{
			AttemptRef: a.AttemptRef, Result: AttemptResult{Outcome: job.OutcomeSuccess, ExitCode: &code, Started: x.now, Ended: x.now},
		})
	}
	return commands
}

// loop runs prepare outside the measured time and the entry it makes within.
func (x *bench) loop(prepare func() []Command) {
	x.b.ReportAllocs()
	n := 0
	for x.b.Loop() {
		x.b.StopTimer()
		if n += benchPerEntry; n%(100*benchPerEntry) == 0 { // keep the map small
			x.tx.tree.Clear(false)
			fresh := newBench(x.b)
			x.tx, x.m, x.index = fresh.tx, fresh.m, fresh.index
		}
		x.tasks = x.tasks[:0]
		entry := x.encode(prepare())
		x.b.StartTimer()
		x.measure(entry)
	}
	x.b.ReportMetric(float64(x.b.Elapsed().Nanoseconds())/float64(x.b.N*benchPerEntry), "ns/command")
}

func BenchmarkSubmit(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command { return x.submit(benchPerEntry, false) })
}

func BenchmarkSubmitBatch(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command {
		var c Submit
		for _, s := range x.submit(benchPerEntry, false) {
			c.Namespace = "default"
			c.Tasks = append(c.Tasks, s.(Submit).Tasks...)
		}
		return []Command{c}
	})
}

func BenchmarkSubmitKey(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command { return x.submit(benchPerEntry, true) })
}

func BenchmarkAssign(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command {
		x.apply(x.submit(benchPerEntry, false))
		return x.assign()
	})
}

func BenchmarkFinished(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command {
		x.apply(x.submit(benchPerEntry, false))
		x.apply(x.assign())
		return x.finish()
	})
}

func BenchmarkCancel(b *testing.B) {
	x := newBench(b)
	x.loop(func() []Command {
		x.apply(x.submit(benchPerEntry, false))
		var commands []Command
		for _, t := range x.tasks {
			commands = append(commands, Cancel{Ref: t.Ref()})
		}
		return commands
	})
}

// benchTask is a task as most are.
func benchTask() Task {
	return Task{
		Namespace: "default", ID: job.NewID(scriptStart, 7, 7), Version: 1, State: job.Pending, Job: "mail",
		Policy: job.Policy{Priority: job.Normal}, Due: scriptStart + 1000, Created: scriptStart, MaxRetries: 5,
		IdempotencyKey: "order-1234567", KeyExpiry: scriptStart + 86_400_000, Body: benchPayload,
	}
}

func BenchmarkEncodeTask(b *testing.B) {
	t := benchTask()
	c := newCodec()
	var row []byte
	b.ReportAllocs()
	for b.Loop() {
		row = c.appendTask(row[:0], &t)
	}
}

func BenchmarkDecodeTask(b *testing.B) {
	t := benchTask()
	c := newCodec()
	row := c.appendTask(nil, &t)
	b.ReportAllocs()
	for b.Loop() {
		var t Task
		if err := c.decode(row, &t); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodeSubmit and BenchmarkDecodeSubmit carry a batch of keyed tasks.
func BenchmarkEncodeSubmit(b *testing.B) {
	s := benchBatch(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := EncodeCommand(s); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeSubmit(b *testing.B) {
	encoded, err := EncodeCommand(benchBatch(b))
	if err != nil {
		b.Fatal(err)
	}
	c := newCodec()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeCommand(c, encoded); err != nil {
			b.Fatal(err)
		}
	}
}

func benchBatch(b *testing.B) Submit {
	all := Submit{Namespace: "default"}
	for _, c := range newBench(b).submit(benchPerEntry, true) {
		all.Tasks = append(all.Tasks, c.(Submit).Tasks...)
	}
	return all
}
