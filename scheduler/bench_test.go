package scheduler

import (
	"fmt"
	"testing"

	"github.com/axd-project/axd/fsm"
	"github.com/axd-project/axd/job"
)

func BenchmarkAssign(b *testing.B) {
	for _, workers := range []int{1, 10, 100} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			s := New(Config{Log: nullLog{}})
			l := newLoop(s, 1)
			l.due, l.queues = newDueWindow(0, 1, 0), newReadyQueues()
			l.workers = map[string]*workerState{}
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
				l.queues.push(&item{ref: ref, priority: job.Normal}, shape{offer: "exec"})
				if i%maxAssign == maxAssign-1 {
					l.match()
					l.assigning = 0
				}
			}
		})
	}
}

type nullLog struct{}

func (nullLog) ProposeAsync(fsm.Command, func(fsm.Result, error)) {}
