package scheduler

import (
	"fmt"
	"log/slog"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
	"github.com/axd-project/axd/store"
)

func BenchmarkAssign(b *testing.B) {
	for _, workers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := New(Config{Log: nullLog{}, Logger: slog.New(slog.DiscardHandler)})
			l := newLoop(s, 1)
			l.due, l.queues = newDueWindow(0, 1, 0), newReadyQueues(newFairness(func(string) int { return 1 }), false)
			l.workers, l.known = map[string]*workerState{}, map[string]*needs{}
			for i := range workers {
				name := fmt.Sprintf("w%d", i)
				l.workers[name] = &workerState{
					name: name, slots: 1 << 30, room: -1, active: map[fsm.TaskRef]*active{},
					session: &link{}, offers: map[string]bool{"exec": true},
				}
			}
			b.ReportAllocs()
			for i := range b.N {
				ref := fsm.TaskRef{Namespace: "default", ID: job.NewID(0, uint64(i), 0)}
				l.queues.push(&item{ref: ref, priority: job.Normal}, shape{offer: "exec", lane: l.queues.fair.of("default", "")})
				if i%maxAssign == maxAssign-1 {
					l.match(0)
					l.assigning = 0
				}
			}
		})
	}
}

// BenchmarkLoop takes tasks through submit, assign, dispatch and end, 500 at a
// time, and reports what of it the loop costs; apply is not counted.
func BenchmarkLoop(b *testing.B) {
	for _, c := range []struct {
		name  string
		delay time.Duration
	}{{"immediate", 0}, {"armed", time.Second}} {
		b.Run(c.name, func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			x := newBenchLoop(b)
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; done += maxAssign {
				x.round(min(maxAssign, b.N-done), c.delay)
			}
			b.ReportMetric(float64(x.spent.Nanoseconds())/float64(b.N), "loop-ns/task")
		})
	}
}

// benchLoop is a loop without its goroutine, a log that applies when asked, and a
// worker that ends at once what it is sent.
type benchLoop struct {
	b       *testing.B
	l       *loop
	store   store.Store
	machine *fsm.Machine
	now     int64
	index   uint64
	waiting []func()
	sent    []fsm.AttemptRef
	spent   time.Duration // by the loop
}

func newBenchLoop(b *testing.B) *benchLoop {
	x := &benchLoop{b: b, store: store.NewMemory(), machine: fsm.NewMachine(), now: 1_900_000_000_000}
	s := New(Config{
		Log: x, State: x, Logger: slog.New(slog.DiscardHandler), Now: func() int64 { return x.now },
		Mono:     func() time.Duration { return time.Duration(x.now) * time.Millisecond },
		LeaseTTL: 10 * time.Second, Retention: 7 * 24 * time.Hour,
	})
	s.inbox.open()
	x.l = newLoop(s, 1)
	x.l.recover()
	s.leases.grant(boot{"w1", "b1"}, x.l.cfg.Mono(), 100*time.Hour)
	x.apply(fsm.RegisterWorker{Term: 1, Name: "w1", Boot: "b1", Slots: fsm.MaxSlots})
	x.turn()
	w := x.l.workers["w1"]
	w.session, w.offers = x, map[string]bool{"handler:work": true}
	return x
}

func (x *benchLoop) round(n int, delay time.Duration) {
	specs := make([]job.TaskSpec, n)
	for i := range specs {
		specs[i] = handler(delay)
	}
	x.apply(fsm.Submit{Namespace: job.DefaultNamespace, Tasks: specs})
	for x.sent = x.sent[:0]; len(x.sent) < n; {
		x.turn()
		for _, fn := range x.waiting {
			fn()
		}
		x.waiting = x.waiting[:0]
	}
	x.now += delay.Milliseconds() + 1
	x.l.leases.grant(boot{"w1", "b1"}, x.l.cfg.Mono(), 100*time.Hour)
	ends := make([]fsm.Command, n)
	for i, ref := range x.sent {
		ends[i] = fsm.Finished{AttemptRef: ref, Result: fsm.AttemptResult{Outcome: job.OutcomeSuccess, Started: x.now, Ended: x.now}}
	}
	x.apply(ends...)
	x.turn()
}

func (x *benchLoop) turn() {
	began := x.cpu()
	x.l.turn()
	x.spent += x.cpu() - began
}

// cpu is what this thread has spent: other processes don't count.
func (x *benchLoop) cpu() time.Duration {
	const thread = 1 // RUSAGE_THREAD
	var u syscall.Rusage
	if err := syscall.Getrusage(thread, &u); err != nil {
		x.b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func (x *benchLoop) apply(commands ...fsm.Command) []fsm.Result {
	e := fsm.Entry{At: x.now}
	for _, c := range commands {
		encoded, err := fsm.EncodeCommand(c)
		if err != nil {
			x.b.Fatal(err)
		}
		e.Commands = append(e.Commands, encoded)
	}
	entry, err := fsm.EncodeEntry(e)
	if err != nil {
		x.b.Fatal(err)
	}
	x.index++
	batch := x.store.Batch()
	res, events, err := x.machine.Apply(batch, fsm.Meta{Index: x.index, Term: 1}, entry)
	if err != nil {
		x.b.Fatal(err)
	}
	batch.Commit()
	x.l.Events(x.index, events)
	return res
}

func (x *benchLoop) ProposeAsync(c fsm.Command, done func(fsm.Result, error)) {
	x.waiting = append(x.waiting, func() { done(x.apply(c)[0], nil) })
}

func (x *benchLoop) Read() (fsm.Reader, func()) {
	v := x.store.View()
	return v, v.Close
}

func (x *benchLoop) Gone() <-chan struct{}                   { return nil }
func (x *benchLoop) Kill(fsm.AttemptRef, uint32, KillReason) {}
func (x *benchLoop) Revoke([]Held)                           {}
func (x *benchLoop) Dispatch(_ uint64, items []Dispatch) {
	for i := range items {
		x.sent = append(x.sent, fsm.AttemptRef{Ref: items[i].Task.Ref(), Token: items[i].Task.Token})
	}
}

type nullLog struct{}

func (nullLog) ProposeAsync(fsm.Command, func(fsm.Result, error)) {}
