package worker

import (
	"container/heap"
	"time"
)

// timed is what waits in a queue. It remembers its place there, for heap.Remove.
type timed interface {
	wakes() time.Duration
	moved(place int)
}

// queue is a heap by when its members wake, the soonest first.
type queue[E timed] []E

var _ heap.Interface = (*queue[*attempt])(nil)

func (q queue[E]) Len() int           { return len(q) }
func (q queue[E]) Less(i, j int) bool { return q[i].wakes() < q[j].wakes() }
func (q queue[E]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].moved(i)
	q[j].moved(j)
}

// Push implements heap.Interface.
func (q *queue[E]) Push(x any) {
	e := x.(E)
	e.moved(len(*q))
	*q = append(*q, e)
}

// Pop implements heap.Interface.
func (q *queue[E]) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	clear((*q)[last:])
	*q = (*q)[:last]
	return e
}

// next is when the first member wakes; never where there is none.
func (q queue[E]) next() time.Duration {
	if len(q) == 0 {
		return never
	}
	return q[0].wakes()
}
